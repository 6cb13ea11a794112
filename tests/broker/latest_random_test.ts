/**
 * A client of a `latest` channel through random schedules: publishes whose reports come late and out of
 * order, acknowledgements in any order, stalled sockets, SUBSCRIBEs, lost connections. Whatever happens,
 * no topic goes backwards, and in the end the client knows what the store knows.
 */
import assert from "node:assert/strict";
import type { Delivery } from "../../src/broker/link.ts";
import type { Session } from "../../src/broker/session.ts";
import type { Offset, QoS } from "../../src/storage/record.ts";
import { type Random, seeded } from "../support/random.ts";
import { acknowledgeAll, LatestRig, offsetOf, turn } from "./latest_rig.ts";
import { RecordingLink } from "./rig.ts";

const ROUNDS = 40;
const STEPS = 300;

class WatchedLink extends RecordingLink {
  constructor(private readonly watch: (delivery: Delivery) => void) {
    super();
  }

  override deliver(delivery: Delivery, packetId: number, dup: boolean): boolean {
    this.watch(delivery);
    return super.deliver(delivery, packetId, dup);
  }
}

class Client {
  readonly session: Session;
  /** Highest offset ever delivered of each topic. */
  readonly seen = new Map<string, Offset>();
  /** The same over what was acknowledged, or sent at QoS 0. */
  readonly known = new Map<string, Offset>();
  delivered = 0;

  constructor(readonly rig: LatestRig, private readonly random: Random, readonly qos: QoS) {
    this.session = rig.client("c", {
      receiveMaximum: random.between(1, 6),
      queueBytes: random.pick([2_048, 16_384, 1_048_576]),
      link: this.link(),
    });
    this.subscribe();
  }

  link(): RecordingLink {
    return new WatchedLink((delivery) => this.#watch(delivery));
  }

  #watch(delivery: Delivery): void {
    const offset = offsetOf(delivery)!;
    const { topic } = delivery.message;
    const before = this.seen.get(topic) ?? 0;
    assert.ok(offset >= before, `${topic} went back from ${before} to ${offset}`);
    this.seen.set(topic, offset);
    this.delivered++;
    if (delivery.qos === 0) this.#know(delivery);
  }

  #know(delivery: Delivery): void {
    const { topic } = delivery.message;
    this.known.set(topic, Math.max(offsetOf(delivery)!, this.known.get(topic) ?? 0));
  }

  subscribe(): void {
    const filters = this.random.pick([["#"], ["s/#", "t/+"], ["s/#", "#", "t/1"]]);
    this.rig.subscribe(this.session, filters, { qos: this.qos });
  }

  acknowledgeOne(): void {
    const entries = [...this.session.window.entries()];
    if (entries.length === 0) return;
    const entry = this.random.chance(0.7) ? entries[0] : this.random.pick(entries);
    this.#know(entry.delivery);
    if (entry.qos === 1) return this.session.onPuback(entry.packetId);
    this.session.onPubrec(entry.packetId, false);
    if (this.random.chance(0.8)) this.session.onPubcomp(entry.packetId);
  }

  async acknowledgeAll(): Promise<void> {
    await acknowledgeAll(this.session, (entry) => this.#know(entry.delivery));
  }
}

function publish(rig: LatestRig, random: Random, reports: (() => void)[]): void {
  const topic = random.chance(0.7)
    ? `${random.pick(["s", "t"])}/${random.below(6)}`
    : `s/many/${random.below(60)}`;
  const [offset, report] = rig.store(
    topic,
    random.chance(0.15) ? "" : "v".repeat(random.below(40) + 1),
    { qos: random.pick([0, 1, 1, 2]) },
  );
  // A deletion of nothing has no offset to compare, and no order to come late from.
  if (offset === 0) return;
  if (random.chance(0.2)) reports.push(report);
  else report();
}

async function step(
  client: Client,
  random: Random,
  reports: (() => void)[],
  disconnects: boolean,
): Promise<void> {
  const { session, rig } = client;
  const choice = random.below(100);
  if (choice < 45) publish(rig, random, reports);
  else if (choice < 55 && reports.length > 0) reports.splice(random.below(reports.length), 1)[0]();
  else if (choice < 80) client.acknowledgeOne();
  else if (choice < 83) {
    if (session.link !== undefined) client.subscribe();
  } else if (choice < 88) {
    if (session.link instanceof RecordingLink) session.link.buffered = 1024 * 1024;
  } else if (choice < 94) {
    if (session.link instanceof RecordingLink) session.link.buffered = 0;
    session.drained();
  } else if (choice < 97 && disconnects) {
    if (session.link === undefined) session.resume(client.link());
    else session.detach();
  } else await turn();
}

for (const disconnects of [false, true]) {
  const name = `D13.11 D13.12 D13.14 D13.17 random schedules ${
    disconnects ? "with" : "without"
  } lost connections leave the client with the store's state`;
  Deno.test(name, async () => {
    const random = seeded(name);
    let delivered = 0;
    let superseded = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const rig = await LatestRig.make();
      const reports: (() => void)[] = [];
      for (let i = 0; i < 10; i++) publish(rig, random, reports);
      const first = rig.provider.latest("state").next();
      const client = new Client(rig, random, random.pick([0, 1, 2]));
      for (let i = 0; i < STEPS; i++) await step(client, random, reports, disconnects);
      while (reports.length > 0) reports.splice(random.below(reports.length), 1)[0]();
      const { session } = client;
      if (session.link === undefined) session.resume(client.link());
      (session.link as RecordingLink).buffered = 0;
      session.drained();
      await client.acknowledgeAll();
      await compare(client, disconnects ? Infinity : first);
      assert.equal(rig.channel.view(session)?.mark, Infinity);
      assert.equal(rig.channel.view(session)?.waiting, 0);
      delivered += client.delivered;
      superseded += rig.channel.superseded;
    }
    assert.ok(delivered > ROUNDS * 50 && superseded > ROUNDS, "the schedules do too little");
  });
}

/** Every value, and every deletion from `deletionsFrom` on, is known. */
async function compare(client: Client, deletionsFrom: Offset): Promise<void> {
  const scan = client.rig.provider.latest("state").scan("#", 0, true);
  for (;;) {
    const page = await scan.next(64);
    if (page.length === 0) return;
    for (const { offset, message: { topic, payload } } of page) {
      if (payload.byteLength === 0 && offset < deletionsFrom) continue;
      assert.equal(client.known.get(topic), offset, `${topic} is not what the store has`);
    }
  }
}
