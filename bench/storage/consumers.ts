/**
 * Publishes while every consumer gets and acknowledges each of them, through the executable: the load
 * generators of the other benches, so that the figures stand beside theirs.
 */
import { load, saguin } from "../support/brokers.ts";
import type { FanResult } from "../support/fan.ts";
import type { LoadResult } from "../support/load.ts";
import { table, whole } from "../support/measure.ts";
import { PAYLOAD_BYTES, type Scale, type Target } from "./support.ts";

const PUBLISHERS = 8;
const WINDOW = 256;
const CHANNELS = "bench:\n  type: append";

interface Load {
  readonly name: string;
  readonly consumers: number;
  readonly qos: 0 | 1;
}

const LOADS: readonly Load[] = [
  { name: "1cons, QoS 0", consumers: 1, qos: 0 },
  { name: "4cons, QoS 0", consumers: 4, qos: 0 },
  { name: "4 that acknowledge", consumers: 4, qos: 1 },
  { name: "50 that acknowledge", consumers: 50, qos: 1 },
];

export async function benchmarkConsumers(scale: Scale): Promise<Target[]> {
  const measure = { warmup: scale.ms, measure: scale.ms * 2, payload: PAYLOAD_BYTES, level: 4 };
  const rows: string[][] = [];
  for (const kind of ["memory", "sqlite"] as const) {
    const contender = saguin(kind, { provider: kind, channels: CHANNELS });
    {
      await using broker = await contender.start();
      const alone = { connections: PUBLISHERS, window: 1, topic: "bench", ...measure };
      const { rate } = await load<LoadResult>(broker, "load.ts", alone);
      rows.push([
        kind,
        `0cons, ${PUBLISHERS} publishers`,
        whole(rate),
        (1e6 / rate).toFixed(1),
        "-",
      ]);
    }
    for (const { name, consumers, qos } of scale.smoke ? LOADS.slice(2, 3) : LOADS) {
      await using broker = await contender.start();
      const fan = { consumers, qos, window: WINDOW, topic: "bench", ...measure };
      const { rate } = await load<FanResult>(broker, "fan.ts", fan);
      const published = rate / consumers;
      rows.push([kind, name, whole(published), (1e6 / published).toFixed(1), whole(rate)]);
    }
  }
  console.log(table(["", "consumers", "publishes/s", "us", "deliveries/s"], rows));
  return [];
}
