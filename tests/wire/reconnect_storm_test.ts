/** Durable sessions that all come back at once, in small: `bench/reconnect_storm.ts` has it in full. */
import assert from "node:assert/strict";
import process from "node:process";
import { runStorm, STORM_CHANNELS } from "../../bench/support/storm.ts";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";

const SESSIONS = 1_000;
/** The slowest CONNACK, whatever the number of sessions; a client waits no longer. */
const CONNACK_MS = 10_000;
/** Processor time of this process by which it is told how busy the machine is. */
const SPUN_MS = 100;
/** Each write of a storm is two turns of a thread: other work on the machine is given this many chances. */
const STORMS = 3;

/** How many times as long as its own work this process takes, at least 1: the rest is others'. */
function crowding(): number {
  const begun = performance.now();
  const before = process.cpuUsage();
  let spun = 0;
  while (spun < SPUN_MS) {
    const { user, system } = process.cpuUsage(before);
    spun = (user + system) / 1_000;
  }
  return Math.max(1, (performance.now() - begun) / spun);
}

for (const provider of ["sqlite", "memory"] as const) {
  Deno.test(`D6.3 D8.5 D11.12 ${SESSIONS} durable sessions reconnect at once: each is there and owed what was acknowledged (${provider})`, async () => {
    await using broker = await BrokerProcess.start((place) =>
      configurationText(place, {
        provider,
        logLevel: "error",
        limits: "max_connect_rate: none\nconnect_timeout: 60s",
        channels: STORM_CHANNELS,
      })
    );
    for (let storm = 1;; storm++) {
      const before = crowding();
      const result = await runStorm({
        port: broker.port,
        pid: broker.pid,
        sessions: SESSIONS,
        publishers: 10,
        rate: 200,
        beforeMs: 500,
      });
      const { connack, during, lengthMs, acknowledged } = result;
      console.log(
        `storm of ${SESSIONS} on ${provider}: CONNACK worst ${
          connack.worst.toFixed(0)
        } ms, over in ` +
          `${lengthMs.toFixed(0)} ms; ${acknowledged} publishes, PUBACK p99 ` +
          `${during.p99.toFixed(0)} ms`,
      );
      assert.equal(result.resumed, SESSIONS);
      assert.equal(result.lost, 0);
      const most = CONNACK_MS * Math.max(before, crowding());
      if (connack.worst < most) break;
      assert.ok(
        storm < STORMS,
        `a CONNACK came after ${connack.worst.toFixed(0)} ms of ${
          most.toFixed(0)
        }, ${STORMS} times`,
      );
    }
  });
}
