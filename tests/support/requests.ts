/** Requests to control topics, as a thin client library makes them (06 section 2). */
import assert from "node:assert/strict";
import type { PublishOptions } from "./mqtt_bytes.ts";
import type { Received, WireClient } from "./wire.ts";

let packetId = 20_000;

/** What a request met with. */
export interface Answered {
  /** Undefined: none came. */
  readonly reply: Received<"publish"> | undefined;
  readonly code: number;
  readonly reason: string | undefined;
}

/**
 * Sends a request at QoS 1 and takes its PUBACK and what came before it: a reply, or nothing. Replies
 * are at QoS 0, so nothing else may be owed to `client` meanwhile.
 */
export async function request(
  client: WireClient,
  topic: string,
  payload: string | Uint8Array,
  properties: PublishOptions["properties"] = { responseTopic: "saguin/reply/1" },
): Promise<Answered> {
  packetId++;
  await client.publish({ topic, payload, qos: 1, packetId, properties });
  let reply: Received<"publish"> | undefined;
  for (;;) {
    const packet = await client.next();
    if (packet.type === "publish") {
      assert.equal(reply, undefined, "two replies to one request");
      reply = packet;
      continue;
    }
    assert.equal(packet.type, "puback");
    const { reasonCode, properties } = packet as Received<"puback">;
    return { reply, code: reasonCode, reason: properties.reasonString };
  }
}

/**
 * The PUBACK code of a request that is refused, with the sentence that MQTT 5 owes with it; fails when a
 * reply came too.
 */
export async function refused(
  client: WireClient,
  topic: string,
  payload: string | Uint8Array = "",
  properties?: PublishOptions["properties"],
): Promise<{ readonly code: number; readonly reason: string }> {
  const { reply, code, reason } = await request(client, topic, payload, properties);
  assert.equal(reply, undefined, "a refusal and a reply");
  assert.ok(code >= 0x80, `PUBACK 0x${code.toString(16)}, not a refusal`);
  assert.ok(reason !== undefined && reason !== "", "a refusal without a reason");
  return { code, reason };
}
