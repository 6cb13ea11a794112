import assert from "node:assert/strict";
import {
  encodeConnect,
  encodePingreq,
  hex,
  join,
  type Level,
  packet,
  properties,
  text,
  two,
} from "../../support/mqtt_bytes.ts";
import { decodeAll, decodeConnect, faultAfterConnect, faultInConnect } from "./support.ts";

const LEVELS: readonly Level[] = [4, 5];

/** A CONNECT of raw parts: flags, and whatever follows the Keep Alive. */
function rawConnect(level: number, flags: number, ...rest: Parameters<typeof join>): Uint8Array {
  const section = level === 5 ? [0] : [];
  return packet(0x10, text("MQTT"), [level, flags], two(60), section, ...rest);
}

const WILL_4 = join(text("w"), two(1), [0x21]);

Deno.test("3.1 a CONNECT with everything MQTT 5 has is read field by field", () => {
  assert.deepEqual(
    decodeConnect(encodeConnect({
      clientId: "größe",
      cleanStart: false,
      keepAlive: 65535,
      userName: "ann",
      password: hex("00 ff 80"),
      properties: {
        sessionExpiry: 0xffffffff,
        receiveMaximum: 20,
        maximumPacketSize: 0x80000000,
        topicAliasMaximum: 0,
        requestResponseInformation: 1,
        requestProblemInformation: 0,
        userProperties: [["a", "1"], ["__proto__", "2"], ["a", "3"], ["7", ""]],
        authenticationMethod: "m",
        authenticationData: hex("01"),
      },
      will: {
        topic: "will/topic",
        payload: hex("00 01"),
        qos: 2,
        retain: true,
        properties: {
          willDelay: 30,
          payloadFormat: 1,
          messageExpiry: 5,
          contentType: "text/plain",
          responseTopic: "answer",
          correlationData: hex("0a"),
          userProperties: [["w", "x"]],
        },
      },
    })),
    {
      type: 1,
      level: 5,
      cleanStart: false,
      keepAlive: 65535,
      clientId: "größe",
      will: {
        topic: "will/topic",
        payload: hex("00 01"),
        qos: 2,
        retain: true,
        delay: 30,
        properties: {
          payloadFormat: 1,
          messageExpiry: 5,
          contentType: "text/plain",
          responseTopic: "answer",
          correlationData: hex("0a"),
          userProperties: [["w", "x"]],
        },
      },
      userName: "ann",
      password: hex("00 ff 80"),
      sessionExpiry: 0xffffffff,
      receiveMaximum: 20,
      maximumPacketSize: 0x80000000,
      topicAliasMaximum: 0,
      requestResponseInformation: 1,
      requestProblemInformation: 0,
      userProperties: [["a", "1"], ["__proto__", "2"], ["a", "3"], ["7", ""]],
      authenticationMethod: "m",
      authenticationData: hex("01"),
    },
  );
});

Deno.test("3.1.1 3.1 a CONNECT with everything MQTT 3.1.1 has is read field by field", () => {
  assert.deepEqual(
    decodeConnect(encodeConnect({
      level: 4,
      clientId: "c",
      keepAlive: 1,
      userName: "u",
      password: "p",
      will: { topic: "w", payload: "gone", qos: 1 },
    })),
    {
      type: 1,
      level: 4,
      cleanStart: true,
      keepAlive: 1,
      clientId: "c",
      will: {
        topic: "w",
        payload: new TextEncoder().encode("gone"),
        qos: 1,
        retain: false,
        delay: 0,
        properties: {},
      },
      userName: "u",
      password: new TextEncoder().encode("p"),
    },
  );
});

Deno.test("3.1.3 what a CONNECT carries is copied: the read buffer is free again", () => {
  const bytes = encodeConnect({ password: "pw", will: { topic: "w", payload: "gone" } });
  const { packets } = decodeAll([bytes]);
  bytes.fill(0x2a);
  const [connect] = packets;
  assert.equal(connect.type, 1);
  assert.deepEqual(connect.password, new TextEncoder().encode("pw"));
  assert.deepEqual(connect.will?.payload, new TextEncoder().encode("gone"));
});

Deno.test("3.1.3.1 an empty client identifier is the broker's to judge, at both levels", () => {
  for (const level of LEVELS) {
    const connect = decodeConnect(encodeConnect({ level, clientId: "", cleanStart: false }));
    assert.equal(connect.type === 1 && connect.clientId, "");
  }
});

Deno.test("3.1.2.9 MQTT 5 takes a password without a user name", () => {
  const connect = decodeConnect(encodeConnect({ password: "secret" }));
  assert.equal(connect.type === 1 && connect.userName, undefined);
});

Deno.test("[MQTT-3.1.0-1] a connection that does not begin with CONNECT is closed bare", () => {
  const fault = faultInConnect(encodePingreq());
  assert.equal(fault.code, 0x82);
  assert.equal(fault.level, undefined);
  assert.equal(fault.answer, undefined);
});

Deno.test("[MQTT-3.1.0-2] a second CONNECT is a protocol error", () => {
  const fault = faultAfterConnect(5, encodeConnect());
  assert.equal(fault.code, 0x82);
  assert.deepEqual(fault.answer, { packet: "disconnect", code: 0x82 });
  assert.equal(faultAfterConnect(4, encodeConnect({ level: 4 })).answer, undefined);
});

Deno.test("[MQTT-3.1.2-1] an unknown protocol name is closed bare", () => {
  for (const name of ["MQTS", "mqtt", "MQTTX", "", "HTTP/1.1"]) {
    const fault = faultInConnect(packet(0x10, text(name), [5, 2], two(0), [0], text("")));
    assert.equal(fault.level, undefined, name);
    assert.equal(fault.answer, undefined, name);
  }
});

Deno.test("2.1.3 a TLS handshake at a door without tls is malformed, and called what it is", () => {
  const { code, reason, answer } = faultInConnect(Uint8Array.of(0x16, 3, 1, 2, 0, 1));
  assert.deepEqual([code, answer], [0x81, undefined]);
  assert.equal(reason, "a TLS handshake came to a door without tls");
});

Deno.test("[MQTT-3.1.2-2] MQTT 3.1 and older levels are refused with return code 1", () => {
  const old = packet(0x10, text("MQIsdp"), [3, 2], two(0), text("c"));
  const fault = faultInConnect(old);
  assert.equal(fault.code, 0x84);
  assert.equal(fault.level, 3);
  assert.deepEqual(fault.answer, { packet: "connack", level: 4, code: 1 });
  const newer = packet(0x10, text("MQIsdp"), [5, 2], two(0), text("c"));
  assert.deepEqual(faultInConnect(newer).answer, { packet: "connack", level: 4, code: 1 });
  const advised = /is not served.*; a bridge comes back with 4/;
  assert.match(faultInConnect(rawConnect(0x84, 2, text("c"))).reason, advised);
  assert.doesNotMatch(faultInConnect(rawConnect(3, 2, text("c"))).reason, advised);
  for (const level of [0, 1, 2, 3, 0x83, 0x84]) {
    assert.deepEqual(faultInConnect(rawConnect(level, 2, text("c"))).answer, {
      packet: "connack",
      level: 4,
      code: 1,
    }, `level ${level}`);
  }
});

Deno.test("[MQTT-3.1.2-2] a level above 5 is refused with reason code 0x84", () => {
  for (const level of [6, 7, 0x7f, 0x85]) {
    const fault = faultInConnect(rawConnect(level, 2, text("c")));
    assert.equal(fault.code, 0x84);
    assert.deepEqual(fault.answer, { packet: "connack", level: 5, code: 0x84 });
  }
});

/** 02a section 10: flags and credentials that are answered at both levels. */
const ANSWERED: readonly {
  name: string;
  flags: number;
  rest: (level: Level) => Uint8Array[];
  code: number;
  returnCode: number;
}[] = [
  {
    name: "[MQTT-3.1.2-3] the reserved connect flag",
    flags: 0x03,
    rest: () => [text("c")],
    code: 0x81,
    returnCode: 5,
  },
  {
    name: "[MQTT-3.1.2-12] Will QoS 3",
    flags: 0x1e,
    rest: (level) => [text("c"), level === 5 ? properties() : join(), WILL_4],
    code: 0x81,
    returnCode: 5,
  },
  {
    name: "[MQTT-3.1.2-11] a Will QoS without a Will",
    flags: 0x0a,
    rest: () => [text("c")],
    code: 0x81,
    returnCode: 5,
  },
  {
    name: "[MQTT-3.1.2-13] Will Retain without a Will",
    flags: 0x22,
    rest: () => [text("c")],
    code: 0x82,
    returnCode: 5,
  },
  {
    name: "[MQTT-3.1.3-12] a user name that is not UTF-8",
    flags: 0x82,
    rest: () => [text("c"), hex("0002 c328")],
    code: 0x81,
    returnCode: 4,
  },
  {
    name: "[MQTT-1.5.4-2] a user name with U+0000",
    flags: 0x82,
    rest: () => [text("c"), text("a\0b")],
    code: 0x81,
    returnCode: 4,
  },
  {
    name: "[MQTT-4.7.3-1] an empty Will topic",
    flags: 0x06,
    rest: (level) => [text("c"), level === 5 ? properties() : join(), text(""), text("x")],
    code: 0x90,
    returnCode: 5,
  },
];

for (const { name, flags, rest, code, returnCode } of ANSWERED) {
  Deno.test(`${name} is refused in the vocabulary of its level`, () => {
    const five = faultInConnect(rawConnect(5, flags, ...rest(5)));
    assert.equal(five.code, code);
    assert.deepEqual(five.answer, { packet: "connack", level: 5, code });
    const four = faultInConnect(rawConnect(4, flags, ...rest(4)));
    assert.deepEqual(four.answer, { packet: "connack", level: 4, code: returnCode });
  });
}

Deno.test("[MQTT-3.1.2-22] MQTT 3.1.1 refuses a password without a user name", () => {
  const fault = faultInConnect(rawConnect(4, 0x42, text("c"), text("pw")));
  assert.equal(fault.code, 0x82);
  assert.deepEqual(fault.answer, { packet: "connack", level: 4, code: 5 });
});

/** Unreadable CONNECTs: answered at MQTT 5, closed bare below (02a section 10). */
const UNREADABLE: readonly { name: string; rest: Uint8Array[]; flags?: number }[] = [
  { name: "[MQTT-3.1.3-3] no client identifier", rest: [] },
  { name: "[MQTT-1.5.4-1] a client identifier that is not UTF-8", rest: [hex("0001 ff")] },
  { name: "[MQTT-1.5.4-1] a client identifier with a surrogate", rest: [hex("0003 eda080")] },
  { name: "[MQTT-1.5.4-2] a client identifier with U+0000", rest: [hex("0003 610062")] },
  { name: "3.1.3 a client identifier that runs past the packet", rest: [hex("0004 616263")] },
  {
    name: "3.1.3.5 a user name that runs past the packet",
    rest: [text("c"), hex("00")],
    flags: 0x82,
  },
  { name: "3.1.3.6 a password that is not there", rest: [text("c"), text("u")], flags: 0xc2 },
  { name: "3.1.3 trailing bytes", rest: [text("c"), hex("00")] },
];

for (const { name, rest, flags = 2 } of UNREADABLE) {
  Deno.test(`${name} makes a CONNECT malformed`, () => {
    const five = faultInConnect(rawConnect(5, flags, ...rest));
    assert.deepEqual(five.answer, { packet: "connack", level: 5, code: 0x81 });
    const four = faultInConnect(rawConnect(4, flags, ...rest));
    assert.equal(four.level, 4);
    assert.equal(four.answer, undefined);
  });
}

Deno.test("3.1.2 a CONNECT that ends before its level is closed bare", () => {
  for (const body of ["", "00", "0004", "0004 4d5154", "0004 4d515454"]) {
    const fault = faultInConnect(packet(0x10, hex(body)));
    assert.equal(fault.code, 0x81, body);
    assert.equal(fault.answer, undefined, body);
  }
});

Deno.test("3.1.2 a CONNECT that ends between its level and its Keep Alive is malformed", () => {
  for (const body of ["05", "05 02", "05 02 00", "05 02 003c"]) {
    const fault = faultInConnect(packet(0x10, text("MQTT"), hex(body)));
    assert.deepEqual(fault.answer, { packet: "connack", level: 5, code: 0x81 }, body);
  }
});

Deno.test("2.1.3 the reserved flags of a CONNECT's fixed header must be 0", () => {
  for (let flags = 1; flags < 16; flags++) {
    const bytes = encodeConnect();
    bytes[0] |= flags;
    const fault = faultInConnect(bytes);
    assert.equal(fault.code, 0x81);
    assert.equal(fault.answer, undefined);
  }
});

Deno.test("[MQTT-3.1.2-30] Authentication Data needs an Authentication Method", () => {
  const fault = faultInConnect(encodeConnect({ properties: { authenticationData: hex("00") } }));
  assert.deepEqual(fault.answer, { packet: "connack", level: 5, code: 0x82 });
});

Deno.test("1.5.4 a byte order mark stays part of the string", () => {
  const connect = decodeConnect(encodeConnect({ clientId: "\ufeffx" }));
  assert.equal(connect.type === 1 && connect.clientId, "\ufeffx");
});

Deno.test("1.5.4 every character is taken as it is, U+FFFD and the noncharacters too", () => {
  const texts = [
    "\ufffd",
    "a\ufffd\ufeff",
    "\ufeff",
    "\u0001\u007f\u0080",
    "\uffff\ufffe",
    "\u{10ffff}",
  ];
  for (
    const clientId of [...texts, "ascii", "longer than a few ASCII characters", "größe".repeat(50)]
  ) {
    const connect = decodeConnect(encodeConnect({ clientId }));
    assert.equal(connect.type === 1 && connect.clientId, clientId);
  }
});

Deno.test("[MQTT-1.5.4-1] bad UTF-8 is found at any place of strings of any length", () => {
  for (const length of [1, 3, 4, 5, 11, 12, 13, 16, 40]) {
    for (const bad of ["ff", "80", "c3", "eda080", "e0808a", "f4908080", "00"].map(hex)) {
      for (const at of [0, length >> 1, length]) {
        const value = join(
          new Uint8Array(at).fill(0x61),
          bad,
          new Uint8Array(length - at).fill(0x61),
        );
        assert.equal(faultInConnect(rawConnect(5, 2, two(value.length), value)).code, 0x81);
        const mixed = join(new TextEncoder().encode("\ufffdé"), value);
        assert.equal(faultInConnect(rawConnect(5, 2, two(mixed.length), mixed)).code, 0x81);
      }
    }
  }
});
