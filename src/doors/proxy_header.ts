/**
 * The PROXY protocol, version 2: what a proxy says about the client before the client's own bytes. A
 * pure reading of bytes; the rules of 02b 4.5 are in `believedName`.
 */

/** The longest header that is read; proxies write a few hundred bytes. */
export const LONGEST_PROXY_HEADER_BYTES = 16 * 1024;

const SIGNATURE = Uint8Array.of(
  ...[0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a],
);
/** How a version 1 header begins. */
const VERSION_1 = new TextEncoder().encode("PROXY ");
/** Signature, version and command, family and transport, length of the rest. */
const FIXED_BYTES = 16;

const COMMAND_LOCAL = 0x0;
const COMMAND_PROXY = 0x1;

const FAMILY_INET = 0x1;
const FAMILY_INET6 = 0x2;
const FAMILY_UNIX = 0x3;
/** Bytes that both addresses and both ports take, by family. */
const ADDRESS_BYTES = [0, 12, 36, 216];
/** The highest transport there is: 0 unspecified, 1 stream, 2 datagram. */
const LAST_TRANSPORT = 0x2;

/** Types of entries (TLVs); all others are accepted unread. */
const TYPE_SSL = 0x20;
const SUBTYPE_SSL_CN = 0x22;

const CLIENT_SSL = 0x01;
const CLIENT_CERT_CONN = 0x02;
const CLIENT_CERT_SESS = 0x04;

/** What the proxy says about TLS between the client and itself. */
export interface ProxyTls {
  readonly used: boolean;
  /** The client showed a certificate, on this connection or in the session it resumed. */
  readonly certificate: boolean;
  /** 0: verified; otherwise the proxy's own code. */
  readonly verifyResult: number;
  readonly commonName: string | undefined;
}

export interface ProxyHeader {
  /** The client's `address:port`; undefined for a connection of the proxy's own, or of no known kind. */
  readonly source: string | undefined;
  readonly tls: ProxyTls | undefined;
}

export type ProxyReading =
  /** It takes so many bytes in all to get further; they are never past the header. */
  | { readonly state: "incomplete"; readonly needed: number }
  | { readonly state: "complete"; readonly size: number; readonly header: ProxyHeader }
  /** Why it is no acceptable header: the end of a sentence. */
  | { readonly state: "refused"; readonly reason: string };

/** Reads the header that `bytes` begin with. */
export function readProxyHeader(bytes: Uint8Array): ProxyReading {
  const compared = Math.min(bytes.length, SIGNATURE.length);
  for (let i = 0; i < compared; i++) {
    if (bytes[i] !== SIGNATURE[i]) return notVersion2(bytes);
  }
  if (bytes.length < FIXED_BYTES) return { state: "incomplete", needed: FIXED_BYTES };
  const version = bytes[12] >> 4;
  const command = bytes[12] & 0x0f;
  if (version !== 2) return refused(`the PROXY header has version ${version}, not 2`);
  if (command > COMMAND_PROXY) {
    return refused(`the PROXY header has the unknown command ${command}`);
  }
  const size = FIXED_BYTES + uint16(bytes, 14);
  if (size > LONGEST_PROXY_HEADER_BYTES) {
    return refused(
      `the PROXY header has ${size} bytes, more than the ${LONGEST_PROXY_HEADER_BYTES} allowed`,
    );
  }
  if (bytes.length < size) return { state: "incomplete", needed: size };
  // What a proxy's own connection says about addresses is to be discarded.
  if (command === COMMAND_LOCAL) {
    return { state: "complete", size, header: { source: undefined, tls: undefined } };
  }
  const family = bytes[13] >> 4;
  const transport = bytes[13] & 0x0f;
  if (family >= ADDRESS_BYTES.length || transport > LAST_TRANSPORT) {
    return refused(`the PROXY header has the unknown family and transport ${bytes[13]}`);
  }
  const entries = FIXED_BYTES + ADDRESS_BYTES[family];
  if (entries > size) return refused("the PROXY header ends inside its addresses");
  const tls = readTls(bytes, entries, size);
  if (tls === MALFORMED) return refused("the PROXY header has malformed entries");
  return {
    state: "complete",
    size,
    header: { source: sourceAddress(bytes, family), tls },
  };
}

/** The name that the proxy vouches for (02b 4.5): verified, of a certificate that was really shown. */
export function believedName(tls: ProxyTls | undefined): string | undefined {
  if (tls === undefined || !tls.used || !tls.certificate || tls.verifyResult !== 0) {
    return undefined;
  }
  return tls.commonName;
}

function refused(reason: string): ProxyReading {
  return { state: "refused", reason };
}

function notVersion2(bytes: Uint8Array): ProxyReading {
  const compared = Math.min(bytes.length, VERSION_1.length);
  for (let i = 0; i < compared; i++) {
    if (bytes[i] !== VERSION_1[i]) {
      return refused("the connection does not begin with a PROXY protocol version 2 header");
    }
  }
  if (compared < VERSION_1.length) return { state: "incomplete", needed: VERSION_1.length };
  return refused(
    "the proxy sent a PROXY protocol version 1 header; set it to version 2 " +
      "(HAProxy: send-proxy-v2-ssl-cn; nginx: proxy_protocol v2)",
  );
}

const MALFORMED: unique symbol = Symbol("malformed");

/** The SSL entry among those in [from, end). */
function readTls(
  bytes: Uint8Array,
  from: number,
  end: number,
): ProxyTls | undefined | typeof MALFORMED {
  let tls: ProxyTls | undefined;
  for (let at = from; at < end;) {
    if (at + 3 > end) return MALFORMED;
    const value = at + 3;
    const next = value + uint16(bytes, at + 1);
    if (next > end) return MALFORMED;
    if (bytes[at] === TYPE_SSL) {
      // Of two of them nobody could say which one is true.
      if (tls !== undefined || value + 5 > next) return MALFORMED;
      const commonName = readCommonName(bytes, value + 5, next);
      if (commonName === MALFORMED) return MALFORMED;
      const client = bytes[value];
      tls = {
        used: (client & CLIENT_SSL) !== 0,
        certificate: (client & (CLIENT_CERT_CONN | CLIENT_CERT_SESS)) !== 0,
        verifyResult: uint16(bytes, value + 1) * 0x1_0000 + uint16(bytes, value + 3),
        commonName,
      };
    }
    at = next;
  }
  return tls;
}

function readCommonName(
  bytes: Uint8Array,
  from: number,
  end: number,
): string | undefined | typeof MALFORMED {
  let name: string | undefined;
  let found = false;
  for (let at = from; at < end;) {
    if (at + 3 > end) return MALFORMED;
    const value = at + 3;
    const next = value + uint16(bytes, at + 1);
    if (next > end) return MALFORMED;
    if (bytes[at] === SUBTYPE_SSL_CN) {
      if (found) return MALFORMED;
      found = true;
      name = utf8(bytes.subarray(value, next));
    }
    at = next;
  }
  return name;
}

/** The text, verbatim; undefined for one that is empty or not UTF-8. */
function utf8(bytes: Uint8Array): string | undefined {
  if (bytes.length === 0) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function sourceAddress(bytes: Uint8Array, family: number): string | undefined {
  switch (family) {
    case FAMILY_INET:
      return `${bytes.subarray(16, 20).join(".")}:${uint16(bytes, 24)}`;
    case FAMILY_INET6: {
      const groups: string[] = [];
      for (let at = 16; at < 32; at += 2) groups.push(uint16(bytes, at).toString(16));
      return `[${compressed(groups)}]:${uint16(bytes, 48)}`;
    }
    case FAMILY_UNIX:
      return "unix";
    default:
      return undefined;
  }
}

/** IPv6 groups with their longest run of zeros, the first of equals, written as `::` (RFC 5952). */
function compressed(groups: readonly string[]): string {
  let start = -1;
  let length = 1;
  for (let i = 0; i < groups.length; i++) {
    let run = 0;
    while (i + run < groups.length && groups[i + run] === "0") run++;
    if (run > length) [start, length] = [i, run];
  }
  if (start < 0) return groups.join(":");
  return groups.slice(0, start).join(":") + "::" + groups.slice(start + length).join(":");
}

function uint16(bytes: Uint8Array, at: number): number {
  return bytes[at] << 8 | bytes[at + 1];
}
