import assert from "node:assert/strict";
import {
  believedName,
  LONGEST_PROXY_HEADER_BYTES,
  type ProxyHeader,
  readProxyHeader,
} from "../../src/doors/proxy_header.ts";
import { join } from "../support/mqtt_bytes.ts";
import { seeded } from "../support/random.ts";
import { entry, haproxy, INET, INET6, nginx, proxyHeader, ssl, text } from "./proxy_bytes.ts";

function complete(bytes: Uint8Array): ProxyHeader {
  const reading = readProxyHeader(bytes);
  assert.ok(reading.state === "complete", JSON.stringify(reading));
  assert.equal(reading.size, bytes.length);
  return reading.header;
}

function refusal(bytes: Uint8Array): string {
  const reading = readProxyHeader(bytes);
  assert.ok(reading.state === "refused", JSON.stringify(reading));
  return reading.reason;
}

Deno.test("02a 18.1 the client's address is the one in the header", () => {
  assert.equal(complete(proxyHeader()).source, "192.0.2.7:49152");
  const six = proxyHeader({ family: 0x21, addresses: INET6 });
  assert.equal(complete(six).source, "[2001:db8::5]:49152");
  const socket = proxyHeader({ family: 0x31, addresses: new Uint8Array(216) });
  assert.equal(complete(socket).source, "unix");
  const unknown = proxyHeader({ family: 0x00, addresses: new Uint8Array(0) });
  assert.equal(complete(unknown).source, undefined);
});

Deno.test("an IPv6 address is written as RFC 5952 says", () => {
  const forms: [string, string][] = [
    ["00000000000000000000000000000001", "[::1]:0"],
    ["00000000000000000000000000000000", "[::]:0"],
    ["20010db8000000000001000000000001", "[2001:db8::1:0:0:1]:0"],
    ["20010db8000100010001000100010001", "[2001:db8:1:1:1:1:1:1]:0"],
    ["20010db8000000010001000100010001", "[2001:db8:0:1:1:1:1:1]:0"],
    ["fe800000000000000000000000000000", "[fe80::]:0"],
  ];
  for (const [hex, written] of forms) {
    const addresses = new Uint8Array(36);
    addresses.set(Uint8Array.from(hex.match(/../g)!, (byte) => parseInt(byte, 16)));
    assert.equal(complete(proxyHeader({ family: 0x21, addresses })).source, written);
  }
});

Deno.test("02a 18.1 HAProxy's send-proxy-v2-ssl-cn and nginx's proxy_protocol v2 are read", () => {
  for (const bytes of [haproxy("device-1"), nginx("device-1")]) {
    const { tls } = complete(bytes);
    assert.deepEqual(tls, {
      used: true,
      certificate: true,
      verifyResult: 0,
      commonName: "device-1",
    });
    assert.equal(believedName(tls), "device-1");
  }
});

Deno.test("02b 4.5 a name is believed only of a verified certificate that was shown over TLS", () => {
  const cn = text(0x22, "device-1");
  const cases: [Uint8Array, string | undefined][] = [
    [ssl(0x03, 0, cn), "device-1"],
    [ssl(0x05, 0, cn), "device-1"],
    [ssl(0x07, 0, cn), "device-1"],
    [ssl(0x01, 0, cn), undefined],
    [ssl(0x02, 0, cn), undefined],
    [ssl(0x06, 0, cn), undefined],
    [ssl(0x00, 0, cn), undefined],
    [ssl(0x07, 21, cn), undefined],
    [ssl(0x07, 0x0100_0000, cn), undefined],
    [ssl(0x07, 0), undefined],
    [ssl(0x07, 0, text(0x22, "")), undefined],
    [ssl(0x07, 0, entry(0x22, [0xff])), undefined],
    [cn, undefined],
  ];
  for (const [tlv, name] of cases) {
    const { tls } = complete(proxyHeader({ entries: [tlv] }));
    assert.equal(believedName(tls), name, JSON.stringify(tls));
  }
  assert.equal(believedName(complete(proxyHeader()).tls), undefined);
});

Deno.test("02b 4.5 the verify result is told, all 32 bits of it", () => {
  const read = (verify: number) =>
    complete(proxyHeader({ entries: [ssl(0x07, verify)] })).tls?.verifyResult;
  assert.equal(read(21), 21);
  assert.equal(read(0xffff_ffff), 0xffff_ffff);
});

Deno.test("02b 4.5 a Common Name comes verbatim", () => {
  for (const name of ["\ufeffa", "a\u0000b", " ä ", "a,CN=b"]) {
    const { tls } = complete(proxyHeader({ entries: [ssl(0x07, 0, text(0x22, name))] }));
    assert.equal(believedName(tls), name);
  }
});

Deno.test("02a 18.1 a connection of the proxy's own has neither address nor name", () => {
  const bytes = proxyHeader({ command: 0, entries: [ssl(0x07, 0, text(0x22, "device-1"))] });
  assert.deepEqual(complete(bytes), { source: undefined, tls: undefined });
});

Deno.test("02a 18.1 a version 1 header is refused by name, as soon as it shows", () => {
  for (const line of ["PROXY TCP4 192.0.2.7 198.51.100.1 49152 8883\r\n", "PROXY "]) {
    assert.match(refusal(new TextEncoder().encode(line)), /version 1 header; set it to version 2/);
  }
  const start = readProxyHeader(new TextEncoder().encode("PRO"));
  assert.deepEqual(start, { state: "incomplete", needed: 6 });
});

Deno.test("02a 18.1 what is no header is refused at its first byte that is not one's", () => {
  const says = /does not begin with a PROXY protocol version 2 header/;
  assert.match(refusal(Uint8Array.of(0x10)), says);
  assert.match(refusal(new TextEncoder().encode("PRINT")), says);
  const bytes = proxyHeader();
  for (let at = 0; at < 12; at++) {
    const spoiled = bytes.slice(0, at + 1);
    spoiled[at] ^= 0x40;
    assert.match(refusal(spoiled), says, `byte ${at}`);
  }
});

Deno.test("a header of another version, command, family or transport is refused", () => {
  assert.match(refusal(proxyHeader({ version: 1 })), /version 1, not 2/);
  assert.match(refusal(proxyHeader({ version: 3 })), /version 3, not 2/);
  assert.match(refusal(proxyHeader({ command: 2 })), /unknown command 2/);
  assert.match(refusal(proxyHeader({ family: 0x41 })), /unknown family/);
  assert.match(refusal(proxyHeader({ family: 0x13 })), /unknown family/);
});

Deno.test("a header whose inside overruns its length is refused", () => {
  assert.match(refusal(proxyHeader({ addresses: INET.subarray(0, 11) })), /inside its addresses/);
  const entries: Uint8Array[] = [
    Uint8Array.of(0x20),
    Uint8Array.of(0x20, 0, 5, 7, 0, 0, 0),
    entry(0x20, [7, 0, 0, 0]),
    entry(0x20, [7, 0, 0, 0, 0, 0x22, 0]),
    entry(0x20, [7, 0, 0, 0, 0, 0x22, 0, 2, 0x61]),
    join(ssl(7, 0), ssl(7, 0)),
    ssl(7, 0, text(0x22, "a"), text(0x22, "b")),
  ];
  for (const bytes of entries) {
    assert.match(refusal(proxyHeader({ entries: [bytes] })), /malformed entries/);
  }
});

Deno.test("a header over the bound is refused before it is read", () => {
  const size = LONGEST_PROXY_HEADER_BYTES - 16 - INET.length - 3;
  complete(proxyHeader({ entries: [entry(0x04, new Uint8Array(size))] }));
  const long = proxyHeader({ entries: [entry(0x04, new Uint8Array(size + 1))] });
  assert.match(refusal(long.subarray(0, 16)), /more than the 16384 allowed/);
});

Deno.test("a header in pieces asks for what is missing, and never past its end", () => {
  const header = nginx("device-1");
  const bytes = join(header, [0x10, 0x0c]);
  for (let have = 0; have < header.length; have++) {
    const reading = readProxyHeader(bytes.subarray(0, have));
    assert.ok(reading.state === "incomplete", `${have}: ${JSON.stringify(reading)}`);
    assert.ok(reading.needed > have && reading.needed <= header.length);
  }
  const reading = readProxyHeader(bytes);
  assert.ok(reading.state === "complete" && reading.size === header.length);
});

Deno.test("spoiled headers are answered, never with an error, and believed only where they say so", () => {
  const random = seeded("proxy headers");
  let believed = 0;
  for (let i = 0; i < 50_000; i++) {
    const good = random.pick([haproxy, nginx])("device-1", random.pick([0, 21]));
    const bytes = good.slice(0, random.chance(0.2) ? random.below(good.length) : good.length);
    for (let count = random.below(3); count > 0 && bytes.length > 12; count--) {
      bytes[random.between(12, bytes.length - 1)] = random.below(256);
    }
    const reading = readProxyHeader(bytes);
    if (reading.state === "incomplete") assert.ok(reading.needed > bytes.length);
    if (reading.state !== "complete") continue;
    assert.ok(reading.size <= bytes.length);
    const { tls } = reading.header;
    if (believedName(tls) === undefined) continue;
    assert.ok(tls!.used && tls!.certificate && tls!.verifyResult === 0);
    believed++;
  }
  assert.ok(believed > 1_000, `only ${believed} were believed`);
});
