/** Publishes that are owed to tens of thousands of sessions, and everybody else (01 invariant 16). */
import assert from "node:assert/strict";
import type { Session } from "../../src/broker/session.ts";
import type { Grant } from "../../src/broker/session_filters.ts";
import { type House, overBoth, text } from "../support/house.ts";
import { encodePublish, join } from "../support/mqtt_bytes.ts";
import { until } from "../support/wait.ts";

const SESSIONS = 40_000;
const PUBLISHES = 200;
/** What one publish takes on the clock of the house. */
const PUBLISH_MS = 20;

/** Sessions that are away and owed every message of `fan/#`; `owed` runs once a message. */
function crowd(house: House, owed: () => void): void {
  const grant: Grant = { qos: 1, retainAsPublished: false, identifiers: [], several: false };
  const { broadcast } = house.broker.publisher.destinations;
  for (let i = 0; i < SESSIONS; i++) {
    broadcast.add("fan/#", {
      clientId: `away${i}`,
      log: { owe: i === 0 ? owed : () => {}, lost() {} },
      grants: () => ({ own: grant, others: grant }),
    } as unknown as Session);
  }
}

overBoth(
  "I16 a client is answered between the publishes of another that are owed to very many",
  {},
  async (house, provider) => {
    crowd(house, () => house.time.begin(house.time.monotonic() + PUBLISH_MS));
    using publisher = await house.client({ clientId: "publisher" });
    using other = await house.client({ clientId: "other" });
    // One read takes all of them from then on.
    for (let i = 1; i <= 4; i++) {
      await publisher.publish({ topic: "t", payload: "x".repeat(9_000), qos: 1, packetId: i });
      await publisher.expectPuback(i);
    }
    // The provider gets them at once, and stores them together.
    const gate = provider === "sqlite" ? house.faults.hold("submit") : undefined;
    const numbers = Array.from({ length: PUBLISHES }, (_, i) => i + 1);
    await publisher.send(
      join(
        ...numbers.map((packetId) =>
          encodePublish({ topic: "fan/x", payload: String(packetId), qos: 1, packetId })
        ),
      ),
    );
    if (gate !== undefined) {
      await until("the publishes to come", () => gate.waiting === PUBLISHES);
      gate.open();
    }
    await publisher.expectPuback(1);
    await other.pingreq();
    await other.expect("pingresp");
    const served = house.logLength();
    assert.ok(served < PUBLISHES, `${served} of ${PUBLISHES} publishes went before the PINGRESP`);
    for (const packetId of numbers.slice(1)) await publisher.expectPuback(packetId);
    assert.equal(house.logLength(), PUBLISHES);
    const { store } = house.broker.publisher.destinations.log;
    const window = await store.readFrom(store.next() - PUBLISHES, PUBLISHES, 1e6);
    assert.ok(!window.belowFloor);
    assert.deepEqual(window.records.map(({ message }) => text(message)), numbers.map(String));
  },
);
