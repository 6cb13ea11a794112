/** Records that a start brought back, against the same records that never left memory. */
import assert from "node:assert/strict";
import type { AppendStore } from "../../../src/storage/contract.ts";
import type { MemoryProvider } from "../../../src/storage/memory/provider.ts";
import type { Message } from "../../../src/storage/record.ts";
import { type Random, seeded } from "../../support/random.ts";
import { appended, message, submit } from "../conformance/subject.ts";
import { ForgetfulDirectory } from "../snapshot/forgetful_directory.ts";
import { START, World } from "../snapshot/world.ts";

const STORES = [{ channel: "events", kind: "append" }] as const;
const RECORDS = 600;
const STEPS = 400;
const TEXTS = ["", "a", "plant/line", "größe", "机", "x".repeat(300)];

/** Plain or not in every field, a few of them larger than what is kept together. */
function some(random: Random): Message {
  const text = () => random.pick(TEXTS);
  const maybe = random.chance(0.5);
  return message(random.pick(["plant/a", "plant/ü", "t".repeat(200)]), "", {
    payload: random.bytes(random.chance(0.02) ? 300_000 : random.pick([0, 1, 100, 5_000])),
    messageId: random.chance(0.1) ? "ключ" : `id-${random.uint32()}`,
    timestamp: random.chance(0.1) ? 0n : START + BigInt(random.below(1_000)),
    headers: Array.from({ length: maybe ? 0 : random.below(4) }, () => [text(), text()] as const),
    properties: maybe ? {} : {
      ...(random.chance(0.5) && { contentType: text() }),
      ...(random.chance(0.5) && { responseTopic: text() }),
      ...(random.chance(0.5) && { correlationData: random.bytes(random.below(20)) }),
      ...(random.chance(0.5) && { payloadFormat: 1 as const }),
      ...(random.chance(0.5) && { messageExpiry: random.uint32() }),
    },
    retain: random.chance(0.5),
    bridge: text(),
    clientId: text(),
    qos: random.pick([0, 1, 2] as const),
    groupCopy: random.chance(0.1),
    onlyFor: text(),
  });
}

/** Two providers that are told and asked the same. */
class Twins {
  constructor(readonly providers: [MemoryProvider, MemoryProvider]) {}

  get stores(): AppendStore[] {
    return this.providers.map((provider) => provider.append("events"));
  }

  async both<T>(ask: (store: AppendStore) => Promise<T> | T): Promise<T> {
    const [one, other] = await Promise.all(this.stores.map(ask));
    assert.deepEqual(other, one);
    return one;
  }

  async publish(message: Message): Promise<void> {
    for (const provider of this.providers) {
      await submit(provider, [appended(provider.append("events"), message)]);
    }
  }

  counters(): Promise<number[]> {
    return this.both((store) => [store.next(), store.floor(), store.bytes()]);
  }
}

async function step(random: Random, twins: Twins): Promise<void> {
  const [next, floor, bytes] = await twins.counters();
  const offset = random.between(Math.max(1, floor - 2), next);
  const time = START + BigInt(random.below(1_100));
  switch (random.below(6)) {
    case 0:
    case 1:
      await twins.both((store) => store.readFrom(offset, 40, 1_000_000));
      break;
    case 2:
      await twins.both((store) => store.firstAtOrAfter(time));
      break;
    case 3: {
      const most = bytes - random.below(10_000);
      await twins.both((store) => store.trim(0n, most));
      break;
    }
    case 4:
      await twins.both((store) => store.trim(time - 1_000n, undefined));
      break;
    default:
      await twins.publish(some(random));
  }
}

Deno.test("S28 S57 S75 S192 a log that a snapshot brought back answers as the one it was written from", async () => {
  const random = seeded("packed records");
  const world = new World();
  const [path, otherPath] = [await Deno.makeTempDir(), await Deno.makeTempDir()];
  const directory = new ForgetfulDirectory(path);
  const twins = new Twins([
    await world.start(new ForgetfulDirectory(otherPath), STORES),
    await world.start(directory, STORES),
  ]);
  const restart = async () => {
    await world.stop(twins.providers[1]);
    twins.providers[1] = await world.start(directory, STORES);
  };
  try {
    for (let i = 0; i < RECORDS; i++) await twins.publish(some(random));
    const half = twins.stores[0].bytes() / 4;
    await twins.both((store) => store.trim(0n, store.bytes() - half));
    await restart();
    for (let i = 1; i <= STEPS; i++) {
      await step(random, twins);
      // What is left of one file, and what came since, go into the next one.
      if (i % 150 === 0) await restart();
    }
    for (let i = 0; i < 20; i++) await twins.publish(some(random));
    await restart();
    const whole = await twins.both((store) => store.readFrom(store.floor(), 1e6, 1e9));
    assert.ok(!whole.belowFloor && whole.records.length > 10);
    const middle = whole.records.slice(3, 7).map(({ offset }) => offset);
    await twins.both((store) => store.removeMany(middle));
    await twins.both((store) => store.readFrom(store.floor(), 1e6, 1e9));
    await restart();
    await twins.both((store) => store.readFrom(store.floor(), 1e6, 1e9));
    await twins.both((store) => store.trim(0n, 0));
    const [next, floor, bytes] = await twins.counters();
    assert.deepEqual([floor, bytes], [next, 0]);
  } finally {
    for (const provider of twins.providers) await provider.abandon();
    for (const each of [path, otherPath]) await Deno.remove(each, { recursive: true });
  }
});
