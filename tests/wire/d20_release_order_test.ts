/** The order of one client's QoS 2 publishes, whose releases come one behind the other (MQTT 5 4.6). */
import assert from "node:assert/strict";
import { subscribed } from "../support/clients.ts";
import { overBoth, text } from "../support/house.ts";
import { encodePublish, encodePubrel, join } from "../support/mqtt_bytes.ts";

const WINDOW = 40;
const ROUNDS = 5;
const topic = "d20/t";

overBoth(
  "D20.4 broadcasts of one client, retained values among them, stand in the order of its PUBRELs",
  { broker: `qos2:\n  max_inflight_per_client: ${WINDOW}` },
  async (house) => {
    using reader = await house.client({ clientId: "reader" });
    await subscribed(reader, topic, 0);
    using writer = await house.client({ clientId: "writer" });
    const ids = Array.from({ length: WINDOW }, (_, i) => i + 1);
    const sent: string[] = [];
    const got: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      await writer.send(join(...ids.map((packetId) => {
        const payload = `${round}:${packetId}`;
        sent.push(payload);
        return encodePublish({ topic, payload, qos: 2, packetId, retain: packetId % 2 === 0 });
      })));
      for (const packetId of ids) await writer.expectPubrec(packetId);
      await writer.send(join(...ids.map((packetId) => encodePubrel({ packetId }))));
      while (got.length < sent.length) got.push(text(await reader.expect("publish")));
      for (let i = 0; i < WINDOW; i++) await writer.expect("pubcomp");
    }
    assert.deepEqual(got, sent);
    using late = await house.client({ clientId: "late" });
    await subscribed(late, topic, 0);
    assert.equal(text(await late.expect("publish")), sent.at(-1));
  },
);
