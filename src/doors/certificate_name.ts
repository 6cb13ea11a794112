/**
 * Who a client certificate names (02b 4.4): its Common Name, else its first DNS name, read from the
 * certificate's own bytes, because text renderings of these fields can be made to say something else.
 * Decides nothing about whether the certificate is to be believed.
 */

const SEQUENCE = 0x30;
const SET = 0x31;
const OBJECT_IDENTIFIER = 0x06;
const OCTET_STRING = 0x04;
const BOOLEAN = 0x01;
const UTF8_STRING = 0x0c;
const PRINTABLE_STRING = 0x13;
const TELETEX_STRING = 0x14;
const IA5_STRING = 0x16;
const UNIVERSAL_STRING = 0x1c;
const BMP_STRING = 0x1e;
/** `[0] version` and `[3] extensions` of a TBSCertificate. */
const VERSION = 0xa0;
const EXTENSIONS = 0xa3;
/** `[2] dNSName` of a GeneralName. */
const DNS_NAME = 0x82;

/** 2.5.4.3 */
const COMMON_NAME = "55 04 03";
/** 2.5.29.17 */
const SUBJECT_ALT_NAME = "55 1d 11";

/** One value of DER: its tag and where its content lies. */
interface Value {
  readonly tag: number;
  readonly from: number;
  readonly to: number;
}

/**
 * The name, verbatim; undefined when there is neither a Common Name nor a DNS name, or the bytes are no
 * certificate. Of several Common Names the first counts.
 *
 * @param der one certificate, as `getPeerCertificate().raw` gives it
 */
export function certificateName(der: Uint8Array): string | undefined {
  try {
    return new Certificate(der).name();
  } catch (error) {
    if (error instanceof NotDer) return undefined;
    throw error;
  }
}

class NotDer extends Error {}

class Certificate {
  constructor(private readonly bytes: Uint8Array) {}

  name(): string | undefined {
    const [certificate] = this.#values({ tag: SEQUENCE, from: 0, to: this.bytes.length });
    const [tbs] = this.#values(expect(certificate, SEQUENCE));
    const fields = this.#values(expect(tbs, SEQUENCE));
    // [version], serialNumber, signature, issuer, validity, subject, ...
    const subject = fields[fields[0]?.tag === VERSION ? 5 : 4];
    return this.#commonName(expect(subject, SEQUENCE)) ??
      this.#dnsName(fields.find(({ tag }) => tag === EXTENSIONS));
  }

  #commonName(subject: Value): string | undefined {
    for (const set of this.#values(subject)) {
      for (const attribute of this.#values(expect(set, SET))) {
        const [type, value] = this.#values(expect(attribute, SEQUENCE));
        if (this.#identifier(type) !== COMMON_NAME) continue;
        const name = this.#text(value);
        if (name !== "") return name;
      }
    }
    return undefined;
  }

  #dnsName(extensions: Value | undefined): string | undefined {
    if (extensions === undefined) return undefined;
    const [list] = this.#values(extensions);
    for (const extension of this.#values(expect(list, SEQUENCE))) {
      const [type, ...rest] = this.#values(expect(extension, SEQUENCE));
      if (this.#identifier(type) !== SUBJECT_ALT_NAME) continue;
      const content = rest[0]?.tag === BOOLEAN ? rest[1] : rest[0];
      const [names] = this.#values(expect(content, OCTET_STRING));
      for (const name of this.#values(expect(names, SEQUENCE))) {
        if (name.tag !== DNS_NAME) continue;
        const text = latin1(this.bytes.subarray(name.from, name.to));
        if (text !== "") return text;
      }
    }
    return undefined;
  }

  /** The values that lie in another one, whole. */
  #values(parent: Value): Value[] {
    const values: Value[] = [];
    for (let at = parent.from; at < parent.to;) {
      const value = this.#value(at, parent.to);
      values.push(value);
      at = value.to;
    }
    return values;
  }

  #value(at: number, end: number): Value {
    const { bytes } = this;
    if (at + 2 > end) throw new NotDer();
    const tag = bytes[at];
    let length = bytes[at + 1];
    let from = at + 2;
    if (length >= 0x80) {
      const count = length & 0x7f;
      if (count === 0 || count > 3 || from + count > end) throw new NotDer();
      length = 0;
      for (let i = 0; i < count; i++) length = length * 256 + bytes[from++];
    }
    if (from + length > end) throw new NotDer();
    return { tag, from, to: from + length };
  }

  #identifier(value: Value | undefined): string {
    const { from, to } = expect(value, OBJECT_IDENTIFIER);
    return [...this.bytes.subarray(from, to)].map((byte) => byte.toString(16).padStart(2, "0"))
      .join(" ");
  }

  #text(value: Value | undefined): string {
    if (value === undefined) throw new NotDer();
    const content = this.bytes.subarray(value.from, value.to);
    switch (value.tag) {
      case UTF8_STRING:
        return utf8(content);
      case PRINTABLE_STRING:
      case IA5_STRING:
      case TELETEX_STRING:
        return latin1(content);
      case BMP_STRING:
        return wide(content, 2);
      case UNIVERSAL_STRING:
        return wide(content, 4);
      default:
        throw new NotDer();
    }
  }
}

function expect(value: Value | undefined, tag: number): Value {
  if (value?.tag !== tag) throw new NotDer();
  return value;
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new NotDer();
  }
}

function latin1(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

/** Characters of two or four bytes each, the highest first. */
function wide(bytes: Uint8Array, size: 2 | 4): string {
  if (bytes.length % size !== 0) throw new NotDer();
  let text = "";
  for (let at = 0; at < bytes.length; at += size) {
    let code = 0;
    for (let i = 0; i < size; i++) code = code * 256 + bytes[at + i];
    if (code > 0x10ffff) throw new NotDer();
    text += size === 2 ? String.fromCharCode(code) : String.fromCodePoint(code);
  }
  return text;
}
