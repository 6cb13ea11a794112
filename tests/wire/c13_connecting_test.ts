/** 06 section 13: who is let in. TLS and WebSocket have tests of their own below `tests/mqtt/doors`. */
import assert from "node:assert/strict";
import { Guarded } from "../support/guarded.ts";
import type { ConnectOptions } from "../support/mqtt_bytes.ts";
import { WireClient } from "../support/wire.ts";

Deno.test("06 13 a bad, missing or malformed credential is 0x86 (3.1.1: 4), then the close", async () => {
  await using guarded = await Guarded.start({ users: ["ann"] });
  const wrong: ConnectOptions[] = [
    {},
    { userName: "ann" },
    { userName: "ann", password: "wrong" },
    { userName: "ann", password: "" },
    { userName: "nobody", password: "wrong" },
    { userName: "ann", password: new Uint8Array([0xff, 0xfe]) },
  ];
  for (const level of [5, 4] as const) {
    for (const credentials of wrong) {
      using client = await WireClient.open(guarded.broker.port, level);
      await client.connect({ level, clientId: "13", ...credentials });
      await client.expectConnack(level === 5 ? 0x86 : 4);
      await client.expectClose();
    }
    const { client, connack } = await guarded.offer("ann", { level });
    assert.equal(connack.reasonCode, 0);
    client.close();
  }
});

Deno.test("02a 17 with min_protocol_version 5 a 3.1.1 CONNECT gets return code 1; 3.1 always does", async () => {
  const old = Uint8Array.of(
    0x10,
    15,
    0,
    6,
    ...new TextEncoder().encode("MQIsdp"),
    3,
    2,
    0,
    0,
    0,
    1,
    97,
  );
  for (const [mqtt, admitted] of [["min_protocol_version: 5", false], ["", true]] as const) {
    await using guarded = await Guarded.start({ mqtt });
    using four = await WireClient.open(guarded.broker.port, 4);
    await four.connect({ level: 4, clientId: "four" });
    await four.expectConnack(admitted ? 0 : 1);
    if (!admitted) await four.expectClose();
    using five = await WireClient.connected(guarded.broker.port, { clientId: "five" });
    await five.disconnect();
    using three = await WireClient.open(guarded.broker.port, 4);
    await three.send(old);
    await three.expectConnack(1);
    await three.expectClose();
  }
});
