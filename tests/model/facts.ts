/**
 * What a client has been promised and what it was seen to get: the model's memory, as plain data. A memory
 * provider that dies goes back to its last snapshot, and this goes back with it by being copied.
 */

/** A promise was broken; `rule` is the invariant's number, or the rule's id. */
export class Broken extends Error {
  constructor(readonly rule: string, message: string) {
    super(message);
    this.name = "Broken";
  }
}

/**
 * `sent`: nothing was said of it. `held`: PUBREC came and no PUBREL went. `freed`: PUBREL went too.
 * `stored`: PUBACK or PUBCOMP came. `unsure`: the answer was lost on its way. `never`: refused, or given up
 * before its PUBREL: nobody may see it.
 */
export type Fate = "sent" | "held" | "freed" | "stored" | "unsure" | "never";

export interface Publish {
  readonly mark: string;
  readonly client: string;
  readonly topic: string;
  readonly qos: number;
  readonly retain: boolean;
  readonly empty: boolean;
  /** The `saguin-id` it was sent with, or the one it was first seen under. */
  id: string | undefined;
  readonly named: boolean;
  /** Numbers of events. */
  readonly sentAt: number;
  /** When it was asked to be written: its PUBREL at QoS 2. */
  askedAt: number;
  storedAt: number;
  fate: Fate;
}

/** A record as it was seen. */
export interface Seen {
  readonly mark: string;
  readonly id: string | undefined;
}

/**
 * What became of a client's acknowledgement. `sent`: on its way. `sure`: the broker has it. `stored`: it
 * must be kept. `maybe`: the broker may have lost it.
 */
export interface Ack {
  state: "sent" | "sure" | "stored" | "maybe";
  at: number;
}

export interface Subscription {
  readonly filter: string;
  readonly qos: number;
  /** Number of the event, its SUBACK once that came. */
  since: number;
  /** SUBACK came and no UNSUBSCRIBE went. */
  sure: boolean;
  /** By channel that it reaches: from which offset on every matching record is owed. */
  readonly from: Map<string, number>;
  /** What it replaces once it is granted. */
  before: Subscription | undefined;
}

/** A session's reading of one append channel. */
export interface Consumer {
  readonly acked: Map<number, Ack>;
  /** Delivered and not acknowledged. */
  readonly onWire: Set<number>;
  /** Last offset delivered on this connection. */
  last: number;
  /** Lowest offset it can have begun at. */
  base: number;
  /** The broker's cursor is not above this. */
  readTo: number;
  /** Delivered once at least, whatever became of it. */
  readonly had: Set<number>;
  /** Whether the broker keeps a position here at all, nobody was told. */
  doubtful: boolean;
  /** Seeks so far: acknowledgements of deliveries before one count for nothing (D12.13). */
  era: number;
}

export interface Owed {
  /** `released`: QoS 2, past its PUBREL; it must not be sent again. */
  state: "owed" | "wire" | "released" | "acked";
  ack: Ack | undefined;
}

export interface Exchange {
  readonly packetId: number;
  readonly mark: string;
  recorded: boolean;
  released: boolean;
  /** Its PUBREL went on a connection that is gone: another may be answered `0x92` (D5.18). */
  again: boolean;
}

export interface SessionFacts {
  readonly client: string;
  level: 4 | 5;
  /** Granted, in seconds; with `expiryAtLeast`, what it is at most. */
  expiry: number;
  /** Below `expiry` where a DISCONNECT gave another and a stop came before it was heard of. */
  expiryAtLeast: number;
  window: number;
  /** Number of the connection that owns it; undefined while away. */
  connection: number | undefined;
  /** Since when it is away, at the earliest and at the latest. */
  awayAt: number;
  awayAtLatest: number;
  /** The broker has stored that. */
  awayKept: boolean;
  /** Nobody can say what is kept of it. */
  unsure: boolean;
  readonly subscriptions: Map<string, Subscription>;
  readonly consumers: Map<string, Consumer>;
  readonly owed: Map<string, Owed>;
  readonly exchanges: Map<number, Exchange>;
  /** By topic of a latest channel: the highest offset handed over on this connection. */
  readonly viewed: Map<string, number>;
  /** It was sent a broadcast with nothing in it, which nobody can name: its cursor may stand there. */
  blank: boolean;
  /** Somebody else tried to take the client id since it was last looked at. */
  disturbed: boolean;
  /** The broker stopped or died since. */
  restarted: boolean;
}

export interface Held {
  readonly client: string;
  readonly connection: number;
  readonly deliveryId: string;
  readonly attempt: number;
  /** When the worker's PUBACK went; undefined before. */
  pubackAt: number | undefined;
  /** A stale answer named the job meanwhile. */
  disputed: boolean;
  /** Its connection sent a DISCONNECT. */
  leaving: boolean;
}

export interface Job {
  readonly queue: string;
  readonly offset: number;
  readonly mark: string;
  /** Attempts that count for certain, and at most. */
  spent: number;
  spentAtMost: number;
  held: Held | undefined;
  /** `maybe`: an ack went whose answer was lost. */
  done: "no" | "maybe" | "resolved" | "letter";
  /** Its dead letter's offset; 0 before there is one. */
  letter: number;
  /** From this moment on it is offered to whoever is idle. */
  availableAt: number;
  /** For what it is called when something is wrong: a stale answer, a PUBACK alone, held at a stop. */
  staleAnswer: boolean;
  heldAtStop: boolean;
  pubackedOnly: boolean;
}

export interface Group {
  readonly filter: string;
  /** By mark: who got it, and whether that was acknowledged. */
  readonly given: Map<string, { client: string; acked: Ack | undefined; free: boolean }>;
  /** Publishes it is owed, while it has a durable member. */
  readonly owed: Set<string>;
}

export interface Facts {
  readonly publishes: Map<string, Publish>;
  /** By channel and offset. */
  readonly records: Map<string, Map<number, Seen>>;
  /** By channel and mark, of append and latest channels. */
  readonly offsets: Map<string, Map<string, number>>;
  readonly floors: Map<string, number>;
  readonly nexts: Map<string, number>;
  readonly sessions: Map<string, SessionFacts>;
  readonly jobs: Map<string, Map<number, Job>>;
  readonly groups: Map<string, Group>;
}

export function noFacts(): Facts {
  return {
    publishes: new Map(),
    records: new Map(),
    offsets: new Map(),
    floors: new Map(),
    nexts: new Map(),
    sessions: new Map(),
    jobs: new Map(),
    groups: new Map(),
  };
}

/** The channel of a topic, as the configuration has it; undefined for broadcast. */
export function channelOf(topic: string): string | undefined {
  const [first, second] = topic.split("/");
  if (second === "__dlq") return `${first}__dlq`;
  return ["log", "trail", "brief", "state", "jobs", "slow"].includes(first) ? first : undefined;
}

export function isAppend(channel: string | undefined): channel is string {
  return channel !== undefined && /^(log|trail|brief|.*__dlq)$/.test(channel);
}

export function isQueue(channel: string | undefined): channel is "jobs" | "slow" {
  return channel === "jobs" || channel === "slow";
}

/** Whether a plain filter of these schedules matches: literal levels, or `#` at the end. */
export function matches(filter: string, topic: string): boolean {
  return filter.endsWith("/#") ? topic.startsWith(filter.slice(0, -1)) : filter === topic;
}

/** What a shared filter is about; undefined for any other. */
export function sharedFilter(filter: string): string | undefined {
  return filter.startsWith("$share/g/") ? filter.slice("$share/g/".length) : undefined;
}

/** The queue that a filter takes work from. */
export function pinnedQueue(filter: string): string | undefined {
  return filter.startsWith("$saguin/queue/") ? filter.slice("$saguin/queue/".length) : undefined;
}

/** The value under `key`, made when there is none. */
export function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) map.set(key, value = make());
  return value;
}
