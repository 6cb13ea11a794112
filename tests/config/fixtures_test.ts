/** The configurations that are shipped load, from disk. */
import assert from "node:assert/strict";
import { loadConfiguration } from "../../src/config/load.ts";
import { accepted } from "./support.ts";

Deno.test("01 section 8: the quickstart loads and holds one channel of each type", () => {
  const path = new URL("../../fixtures/quickstart.yaml", import.meta.url).pathname;
  const configuration = accepted(loadConfiguration(path));
  assert.deepEqual(configuration.channels.map(({ name, type, filter }) => [name, type, filter]), [
    ["events", "append", "iot/+/devices/telemetry/#"],
    ["jobs", "queue", "iot/+/work/+"],
    ["jobs__dlq", "append", "iot/+/work/+/__dlq"],
    ["state", "latest", "iot/+/devices/state"],
  ]);
  assert.equal(configuration.mqtt.doors[0].allowAnonymous, true);
  const jobs = configuration.channels[1];
  assert.ok(jobs.type === "queue");
  assert.deepEqual([jobs.visibilityTimeoutMs, jobs.maxAttempts], [30_000, 5]);
});
