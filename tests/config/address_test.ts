import assert from "node:assert/strict";
import { addressFault, clash, isLoopback, parseAddress } from "../../src/config/address.ts";

Deno.test("02b 4.1 an address is host and port, with IPv6 in brackets", () => {
  const read = (text: string) => {
    const { host, port } = parseAddress(text);
    return [host, port];
  };
  assert.deepEqual(read(":1883"), ["", 1883]);
  assert.deepEqual(read("0.0.0.0:0"), ["0.0.0.0", 0]);
  assert.deepEqual(read("[::1]:8883"), ["::1", 8883]);
  assert.deepEqual(read("[::]:65535"), ["::", 65535]);
  assert.deepEqual(read("[fe80::1%eth0]:1883"), ["fe80::1%eth0", 1883]);
  assert.deepEqual(read("broker-1.example.:mqtt"), ["broker-1.example.", 1883]);
  assert.deepEqual(read("localhost:secure-mqtt"), ["localhost", 8883]);
});

Deno.test("02b 4.1 ports are compared and read as numbers", () => {
  assert.equal(parseAddress(":032010").port, 32010);
  assert.equal(parseAddress(":+32010").port, 32010);
});

Deno.test("02a 16.1 what is no address is refused with what to write", () => {
  const faults: readonly (readonly [string, RegExp])[] = [
    ["1883", /has no port/],
    ["127.0.0.1", /has no port/],
    ["127.0.0.1:", /no port from 0 to 65535/],
    ["127.0.0.1:65536", /no port from 0 to 65535/],
    ["127.0.0.1:-1", /no port from 0 to 65535/],
    ["127.0.0.1:nosuchservice", /no port from 0 to 65535/],
    ["::1:1883", /IPv6 address without brackets/],
    ["[::1]", /IPv6 address without brackets/],
    ["[127.0.0.1]:1883", /brackets around no IPv6 address/],
    ["[::1", /IPv6 address without brackets/],
    ["[::x]:1883", /no IPv6 address/],
    ["[fe80::1%]:1883", /no zone after it/],
    ["[fe80::1]:1883", /link-local without a zone/],
    ["[ff02::1%eth0]:1883", /multicast/],
    ["[ff02::1]:1883", /multicast/],
    ["1.2.3:1883", /no IPv4 address/],
    ["256.1.1.1:1883", /no IPv4 address/],
    ["-a.example:1883", /neither an address nor a host name/],
    ["a_b:1883", /neither an address nor a host name/],
    ["a..b:1883", /neither an address nor a host name/],
    [`${"a".repeat(64)}:1883`, /neither an address nor a host name/],
    ["a b:1883", /neither an address nor a host name/],
  ];
  for (const [text, says] of faults) assert.match(addressFault(text) ?? "accepted", says, text);
});

Deno.test("02b 4.1 two doors clash on one port with equal hosts or a wildcard", () => {
  const clashes = (a: string, b: string) => {
    const one = clash(parseAddress(a), parseAddress(b));
    assert.equal(clash(parseAddress(b), parseAddress(a)), one, "clashing is mutual");
    return one;
  };
  assert.ok(clashes(":1883", "127.0.0.1:1883"));
  assert.ok(clashes("0.0.0.0:1883", "[::1]:1883"));
  assert.ok(clashes("[::]:1883", "a.example:1883"));
  assert.ok(clashes("[0:0::0]:1883", "10.0.0.1:1883"));
  assert.ok(clashes("127.0.0.1:32010", "127.0.0.1:032010"));
  assert.ok(clashes("[::ffff:127.0.0.1]:1883", "127.0.0.1:1883"));
  assert.ok(clashes("[::ffff:7f00:1]:1883", "127.0.0.1:1883"));
  assert.ok(clashes("[2001:db8::1]:1883", "[2001:0DB8:0::0001]:1883"));
  assert.ok(clashes("[2001:db8::1%a]:1883", "[2001:db8::1%b]:1883"));
  assert.ok(clashes("A.example:1883", "a.EXAMPLE.:1883"));
  assert.ok(clashes("[::ffff:0.0.0.0]:1883", "10.0.0.1:1883"));

  assert.ok(!clashes(":1883", ":1884"));
  assert.ok(!clashes(":0", ":0"));
  assert.ok(!clashes("127.0.0.1:1883", "127.0.0.2:1883"));
  assert.ok(!clashes("[fe80::1%a]:1883", "[fe80::1%b]:1883"));
  assert.ok(!clashes("localhost:1883", "127.0.0.1:1883"));
});

Deno.test("02b 9 loopback is what only this machine reaches", () => {
  for (
    const text of ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"]
  ) {
    assert.ok(isLoopback(parseAddress(text)), text);
  }
  for (const text of [":1", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "a.example:1", "[::2]:1"]) {
    assert.ok(!isLoopback(parseAddress(text)), text);
  }
});
