import assert from "node:assert/strict";
import {
  encodeConnect,
  encodePublish,
  hex,
  join,
  type Level,
  packet,
  section,
  text,
  two,
} from "../../support/mqtt_bytes.ts";
import { seeded } from "../../support/random.ts";
import { decodeAll, decodeOne, faultAfterConnect } from "./support.ts";

const LEVELS: readonly Level[] = [4, 5];

Deno.test("3.3 a PUBLISH with every property a client may send is read field by field", () => {
  assert.deepEqual(
    decodeOne(
      5,
      encodePublish({
        topic: "a/größe",
        payload: hex("00 ff"),
        qos: 2,
        retain: true,
        dup: true,
        packetId: 65535,
        properties: {
          payloadFormat: 0,
          messageExpiry: 0xfffffffe,
          topicAlias: 16,
          responseTopic: "answers/me",
          correlationData: hex(""),
          userProperties: [["b", "1"], ["a", "2"], ["b", "3"], ["1", "4"], ["", ""]],
          contentType: "",
        },
      }),
    ),
    {
      type: 3,
      dup: true,
      qos: 2,
      retain: true,
      topic: "a/größe",
      packetId: 65535,
      payload: hex("00 ff"),
      properties: {
        payloadFormat: 0,
        messageExpiry: 0xfffffffe,
        topicAlias: 16,
        responseTopic: "answers/me",
        correlationData: hex(""),
        userProperties: [["b", "1"], ["a", "2"], ["b", "3"], ["1", "4"], ["", ""]],
        contentType: "",
      },
    },
  );
});

Deno.test("3.3.3 a payload may be empty, and MQTT 3.1.1 has no properties", () => {
  for (const level of LEVELS) {
    assert.deepEqual(decodeOne(level, encodePublish({ level, topic: "t" })), {
      type: 3,
      dup: false,
      qos: 0,
      retain: false,
      topic: "t",
      packetId: 0,
      payload: new Uint8Array(0),
      properties: {},
    });
  }
});

Deno.test("3.3.2.1 strings that look alike are kept apart, topic after topic", () => {
  // The same length, the same hash of a careless cache, a shared beginning: each must come out as sent.
  const topics = ["aa/bb", "bb/aa", "aa/bc", "ab/ab", "aa/bb", "aa/b", "aa/bb/", "größe", "größf"];
  for (const level of LEVELS) {
    for (const first of topics) {
      for (const second of topics) {
        const both = join(
          encodePublish({ level, topic: first }),
          encodePublish({ level, topic: second }),
        );
        const packets = decodeMany(level, both);
        assert.deepEqual(packets, [first, second]);
      }
    }
  }
});

Deno.test("3.3.2.1 topics come out as sent, however many there are and whatever their order", () => {
  const random = seeded("topics");
  const topics = Array.from({ length: 300 }, (_, i) => {
    return i % 50 === 0
      ? `größe/${i}`
      : `${random.pick(["a", "plant/pump/x".repeat(12), "b/c"])}/${i}`;
  });
  // Runs over few topics, then over all of them, then few again: a cache learns, gives up and learns again.
  for (const among of [1, 8, 40, 300, 1, 8]) {
    const sent = Array.from({ length: 2000 }, () => topics[random.below(among)]);
    const bytes = join(...sent.map((topic) => encodePublish({ topic, payload: "p" })));
    assert.deepEqual(decodeMany(5, bytes), sent);
  }
  const wave = [...topics, ...topics, topics[1], topics[1], topics[2], ...topics];
  const bytes = join(...wave.map((topic) => encodePublish({ level: 4, topic })));
  assert.deepEqual(decodeMany(4, bytes), wave);
});

function decodeMany(level: Level, bytes: Uint8Array): string[] {
  const { packets, fault } = decodeAll([encodeConnect({ level }), bytes]);
  assert.equal(fault, undefined);
  return packets.slice(1).map((each) => each.type === 3 ? each.topic : "");
}

Deno.test("[MQTT-3.3.1-4] both QoS bits set is malformed, before any byte of the body", () => {
  for (const level of LEVELS) {
    for (const first of [0x36, 0x37, 0x3e, 0x3f]) {
      assert.equal(faultAfterConnect(level, Uint8Array.of(first)).code, 0x81);
    }
  }
});

Deno.test("[MQTT-3.3.1-2] DUP at QoS 0 is malformed", () => {
  for (const level of LEVELS) {
    assert.equal(
      faultAfterConnect(level, encodePublish({ level, topic: "t", dup: true })).code,
      0x81,
    );
  }
});

Deno.test("[MQTT-2.2.1-3] packet identifier 0 is a protocol error", () => {
  for (const level of LEVELS) {
    for (const qos of [1, 2]) {
      const bytes = encodePublish({ level, topic: "t", qos, packetId: 0 });
      assert.equal(faultAfterConnect(level, bytes).code, 0x82);
    }
  }
});

Deno.test("[MQTT-3.3.2-2] a wildcard in the topic is a protocol error (02a section 7)", () => {
  for (const level of LEVELS) {
    for (const topic of ["#", "+", "a/+/b", "a/#", "a+", "größe/#"]) {
      assert.equal(faultAfterConnect(level, encodePublish({ level, topic })).code, 0x82, topic);
    }
  }
});

Deno.test("[MQTT-3.3.2-1] a topic that is not UTF-8 closes the connection bare at both levels", () => {
  const bad = [
    "ff",
    "c3",
    "c328",
    "eda080",
    "edbfbf",
    "f4908080",
    "c080",
    "00",
    "610062",
    "e0808a",
  ];
  for (const level of LEVELS) {
    for (const bytes of bad) {
      const topic = hex(bytes);
      const fault = faultAfterConnect(
        level,
        packet(0x30, two(topic.length), topic, level === 5 ? [0] : []),
      );
      assert.equal(fault.code, 0x81, bytes);
      assert.equal(fault.answer, undefined, bytes);
    }
  }
});

Deno.test("[MQTT-3.3.2-1] a byte that is no UTF-8 does not pass for the character of that number", () => {
  for (let code = 0x80; code <= 0xff; code++) {
    const known = encodePublish({ topic: String.fromCharCode(code) });
    const bad = packet(0x30, two(1), [code], [0]);
    const { packets, fault } = decodeAll([encodeConnect(), join(known, known, bad)]);
    assert.equal(packets.length, 3);
    assert.equal(fault?.code, 0x81);
  }
});

Deno.test("[MQTT-3.3.2-8] an empty topic needs a Topic Alias", () => {
  assert.equal(faultAfterConnect(4, encodePublish({ level: 4, topic: "" })).code, 0x82);
  assert.equal(faultAfterConnect(5, encodePublish({ topic: "" })).code, 0x82);
  const aliased = decodeOne(5, encodePublish({ topic: "", properties: { topicAlias: 65535 } }));
  assert.equal(aliased.type === 3 && aliased.properties.topicAlias, 65535);
});

Deno.test("[MQTT-3.3.2-8] Topic Alias 0 has a code of its own", () => {
  const fault = faultAfterConnect(5, encodePublish({ topic: "t", properties: { topicAlias: 0 } }));
  assert.deepEqual(fault.answer, { packet: "disconnect", code: 0x94 });
});

Deno.test("[MQTT-3.3.4-6] a client's PUBLISH has no Subscription Identifier", () => {
  const bytes = encodePublish({ topic: "t", properties: { subscriptionIdentifiers: [1] } });
  assert.equal(faultAfterConnect(5, bytes).code, 0x82);
});

Deno.test("[MQTT-3.3.2-14] a Response Topic has no wildcards and is not empty", () => {
  for (const responseTopic of ["", "#", "a/+"]) {
    const bytes = encodePublish({ topic: "t", properties: { responseTopic } });
    assert.equal(faultAfterConnect(5, bytes).code, 0x82, responseTopic);
  }
});

Deno.test("3.3.2 fields that run past the end of a PUBLISH are malformed", () => {
  const cut: [string, Level, Uint8Array][] = [
    ["no topic", 5, packet(0x30)],
    ["half a topic length", 5, packet(0x30, [0])],
    ["a topic too long", 5, packet(0x30, hex("0005 61626364"))],
    ["no packet identifier", 5, packet(0x32, text("t"))],
    ["half a packet identifier", 5, packet(0x32, text("t"), [1])],
    ["no properties", 5, packet(0x32, text("t"), two(1))],
    ["properties too long", 5, packet(0x30, text("t"), [3], section([1, 0]).slice(1))],
    ["half a packet identifier at level 4", 4, packet(0x32, text("t"), [1])],
  ];
  for (const [name, level, bytes] of cut) {
    assert.equal(faultAfterConnect(level, bytes).code, 0x81, name);
  }
});
