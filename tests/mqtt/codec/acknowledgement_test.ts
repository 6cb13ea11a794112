import assert from "node:assert/strict";
import {
  encodePuback,
  encodePubcomp,
  encodePubrec,
  encodePubrel,
  hex,
  packet,
} from "../../support/mqtt_bytes.ts";
import { decodeOne, faultAfterConnect } from "./support.ts";

const PACKETS = [
  { name: "3.4 PUBACK", type: 4, first: 0x40, encode: encodePuback },
  { name: "3.5 PUBREC", type: 5, first: 0x50, encode: encodePubrec },
  { name: "3.6 PUBREL", type: 6, first: 0x62, encode: encodePubrel },
  { name: "3.7 PUBCOMP", type: 7, first: 0x70, encode: encodePubcomp },
] as const;

/** Tables 3-5 to 3-8. */
const LEGAL: Record<number, readonly number[]> = {
  4: [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99],
  5: [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99],
  6: [0x00, 0x92],
  7: [0x00, 0x92],
};

for (const { name, type, first, encode } of PACKETS) {
  Deno.test(`${name} of two bytes means success at both levels`, () => {
    for (const level of [4, 5] as const) {
      assert.deepEqual(decodeOne(level, encode({ packetId: 258 })), {
        type,
        packetId: 258,
        reasonCode: 0,
      });
    }
  });

  Deno.test(`${name} may end after its reason code, and after empty properties`, () => {
    const expected = { type, packetId: 1, reasonCode: 0 };
    assert.deepEqual(decodeOne(5, encode({ packetId: 1, reasonCode: 0 })), expected);
    assert.deepEqual(decodeOne(5, encode({ packetId: 1, properties: {} })), expected);
  });

  Deno.test(`${name} carries a Reason String and User Properties`, () => {
    const properties = { reasonString: "so", userProperties: [["a", "1"], ["a", "2"]] as const };
    assert.deepEqual(decodeOne(5, encode({ packetId: 9, reasonCode: 0, properties })), {
      type,
      packetId: 9,
      reasonCode: 0,
      ...properties,
    });
  });

  Deno.test(`${name} takes the reason codes of its table and no other`, () => {
    for (let reasonCode = 0; reasonCode < 256; reasonCode++) {
      const bytes = encode({ packetId: 1, reasonCode });
      if (LEGAL[type].includes(reasonCode)) {
        assert.deepEqual(decodeOne(5, bytes), { type, packetId: 1, reasonCode });
      } else {
        assert.equal(faultAfterConnect(5, bytes).code, 0x82, `0x${reasonCode.toString(16)}`);
      }
    }
  });

  Deno.test(`${name} with packet identifier 0 is a protocol error [MQTT-2.2.1-3]`, () => {
    for (const level of [4, 5] as const) {
      assert.equal(faultAfterConnect(level, encode({ packetId: 0 })).code, 0x82);
    }
  });

  Deno.test(`${name} cut short or run over is malformed`, () => {
    for (const body of ["", "00", "0001 00 05", "0001 00 00 00", "0001 00 01 1f"]) {
      assert.equal(faultAfterConnect(5, packet(first, hex(body))).code, 0x81, body);
    }
    for (const body of ["", "00", "0001 00", "0001 00 00"]) {
      assert.equal(faultAfterConnect(4, packet(first, hex(body))).code, 0x81, body);
    }
  });

  Deno.test(`${name} has reserved flags that must be as they are (2.1.3)`, () => {
    for (let flags = 0; flags < 16; flags++) {
      if (flags === (first & 0x0f)) continue;
      const bytes = Uint8Array.of((first & 0xf0) | flags);
      for (const level of [4, 5] as const) {
        assert.equal(faultAfterConnect(level, bytes).code, 0x81, `flags ${flags}`);
      }
    }
  });
}
