import assert from "node:assert/strict";
import { PositionLosses } from "../../src/broker/losses.ts";
import { Reason, refusalName } from "../../src/broker/reason.ts";
import { cutToBytes, RefusedClients } from "../../src/broker/refusals.ts";

Deno.test("05 7.6 a client has one row: refusals add up, the rest is of the latest", () => {
  const refused = new RefusedClients();
  refused.add("c", "ada", "quota exceeded", 1n, 100);
  refused.add("c", "", "not authorized", 2n, 100);
  refused.add("", "ada", "malformed packet", 3n, 100);
  assert.deepEqual([...refused.values()], [
    { clientId: "c", count: 2, user: "", reason: "not authorized", lastSeen: 2n },
    { clientId: "", count: 1, user: "ada", reason: "malformed packet", lastSeen: 3n },
  ]);
  assert.equal(refused.beyond, 0);
});

Deno.test("05 7.6 a full record takes a newcomer in place of one refused once, and counts what it lost", () => {
  const refused = new RefusedClients(3);
  const add = (id: string) => refused.add(id, "", "not authorized", 1n, 100);
  for (const id of ["a", "b", "c", "b"]) add(id);
  add("d");
  assert.deepEqual([...refused.values()].map(({ clientId }) => clientId), ["b", "c", "d"]);
  assert.equal(refused.beyond, 1);
  for (const id of ["c", "d", "e"]) add(id);
  assert.deepEqual([...refused.values()].map(({ clientId }) => clientId), ["b", "c", "d"]);
  assert.equal(refused.beyond, 2, "nobody was refused only once, so the newcomer is not kept");
});

Deno.test("05 7.6 names are cut to the bytes given, at a whole character", () => {
  assert.equal(cutToBytes("abcdef", 4), "abcd");
  assert.equal(cutToBytes("aééé", 4), "aé");
  assert.equal(cutToBytes("a\u{1f600}", 4), "a");
  assert.equal(cutToBytes("aééé", 7), "aééé");
  const refused = new RefusedClients();
  refused.add("ééé", "ööö", "quota exceeded", 1n, 3);
  refused.add("éé", "", "quota exceeded", 1n, 3);
  assert.deepEqual([...refused.values()].map(({ clientId, count }) => [clientId, count]), [[
    "é",
    2,
  ]]);
});

const passing = (reader: string, position: number, floor: number, reported = true) => ({
  reader,
  channel: "log",
  kind: "session" as const,
  reported,
  position,
  floor,
  at: 1n,
});

Deno.test("05 7.4 a reader has one row a channel: losses add up, the rest is of the latest passing", () => {
  const losses = new PositionLosses();
  losses.add(passing("mqtt:a", 5, 9), 100);
  losses.add({ ...passing("mqtt:a", 9, 10, false), kind: "consumer", at: 7n }, 100);
  losses.add({ ...passing("mqtt:a", 1, 2), channel: "other" }, 100);
  const [first, second] = losses.values();
  assert.deepEqual(first, {
    reader: "mqtt:a",
    channel: "log",
    kind: "consumer",
    reported: false,
    count: 2,
    recordsMissed: 5,
    lastPosition: 9,
    lastFloor: 10,
    lastSeen: 7n,
  });
  assert.equal(second.reported, true);
});

Deno.test("05 7.4 a full record takes a newcomer that lost more than whoever lost least", () => {
  const losses = new PositionLosses(2);
  losses.add(passing("a", 1, 11), 100);
  losses.add(passing("b", 1, 6), 100);
  losses.add(passing("c", 1, 6), 100);
  assert.deepEqual([...losses.values()].map(({ reader }) => reader), ["a", "b"]);
  losses.add(passing("d", 1, 7), 100);
  assert.deepEqual([...losses.values()].map(({ reader }) => reader), ["a", "d"]);
  assert.equal(losses.beyond, 2);
});

Deno.test("05 10.3 every code of refusal has a name, in lower case", () => {
  for (const [name, code] of Object.entries(Reason)) {
    if (code < 0x80) continue;
    const words = refusalName({ code });
    assert.notEqual(words, "rejected", name);
    assert.equal(words, words.toLowerCase());
  }
  assert.equal(refusalName({ code: 0x97, counted: "session store full" }), "session store full");
});
