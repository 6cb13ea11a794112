import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { certificateName } from "../../src/doors/certificate_name.ts";
import { Certified, der, distinguishedName, type Subject } from "../support/certificates.ts";
import { seeded } from "../support/random.ts";

const authority = Certified.authority("authority");

function nameOf(subject: Subject): string | undefined {
  return certificateName(authority.issue(subject).der);
}

function ascii(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

Deno.test("02b 4.4 the Common Name names the client, verbatim", () => {
  for (const name of ["device-1", "CN=x, O=y", " a b ", "\ufeffé€😀", "a\u0000b", "a\nb"]) {
    assert.equal(nameOf({ commonName: name, dns: ["other"] }), name);
  }
});

Deno.test("02b 4.4 of several Common Names the first counts", () => {
  assert.equal(nameOf({ commonName: ["first", "second"] }), "first");
  assert.equal(nameOf({ commonName: ["", "second"] }), "second");
});

Deno.test("02b 4.4 without a Common Name the first DNS name counts", () => {
  assert.equal(nameOf({ dns: ["b.example", "c.example"] }), "b.example");
  assert.equal(nameOf({ commonName: "", dns: ["b.example"] }), "b.example");
});

Deno.test("02b 4.4 names of other kinds name nobody, whatever they spell", () => {
  const mail = der(0x81, ascii("x, DNS:admin"));
  assert.equal(nameOf({ otherNames: [mail] }), undefined);
  assert.equal(nameOf({ otherNames: [mail], dns: ["b, DNS:admin"] }), "b, DNS:admin");
});

Deno.test("02b 4.4 a certificate with neither names nobody", () => {
  assert.equal(nameOf({}), undefined);
});

Deno.test("a Common Name is read in every string type of X.520", () => {
  const forms: [number, Uint8Array, string][] = [
    [0x13, ascii("printable"), "printable"],
    [0x16, ascii("ia5"), "ia5"],
    [0x14, Uint8Array.of(0x74, 0xe9), "té"],
    [0x1e, Uint8Array.of(0, 0x62, 0x20, 0xac), "b€"],
    [0x1c, Uint8Array.of(0, 0, 0, 0x75, 0, 1, 0xf6, 0), "u😀"],
  ];
  for (const [tag, content, expected] of forms) {
    assert.equal(nameOf({ subject: distinguishedName([[tag, content]]) }), expected);
  }
});

Deno.test("a Common Name that is no text of its type names nobody", () => {
  const forms: [number, Uint8Array][] = [
    [0x0c, Uint8Array.of(0x61, 0xff)],
    [0x1e, Uint8Array.of(0x61)],
    [0x1c, Uint8Array.of(0xff, 0, 0, 0)],
    [0x02, Uint8Array.of(1)],
  ];
  for (const [tag, content] of forms) {
    assert.equal(nameOf({ subject: distinguishedName([[tag, content]]), dns: ["x"] }), undefined);
  }
});

Deno.test("the made certificates are what the runtime takes them for", () => {
  const certificate = authority.issue({ commonName: "device-1", dns: ["localhost"] });
  const read = new X509Certificate(certificate.cert);
  assert.equal(read.subject, "CN=device-1");
  assert.equal(read.subjectAltName, "DNS:localhost");
  assert.ok(read.verify(new X509Certificate(authority.cert).publicKey));
});

Deno.test("spoiled certificates are answered with a name or without, never with an error", () => {
  const random = seeded("certificates");
  const { der: good } = authority.issue({ commonName: "device-1", dns: ["localhost"] });
  for (let i = 0; i < 20_000; i++) {
    const bytes = good.slice(0, random.chance(0.3) ? random.below(good.length) : good.length);
    for (let spoiled = random.below(4); spoiled >= 0 && bytes.length > 0; spoiled--) {
      bytes[random.below(bytes.length)] = random.below(256);
    }
    const name = certificateName(bytes);
    assert.ok(name === undefined || name.length > 0);
  }
});
