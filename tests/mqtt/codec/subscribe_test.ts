import assert from "node:assert/strict";
import {
  encodeSubscribe,
  encodeUnsubscribe,
  hex,
  join,
  type Level,
  packet,
  text,
  two,
} from "../../support/mqtt_bytes.ts";
import { decodeOne, faultAfterConnect } from "./support.ts";

const LEVELS: readonly Level[] = [4, 5];

function section(level: Level): Uint8Array {
  return level === 5 ? hex("00") : hex("");
}

Deno.test("3.8 a SUBSCRIBE is read filter by filter, in order", () => {
  assert.deepEqual(
    decodeOne(
      5,
      encodeSubscribe({
        packetId: 10,
        subscriptions: [
          { filter: "a/+/#", qos: 0, noLocal: true },
          { filter: "$share/g/größe", qos: 1, retainAsPublished: true, retainHandling: 1 },
          { filter: "a/+/#", qos: 2, retainHandling: 2 },
        ],
        properties: {
          subscriptionIdentifiers: [268435455],
          userProperties: [["saguin-filter", "x"], ["saguin-filter", "y"]],
        },
      }),
    ),
    {
      type: 8,
      packetId: 10,
      subscriptions: [
        { filter: "a/+/#", qos: 0, noLocal: true, retainAsPublished: false, retainHandling: 0 },
        {
          filter: "$share/g/größe",
          qos: 1,
          noLocal: false,
          retainAsPublished: true,
          retainHandling: 1,
        },
        { filter: "a/+/#", qos: 2, noLocal: false, retainAsPublished: false, retainHandling: 2 },
      ],
      subscriptionIdentifier: 268435455,
      userProperties: [["saguin-filter", "x"], ["saguin-filter", "y"]],
    },
  );
});

Deno.test("3.1.1 3.8 a SUBSCRIBE of MQTT 3.1.1 asks for a QoS and nothing else", () => {
  const bytes = encodeSubscribe({ level: 4, subscriptions: [{ filter: "a", qos: 2 }] });
  assert.deepEqual(decodeOne(4, bytes), {
    type: 8,
    packetId: 1,
    subscriptions: [
      { filter: "a", qos: 2, noLocal: false, retainAsPublished: false, retainHandling: 0 },
    ],
  });
});

Deno.test("3.10 an UNSUBSCRIBE is read filter by filter, in order", () => {
  for (const level of LEVELS) {
    assert.deepEqual(decodeOne(level, encodeUnsubscribe({ level, filters: ["b", "#", "b"] })), {
      type: 10,
      packetId: 1,
      filters: ["b", "#", "b"],
    });
  }
  const userProperties = [["k", "v"]] as const;
  assert.deepEqual(
    decodeOne(5, encodeUnsubscribe({ filters: ["b"], properties: { userProperties } })),
    { type: 10, packetId: 1, filters: ["b"], userProperties },
  );
});

Deno.test("[MQTT-3.8.3-2] [MQTT-3.10.3-2] no filter, or an empty one, is a protocol error", () => {
  for (const level of LEVELS) {
    for (const first of [0x82, 0xa2]) {
      const options = first === 0x82 ? hex("00") : hex("");
      const none = packet(first, two(1), section(level));
      const empty = packet(first, two(1), section(level), text(""), options);
      const later = packet(first, two(1), section(level), text("a"), options, text(""), options);
      for (const bytes of [none, empty, later]) {
        assert.equal(faultAfterConnect(level, bytes).code, 0x82);
      }
    }
  }
});

Deno.test("[MQTT-2.2.1-3] a SUBSCRIBE or UNSUBSCRIBE with packet identifier 0 is a protocol error", () => {
  for (const level of LEVELS) {
    const subscribe = encodeSubscribe({ level, packetId: 0, subscriptions: [{ filter: "a" }] });
    assert.equal(faultAfterConnect(level, subscribe).code, 0x82);
    const unsubscribe = encodeUnsubscribe({ level, packetId: 0, filters: ["a"] });
    assert.equal(faultAfterConnect(level, unsubscribe).code, 0x82);
  }
});

Deno.test("3.8.3.1 every options byte of MQTT 5 is judged bit by bit", () => {
  for (let options = 0; options < 256; options++) {
    const bytes = packet(0x82, two(1), [0], text("a"), [options]);
    const expected = options >= 0x40
      ? 0x81 // [MQTT-3.8.3-5] reserved bits
      : (options & 0x03) === 3 // QoS 3
      ? 0x82
      : (options & 0x30) === 0x30 // Retain Handling 3
      ? 0x82
      : undefined;
    if (expected === undefined) {
      assert.deepEqual(decodeOne(5, bytes), {
        type: 8,
        packetId: 1,
        subscriptions: [{
          filter: "a",
          qos: options & 3,
          noLocal: (options & 4) !== 0,
          retainAsPublished: (options & 8) !== 0,
          retainHandling: options >> 4,
        }],
      });
    } else {
      assert.equal(faultAfterConnect(5, bytes).code, expected, `options ${options}`);
    }
  }
});

Deno.test("[MQTT-3.8.3-4] MQTT 3.1.1 refuses every options byte above 2", () => {
  for (let options = 3; options < 256; options++) {
    const fault = faultAfterConnect(4, packet(0x82, two(1), text("a"), [options]));
    assert.equal(fault.code, 0x81);
    assert.equal(fault.answer, undefined);
  }
});

Deno.test("3.8.2.1.2 a Subscription Identifier is 1 to 268,435,455 and comes once", () => {
  const with_ = (subscriptionIdentifiers: number[]) =>
    encodeSubscribe({
      subscriptions: [{ filter: "a" }],
      properties: { subscriptionIdentifiers },
    });
  assert.equal(faultAfterConnect(5, with_([0])).code, 0x82);
  assert.equal(faultAfterConnect(5, with_([1, 2])).code, 0x82);
  assert.equal(faultAfterConnect(5, with_([268435456])).code, 0x81);
});

Deno.test("3.8.3 [MQTT-3.8.3-1] [MQTT-3.10.3-1] filters cut short or not UTF-8 are malformed", () => {
  for (const level of LEVELS) {
    for (const first of [0x82, 0xa2]) {
      const trailing = first === 0x82 ? "0001 61 00 00" : "0001 61 00";
      for (const body of ["00", "0002 61", "0001 ff", "0001 00", "0003 eda080", trailing]) {
        const fault = faultAfterConnect(level, packet(first, two(1), section(level), hex(body)));
        assert.equal(fault.code, 0x81, `${first.toString(16)} ${body}`);
      }
    }
    const noOptions = packet(0x82, two(1), section(level), text("a"));
    assert.equal(faultAfterConnect(level, noOptions).code, 0x81);
    for (const first of [0x82, 0xa2]) {
      assert.equal(faultAfterConnect(level, packet(first)).code, 0x81);
      assert.equal(faultAfterConnect(level, packet(first, [1])).code, 0x81);
    }
  }
});

Deno.test("2.1.3 SUBSCRIBE and UNSUBSCRIBE have the flags 0010", () => {
  for (const type of [0x80, 0xa0]) {
    for (let flags = 0; flags < 16; flags++) {
      if (flags === 2) continue;
      for (const level of LEVELS) {
        assert.equal(faultAfterConnect(level, join([type | flags])).code, 0x81);
      }
    }
  }
});
