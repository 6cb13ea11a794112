import assert from "node:assert/strict";
import {
  encodeAuth,
  encodeDisconnect,
  encodePingreq,
  hex,
  type Level,
  packet,
} from "../../support/mqtt_bytes.ts";
import { decodeOne, faultAfterConnect } from "./support.ts";

const LEVELS: readonly Level[] = [4, 5];

Deno.test("3.14 DISCONNECT is read in all its lengths", () => {
  for (const level of LEVELS) {
    assert.deepEqual(decodeOne(level, encodeDisconnect()), { type: 14, reasonCode: 0 });
  }
  assert.deepEqual(decodeOne(5, encodeDisconnect({ reasonCode: 4 })), { type: 14, reasonCode: 4 });
  const properties = {
    sessionExpiry: 0xffffffff,
    reasonString: "bye",
    userProperties: [["a", "b"]] as const,
  };
  assert.deepEqual(decodeOne(5, encodeDisconnect({ properties })), {
    type: 14,
    reasonCode: 0,
    ...properties,
  });
});

Deno.test("[MQTT-3.14.2-1] DISCONNECT takes the reason codes a client may send and no other", () => {
  const legal = [0, 4, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99];
  for (let reasonCode = 0; reasonCode < 256; reasonCode++) {
    const bytes = encodeDisconnect({ reasonCode });
    if (legal.includes(reasonCode)) {
      assert.deepEqual(decodeOne(5, bytes), { type: 14, reasonCode });
    } else {
      assert.equal(faultAfterConnect(5, bytes).code, 0x82, `0x${reasonCode.toString(16)}`);
    }
  }
});

Deno.test("3.1.1 3.14 a DISCONNECT of MQTT 3.1.1 has no body", () => {
  for (const body of ["00", "04", "00 00"]) {
    const fault = faultAfterConnect(4, packet(0xe0, hex(body)));
    assert.equal(fault.code, 0x81);
    assert.equal(fault.answer, undefined);
  }
});

Deno.test("3.14.2.2.5 a Server Reference is not a client's to send", () => {
  const bytes = encodeDisconnect({ properties: { serverReference: "other" } });
  assert.equal(faultAfterConnect(5, bytes).code, 0x82);
});

Deno.test("3.14 a DISCONNECT cut short or run over is malformed", () => {
  for (const body of ["00 01", "00 00 00", "00 05 11 0000", "00 02 1f00"]) {
    assert.equal(faultAfterConnect(5, packet(0xe0, hex(body))).code, 0x81, body);
  }
});

Deno.test("3.15 AUTH is read, for the connection to refuse", () => {
  const properties = { authenticationMethod: "m", authenticationData: hex("01") };
  for (const reasonCode of [0x18, 0x19]) {
    assert.deepEqual(decodeOne(5, encodeAuth({ reasonCode, properties })), {
      type: 15,
      reasonCode,
    });
  }
});

Deno.test("[MQTT-3.15.2-1] AUTH takes the reason codes a client may send and no other", () => {
  const properties = { authenticationMethod: "m" };
  for (let reasonCode = 0; reasonCode < 256; reasonCode++) {
    if (reasonCode === 0x18 || reasonCode === 0x19) continue;
    assert.equal(faultAfterConnect(5, encodeAuth({ reasonCode, properties })).code, 0x82);
  }
  assert.equal(faultAfterConnect(5, encodeAuth()).code, 0x82);
});

Deno.test("3.15.2.2.2 AUTH without an Authentication Method is a protocol error", () => {
  assert.equal(faultAfterConnect(5, encodeAuth({ reasonCode: 0x18, properties: {} })).code, 0x82);
});

Deno.test("3.1.1 2.2.1 packet type 15 does not exist at level 4", () => {
  assert.equal(faultAfterConnect(4, Uint8Array.of(0xf0)).code, 0x81);
});

Deno.test("3.12 PINGREQ has no body", () => {
  for (const level of LEVELS) {
    assert.deepEqual(decodeOne(level, encodePingreq()), { type: 12 });
    assert.equal(faultAfterConnect(level, packet(0xc0, [0])).code, 0x81);
  }
});

Deno.test("2.1.3 PINGREQ, DISCONNECT and AUTH have the flags 0000", () => {
  for (const type of [0xc0, 0xe0, 0xf0]) {
    for (let flags = 1; flags < 16; flags++) {
      for (const level of LEVELS) {
        assert.equal(faultAfterConnect(level, Uint8Array.of(type | flags)).code, 0x81);
      }
    }
  }
});

Deno.test("2.1.2 packet types that only a server sends are protocol errors, type 0 is malformed", () => {
  for (const level of LEVELS) {
    for (const first of [0x20, 0x90, 0xb0, 0xd0]) {
      assert.equal(faultAfterConnect(level, Uint8Array.of(first)).code, 0x82);
    }
    assert.equal(faultAfterConnect(level, Uint8Array.of(0x00)).code, 0x81);
  }
});
