/**
 * Certificates made by the test that needs them, with the keys and the signing of node:crypto and DER
 * written here: so a test may have what no tool would make.
 */
import { Buffer } from "node:buffer";
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

export type Algorithm = "ecdsa" | "rsa";

const DAY_MS = 86_400_000;

export interface Subject {
  /** Common Names, as UTF8String, in the order of the subject. */
  readonly commonName?: string | readonly string[];
  /** DNS names of the subjectAltName. */
  readonly dns?: readonly string[];
  /** Further GeneralNames before the DNS names, ready-made DER. */
  readonly otherNames?: readonly Uint8Array[];
  /** In place of the whole subject: ready-made DER of a Name. */
  readonly subject?: Uint8Array;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  readonly algorithm?: Algorithm;
  /** May sign others. */
  readonly authority?: boolean;
}

/** A certificate and its key; the texts are PEM. */
export class Certified {
  constructor(
    readonly der: Uint8Array,
    readonly cert: string,
    readonly key: string,
    private readonly name: Uint8Array,
    private readonly privateKey: KeyObject,
  ) {}

  /** One that nobody else vouches for. */
  static authority(commonName: string, algorithm: Algorithm = "ecdsa"): Certified {
    return make({ commonName, algorithm, authority: true }, undefined);
  }

  issue(subject: Subject): Certified {
    return make(subject, { name: this.name, privateKey: this.privateKey });
  }
}

function make(
  subject: Subject,
  issuer: { readonly name: Uint8Array; readonly privateKey: KeyObject } | undefined,
): Certified {
  const { publicKey, privateKey } = subject.algorithm === "rsa"
    ? generateKeyPairSync("rsa", { modulusLength: 2048 })
    : generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const name = subject.subject ?? distinguishedName(subject.commonName);
  const signingKey = issuer?.privateKey ?? privateKey;
  const algorithm = signingKey.asymmetricKeyType === "rsa"
    ? sequence(identifier(1, 2, 840, 113549, 1, 1, 11), der(0x05))
    : sequence(identifier(1, 2, 840, 10045, 4, 3, 2));
  const now = Date.now();
  const tbs = sequence(
    der(0xa0, der(0x02, Uint8Array.of(2))),
    der(0x02, Uint8Array.of(0x40, ...randomBytes(8))),
    algorithm,
    issuer?.name ?? name,
    sequence(
      time(subject.notBefore ?? new Date(now - DAY_MS)),
      time(subject.notAfter ?? new Date(now + DAY_MS)),
    ),
    name,
    new Uint8Array(publicKey.export({ type: "spki", format: "der" })),
    der(0xa3, sequence(...extensions(subject))),
  );
  const signature = new Uint8Array(sign("sha256", tbs, signingKey));
  const certificate = sequence(tbs, algorithm, der(0x03, Uint8Array.of(0), signature));
  const base64 = Buffer.from(certificate).toString("base64").replace(/(.{64})/g, "$1\n").trimEnd();
  return new Certified(
    certificate,
    `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`,
    privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    name,
    privateKey,
  );
}

/** A Name of these Common Names, each of which may be other than UTF-8: a tag and its content. */
export function distinguishedName(
  names: string | readonly (string | readonly [tag: number, content: Uint8Array])[] = [],
): Uint8Array {
  const list = typeof names === "string" ? [names] : names;
  return sequence(
    ...list.map((name) =>
      der(
        0x31,
        sequence(
          identifier(2, 5, 4, 3),
          typeof name === "string"
            ? der(0x0c, new TextEncoder().encode(name))
            : der(name[0], name[1]),
        ),
      )
    ),
  );
}

function extensions(subject: Subject): Uint8Array[] {
  const found: Uint8Array[] = [];
  const critical = der(0x01, Uint8Array.of(0xff));
  if (subject.authority === true) {
    const basic = sequence(der(0x01, Uint8Array.of(0xff)));
    found.push(sequence(identifier(2, 5, 29, 19), critical, der(0x04, basic)));
  }
  const names = [
    ...subject.otherNames ?? [],
    ...(subject.dns ?? []).map((name) => der(0x82, new TextEncoder().encode(name))),
  ];
  if (names.length > 0) {
    found.push(sequence(identifier(2, 5, 29, 17), der(0x04, sequence(...names))));
  }
  // Two further ones, so that what is looked for does not stand alone.
  found.push(sequence(identifier(2, 5, 29, 14), der(0x04, der(0x04, randomBytes(20)))));
  return found;
}

/** One DER value: a tag and its content. */
export function der(tag: number, ...contents: readonly Uint8Array[]): Uint8Array {
  const length = contents.reduce((sum, { length }) => sum + length, 0);
  const header = length < 0x80
    ? [tag, length]
    : length < 0x100
    ? [tag, 0x81, length]
    : [tag, 0x82, length >> 8, length & 0xff];
  const bytes = new Uint8Array(header.length + length);
  bytes.set(header);
  let at = header.length;
  for (const content of contents) {
    bytes.set(content, at);
    at += content.length;
  }
  return bytes;
}

function sequence(...contents: readonly Uint8Array[]): Uint8Array {
  return der(0x30, ...contents);
}

function identifier(first: number, second: number, ...arcs: readonly number[]): Uint8Array {
  const bytes = [first * 40 + second];
  for (const arc of arcs) {
    const groups = [arc & 0x7f];
    for (let rest = arc >> 7; rest > 0; rest >>= 7) groups.unshift(rest & 0x7f | 0x80);
    bytes.push(...groups);
  }
  return der(0x06, Uint8Array.from(bytes));
}

/** GeneralizedTime. */
function time(at: Date): Uint8Array {
  const text = at.toISOString().replace(/[-:T]/g, "").slice(0, 14) + "Z";
  return der(0x18, new TextEncoder().encode(text));
}
