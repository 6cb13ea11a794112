import {
  BROADCAST_LOG,
  type InFlight,
  type Lease,
  type Provider,
  type RecordRow,
  RETAINED,
  sessionReader,
  type SessionRecord,
} from "../../../src/storage/contract.ts";
import type { Message } from "../../../src/storage/record.ts";
import {
  appended,
  counters,
  enqueued,
  held,
  kindOf,
  message,
  retained,
  set,
  submit,
  text,
  values,
  window,
} from "./subject.ts";

/** Numbers that a seed repeats (mulberry32). */
export class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }
  /** A whole number from 0 to below `sides`. */
  roll(sides: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides;
  }
  one<T>(of: readonly T[]): T {
    return of[this.roll(of.length)];
  }
}

/** What one provider answered, as text that has to be the same for every provider. */
export type Step = (provider: Provider, memory: Deliveries) => Promise<string>;

/** The deliveries handed out by one provider, by the order they were offered in. */
export interface Deliveries {
  readonly leases: Lease[];
}

const LOGS = ["events", "audit", BROADCAST_LOG];
const TOPICS = ["a", "a/b", "a/c", "b", "\u{e9}/b", "a/b/c"];
const FILTERS = ["#", "a/#", "+/b", "a", "a/+", "x"];
const CLIENTS = ["c1", "c2", "c3"];

/** A step and its name, drawn by the dice before any provider hears of it. */
export function draw(dice: Dice): readonly [name: string, step: Step] {
  return dice.one(KINDS)(dice);
}

const KINDS: readonly ((dice: Dice) => readonly [string, Step])[] = [
  publish,
  publish,
  publish,
  publish,
  read,
  read,
  trim,
  removeFromLog,
  position,
  scan,
  trimValues,
  offer,
  offer,
  answerDelivery,
  answerDelivery,
  answerDelivery,
  sweepQueue,
  settings,
  hold,
  hold,
  session,
  session,
  sessionWindow,
];

function drawMessage(dice: Dice): Message {
  const payload = dice.roll(5) === 0 ? "" : "p".repeat(1 + dice.roll(20)) + dice.roll(100);
  return message(dice.one(TOPICS), payload, {
    timestamp: BigInt(dice.roll(40)),
    headers: dice.roll(3) === 0 ? [["h", `${dice.roll(10)}`]] : [],
    clientId: dice.one(CLIENTS),
  });
}

function publish(dice: Dice): readonly [string, Step] {
  const rows: ((provider: Provider) => RecordRow)[] = [];
  const names: string[] = [];
  // One value of a topic, and one hold, at most in an entry.
  const kinds = ["append", "append", "enqueue"];
  if (dice.roll(2) === 0) kinds.push("set", "retain", "hold");
  for (let i = 1 + dice.roll(3); i > 0 && kinds.length > 0; i--) {
    const [kind] = kinds.splice(dice.roll(kinds.length), 1);
    const message = drawMessage(dice);
    const log = dice.one(LOGS);
    const [client, packet] = [dice.one(CLIENTS), 1 + dice.roll(3)];
    names.push(`${kind} ${message.topic}=${text(message)}`);
    if (kind === "append") rows.push((provider) => appended(provider.append(log), message));
    else if (kind === "set") rows.push((provider) => set(provider.latest("state"), message));
    else if (kind === "retain") {
      rows.push((provider) => retained(provider.latest(RETAINED), message));
    } else if (kind === "enqueue") {
      rows.push((provider) => enqueued(provider.queue("jobs"), message));
    } else rows.push((provider) => held(holder(provider, log), client, packet, message));
  }
  return [
    `publish ${names.join(", ")}`,
    async (provider) => {
      const outcome = await submit(provider, rows.map((row) => row(provider)));
      // Which of two reasons is found first is not promised.
      return typeof outcome === "string" ? "refused" : `${outcome}`;
    },
  ];
}

/** Holds are kept by stores of every kind: the second log's are the queue's, the third's the values'. */
function holder(provider: Provider, log: string) {
  if (log === "audit") return provider.queue("jobs");
  return log === "events" ? provider.append(log) : provider.latest("state");
}

function hold(dice: Dice): readonly [string, Step] {
  const [client, packet] = [dice.one(CLIENTS), 1 + dice.roll(3)];
  const log = dice.one(LOGS);
  const release = dice.roll(3) > 0;
  return [`${release ? "release" : "abandon"} ${log} ${client} ${packet}`, async (provider) => {
    const store = holder(provider, log);
    const before = await store.held(client, packet);
    const outcome = release
      ? await kindOf(store.releaseHold(client, packet).then((record) => record?.offset))
      : await store.abandonHold(client, packet, "departed");
    return `${before && text(before)} ${outcome} ${await store.held(client, packet) !== undefined}`;
  }];
}

function read(dice: Dice): readonly [string, Step] {
  const log = dice.one(LOGS);
  const [from, max, maxBytes] = [dice.roll(60), 1 + dice.roll(8), 1_000_000];
  const time = BigInt(1 + dice.roll(45));
  return [`read ${log} ${from} ${max} ${maxBytes}`, async (provider) => {
    const store = provider.append(log);
    const first = await store.firstAtOrAfter(time);
    return `${await window(store, from, max, maxBytes)} | ${first.offset} ${first.found}`;
  }];
}

function trim(dice: Dice): readonly [string, Step] {
  const log = dice.one(["events", "audit", "jobs__dlq"]);
  const before = dice.roll(2) === 0 ? 0n : BigInt(dice.roll(30));
  const maxBytes = dice.roll(2) === 0 ? undefined : dice.roll(400);
  return [`trim ${log} ${before} ${maxBytes}`, async (provider) => {
    const { removed, freed } = await provider.append(log).trim(before, maxBytes);
    return `${removed} ${freed}`;
  }];
}

function removeFromLog(dice: Dice): readonly [string, Step] {
  const offsets = Array.from({ length: 1 + dice.roll(4) }, () => 1 + dice.roll(50));
  return [`remove ${offsets}`, async (provider) => {
    const { removed, freed } = await provider.append(BROADCAST_LOG).removeMany(offsets);
    return `${removed} ${freed}`;
  }];
}

function position(dice: Dice): readonly [string, Step] {
  const reader = dice.roll(4) === 0 ? "bridge:up" : sessionReader(dice.one(CLIENTS));
  const log = dice.one(["events", "audit"]);
  const [back, expiry, lastSeen] = [dice.roll(9), dice.roll(3), BigInt(dice.roll(9))];
  const drop = dice.roll(4) === 0;
  return [`position ${log} ${reader} ${drop}`, async (provider) => {
    const store = provider.append(log);
    const before = await store.position(reader);
    let outcome: unknown = drop;
    if (drop) outcome = await store.dropPosition(reader, "connected");
    else {
      const offset = Math.max(1, store.next() - back);
      await store.savePosition({ reader, offset, expiry, lastSeen }, "connected");
    }
    const shown = before && `${before.offset} ${before.expiry} ${before.lastSeen}`;
    return `${shown} ${outcome} ${store.lowestPosition()}`;
  }];
}

function scan(dice: Dice): readonly [string, Step] {
  const store = dice.one(["state", RETAINED]);
  const filter = dice.one(FILTERS);
  const options = { from: dice.roll(30), deletions: dice.roll(2) === 0, page: 1 + dice.roll(4) };
  const topic = dice.one(TOPICS);
  return [`scan ${store} ${filter} from ${options.from}`, async (provider) => {
    const value = await provider.latest(store).get(topic);
    const found = await values(provider.latest(store), filter, options);
    return `${found} | ${value && text(value.message)}@${value?.offset}`;
  }];
}

function trimValues(dice: Dice): readonly [string, Step] {
  const [valuesBefore, deletionsBefore] = [BigInt(dice.roll(15)), BigInt(dice.roll(25))];
  const named = [{ topic: dice.one(TOPICS), offset: 1 + dice.roll(30) }];
  return [`trim values ${valuesBefore} ${deletionsBefore}`, async (provider) => {
    const store = provider.latest("state");
    const trimmed = await store.trim(valuesBefore, deletionsBefore);
    const removed = await store.removeMany(named);
    return `${trimmed.removed} ${trimmed.freed} ${removed.removed} ${removed.freed}`;
  }];
}

function offer(dice: Dice): readonly [string, Step] {
  const now = dice.roll(500);
  return [`offer ${now}`, async (provider, deliveries) => {
    const offer = await provider.queue("jobs").offer(now);
    if (offer === undefined) return "none";
    deliveries.leases.push(offer);
    return `${offer.offset} ${offer.attempt} ${text(offer.message)}`;
  }];
}

function answerDelivery(dice: Dice): readonly [string, Step] {
  const which = dice.roll(6);
  const answer = dice.one(["lease", "lease", "resolve", "return", "give back", "move", "look"]);
  const [at, time] = [BigInt(1 + dice.roll(100)), dice.roll(500)];
  const letter = drawMessage(dice);
  return [`${answer} -${which}`, async (provider, { leases }) => {
    const lease = leases[leases.length - 1 - which];
    if (lease === undefined) return "none";
    const queue = provider.queue("jobs");
    const options = { spend: answer === "return", at, gapFrom: time };
    switch (answer) {
      case "lease":
        return `${await queue.lease(lease, at, time)}`;
      case "resolve":
        return `${await queue.resolve(lease)}`;
      case "move": {
        const into = provider.append("jobs__dlq");
        return `${(await queue.deadLetter(lease.offset, lease, letter, into))?.offset}`;
      }
      case "look": {
        const job = await queue.job(lease);
        const times = `${job?.firstDelivered} ${job?.lastDelivered}`;
        return `${queue.heldSince(lease)} ${job?.offset} ${job?.attempts} ${times}`;
      }
      default:
        return await queue.release(lease, options);
    }
  }];
}

function sweepQueue(dice: Dice): readonly [string, Step] {
  const [before, max, now] = [BigInt(dice.roll(20)), 1 + dice.roll(5), dice.roll(500)];
  const move = dice.roll(2) === 0;
  const letter = drawMessage(dice);
  return [`sweep ${before} ${max}`, async (provider) => {
    const queue = provider.queue("jobs");
    const jobs = await queue.overdue(before, max);
    const expired = queue.expiredLeases(now).map(({ offset }) => offset).sort((a, b) => a - b);
    const shown = jobs.map((job) => `${job.offset}x${job.attempts}`);
    let moved: number | undefined;
    if (move && jobs.length > 0) {
      const into = provider.append("jobs__dlq");
      moved = (await queue.deadLetter(jobs[0].offset, undefined, letter, into))?.offset;
    }
    return `${shown} | ${expired} | ${moved}`;
  }];
}

function settings(dice: Dice): readonly [string, Step] {
  const bound = dice.roll(3) === 0 ? undefined : 50 + dice.roll(600);
  const attempts = 1 + dice.roll(4);
  const kind = dice.one(["none", "linear", "exponential"] as const);
  return [`bound ${bound}, attempts ${attempts}, ${kind}`, (provider) => {
    provider.append("events").setMaxBytes(bound);
    provider.queue("jobs").setMaxBytes(bound === undefined ? undefined : 2 * bound);
    provider.queue("jobs").setMaxAttempts(attempts);
    provider.queue("jobs").setBackoff(kind === "none" ? { kind } : { kind, baseMs: 50 });
    return Promise.resolve("");
  }];
}

function session(dice: Dice): readonly [string, Step] {
  const clientId = dice.one(CLIENTS);
  const record: SessionRecord = {
    clientId,
    expiry: dice.roll(100),
    awaySince: 1n + BigInt(dice.roll(9)),
    subscriptions: [],
    will: undefined,
    willDue: 0n,
    window: 3,
  };
  const kind = dice.one(["begin", "save", "save", "end"]);
  return [`${kind} ${clientId}`, async (provider) => {
    const store = provider.sessions();
    if (kind === "begin") {
      // Windows point into the log: a session is begun where it stands now.
      const cursor = provider.append(BROADCAST_LOG).next();
      return `${await kindOf(store.begin(record, cursor, "answering"))}`;
    }
    if (kind === "save") return `${await kindOf(store.save(record, "answering"))}`;
    return `${await kindOf(store.end(clientId, "departed"))}`;
  }];
}

function sessionWindow(dice: Dice): readonly [string, Step] {
  const clientId = dice.one(CLIENTS);
  const [id, back, drop] = [1 + dice.roll(5), dice.roll(3), 1 + dice.roll(5)];
  return [`window ${clientId} ${id} ${drop}`, async (provider) => {
    const log = provider.append(BROADCAST_LOG);
    const offset = log.next() - 1 - back;
    const put: InFlight[] = offset < log.floor()
      ? []
      : [{ packetId: id, offset, qos: 1, state: "sent", group: "" }];
    const change = { clientId, put, drop: [{ packetId: drop, offset: log.next() - 1 }] };
    return `${await kindOf(provider.sessions().change(change, "connected"))}`;
  }];
}

/** Everything a provider shows of itself without being asked for records. */
export async function everything(provider: Provider): Promise<string> {
  const parts: string[] = [];
  for (const log of [...LOGS, "jobs__dlq"]) {
    const store = provider.append(log);
    parts.push(`${log}: ${counters(store)} ${await window(store, store.floor())}`);
  }
  parts.push(`jobs: ${counters(provider.queue("jobs"))}`);
  for (const channel of ["state", RETAINED]) {
    const store = provider.latest(channel);
    const shown = await values(store, "#", { deletions: true });
    parts.push(`${channel}: ${store.next()} ${store.floor()} ${shown}`);
  }
  return parts.join("\n");
}

/** What a start finds: sessions with S65 applied, holds, and the positions that are not over. */
export async function atStart(provider: Provider): Promise<string> {
  const { sessions } = await provider.sessions().load();
  const parts = sessions.map(({ record, cursor, inFlight }) =>
    `${record.clientId} ${record.expiry} ${record.awaySince} ${cursor} [${
      inFlight.map(({ packetId, offset }) => `${packetId}:${offset}`).sort()
    }]`
  ).sort();
  const { kept, abandoned } = await provider.recoverHolds((_, { packetId }) => packetId !== 2);
  parts.push(`${abandoned} holds abandoned`);
  const holds = kept.map(({ channel, clientId, packetId, heldAt }) =>
    `${channel} ${clientId} ${packetId} ${heldAt}`
  );
  parts.push(...holds.sort());
  const dropped = await provider.sweepPositions((clientId) => clientId === "c1", 2_000_000_000n);
  parts.push(`${dropped} positions dropped`);
  return parts.join("\n");
}
