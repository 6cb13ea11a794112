import assert from "node:assert/strict";
import type { ReasonCode } from "../../src/broker/reason.ts";
import { returnCode } from "../../src/mqtt/return_codes.ts";

Deno.test("02a 10, 20 every refusal of a CONNECT has its return code in MQTT 3.1.1", () => {
  const expected: Readonly<Record<number, readonly number[]>> = {
    1: [0x84],
    2: [0x85],
    3: [0x83, 0x88, 0x89],
    4: [0x86],
    5: [0x81, 0x82, 0x87, 0x8c, 0x90, 0x95, 0x97, 0x9a, 0x9b],
  };
  for (const [code, reasons] of Object.entries(expected)) {
    for (const reason of reasons) {
      assert.equal(returnCode(reason as ReasonCode), Number(code), `0x${reason.toString(16)}`);
    }
  }
});
