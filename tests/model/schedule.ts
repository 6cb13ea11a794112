/**
 * What a schedule is: steps that clients take and accidents that befall the broker, as plain JSON. Every
 * choice is in the step itself, so that steps can be left out without changing what the others do.
 */
import type { Random } from "../support/random.ts";

export type StorageKind = "sqlite" | "memory";

/** The clients that a schedule moves. */
export const CLIENTS = ["anna", "bert", "cleo", "dora"] as const;

export interface Connect {
  readonly do: "connect";
  readonly client: string;
  readonly level: 4 | 5;
  readonly clean: boolean;
  /** Session Expiry Interval in seconds; at level 4 what `clean` says counts. */
  readonly expiry: number;
  readonly window: number;
}

/**
 * `pick` chooses among what there is when the step comes (deliveries on the wire, exchanges, ids seen):
 * its remainder counts.
 */
export type Action =
  | Connect
  /** A CONNECT that gets no session: refused for its Will, or gone before its CONNACK. */
  | {
    readonly do: "impostor";
    readonly client: string;
    readonly how: "refused" | "cut";
    readonly clean: boolean;
  }
  | { readonly do: "disconnect"; readonly client: string; readonly expiry?: number }
  /** The connection is lost without a DISCONNECT. */
  | { readonly do: "cut"; readonly client: string }
  | {
    readonly do: "publish";
    readonly client: string;
    readonly topic: string;
    readonly qos: 0 | 1 | 2;
    readonly retain: boolean;
    /** Names the publish; its payload is this, or nothing where `empty`. */
    readonly mark: number;
    readonly empty: boolean;
    /** Sends a `saguin-id` of its own. */
    readonly named: boolean;
  }
  /** Goes on with an inbound QoS 2 exchange: PUBREL, or the PUBLISH again (`repeat`). */
  | {
    readonly do: "release";
    readonly client: string;
    readonly pick: number;
    readonly repeat: boolean;
  }
  | {
    readonly do: "subscribe";
    readonly client: string;
    readonly filter: string;
    readonly qos: 0 | 1 | 2;
    readonly handling: 0 | 1 | 2;
  }
  | { readonly do: "unsubscribe"; readonly client: string; readonly filter: string }
  /** Acknowledges one delivery, or as many as `all`. */
  | { readonly do: "ack"; readonly client: string; readonly pick: number; readonly all: boolean }
  /** Answers a job: the one held (`own`), or any Delivery ID ever seen by anybody. */
  | {
    readonly do: "answer";
    readonly client: string;
    readonly own: boolean;
    readonly pick: number;
    readonly verdict: "ack" | "return";
  }
  | { readonly do: "seek"; readonly client: string; readonly channel: string; readonly to: SeekTo }
  /** Publishes a dead letter's job anew, under its identity. */
  | {
    readonly do: "redrive";
    readonly client: string;
    readonly pick: number;
    readonly mark: number;
  }
  | { readonly do: "pass"; readonly ms: number }
  | { readonly do: "crash"; readonly downMs: number }
  | { readonly do: "restart"; readonly downMs: number };

export type SeekTo = "floor" | "next" | "below" | "beyond" | "middle";

export type Step = Action & {
  /** Turns of the event loop before the next step; absent: until nothing is left to do. */
  readonly turns?: number;
};

export interface Schedule {
  readonly storage: StorageKind;
  readonly steps: readonly Step[];
}

export const APPENDS = ["log", "trail", "brief"] as const;
export const QUEUES = ["jobs", "slow"] as const;
/** Subscription Identifier of every shared subscription, and of no other. */
export const SHARED_IDENTIFIER = 7;

const FILTERS = [
  "log/#",
  "log/a",
  "trail/#",
  "brief/#",
  "state/#",
  "cast/#",
  "cast/x",
  "kept/#",
  "jobs/__dlq/#",
  "$saguin/queue/jobs",
  "$saguin/queue/slow",
  "$share/g/log/#",
  "$share/g/cast/#",
] as const;

const TOPICS = [
  "log/a",
  "log/b",
  "trail/a",
  "brief/a",
  "state/x",
  "state/y",
  "cast/x",
  "cast/y",
  "kept/x",
  "jobs/a",
  "jobs/b",
  "slow/a",
] as const;

/** What a schedule dwells on: one seed exercises a corner, all seeds together everything. */
export const FOCUSES: readonly {
  readonly topics: readonly string[];
  readonly filters: readonly string[];
}[] = [
  { topics: TOPICS, filters: FILTERS },
  { topics: ["log/a", "log/b", "trail/a"], filters: ["log/#", "log/a", "trail/#"] },
  { topics: ["trail/a", "brief/a"], filters: ["trail/#", "brief/#"] },
  {
    topics: ["jobs/a", "jobs/b", "slow/a"],
    filters: ["$saguin/queue/jobs", "$saguin/queue/slow", "jobs/__dlq/#"],
  },
  { topics: ["jobs/a"], filters: ["$saguin/queue/jobs"] },
  {
    topics: ["cast/x", "cast/y", "log/a"],
    filters: ["cast/#", "cast/x", "$share/g/cast/#", "$share/g/log/#", "log/#"],
  },
  { topics: ["state/x", "state/y", "kept/x", "cast/x"], filters: ["state/#", "kept/#", "cast/#"] },
];

/** A schedule of about `length` steps. */
export function draw(
  random: Random,
  storage: StorageKind,
  length = 40,
  focus = random.pick(FOCUSES),
): Schedule {
  const clients = CLIENTS.slice(0, random.between(2, CLIENTS.length));
  const steps: Step[] = [];
  let mark = 0;
  const hurried = random.chance(0.5) ? 0 : random.fraction() * 0.5;
  const add = (action: Action) => {
    const hasty = random.chance(hurried);
    steps.push(hasty ? { ...action, turns: random.below(4) } : action);
  };
  const client = () => random.pick(clients);
  const filter = () => random.pick(focus.filters);
  const subscribe = (of: string) =>
    add({
      do: "subscribe",
      client: of,
      filter: filter(),
      qos: random.chance(0.6) ? 1 : random.pick([0, 2] as const),
      handling: random.chance(0.85) ? 0 : random.pick([1, 2] as const),
    });
  for (const each of clients) {
    add(connect(random, each));
    subscribe(each);
  }
  const kinds = weighted(random, focus.topics.some((topic) => /^(jobs|slow)\//.test(topic)));
  while (steps.length < length) {
    switch (random.pick(kinds)) {
      case "connect":
        add(connect(random, client()));
        break;
      case "impostor":
        add({
          do: "impostor",
          client: client(),
          how: random.chance(0.5) ? "refused" : "cut",
          clean: random.chance(0.5),
        });
        break;
      case "disconnect": {
        const expiry = random.chance(0.2) ? random.pick([0, 30]) : undefined;
        add({ do: "disconnect", client: client(), ...(expiry !== undefined && { expiry }) });
        break;
      }
      case "cut":
        add({ do: "cut", client: client() });
        break;
      case "publish":
        for (let burst = random.chance(0.2) ? random.between(2, 8) : 1; burst > 0; burst--) {
          const topic = random.pick(focus.topics);
          add({
            do: "publish",
            client: client(),
            topic,
            qos: random.chance(0.7) ? 1 : random.pick([0, 2, 2] as const),
            retain: topic.startsWith("kept/") ? random.chance(0.8) : random.chance(0.05),
            mark: ++mark,
            empty: /^(state|kept)\//.test(topic) && random.chance(0.2),
            named: random.chance(0.2),
          });
        }
        break;
      case "release":
        add({ do: "release", client: client(), pick: random.below(8), repeat: random.chance(0.3) });
        break;
      case "subscribe":
        subscribe(client());
        break;
      case "unsubscribe":
        add({ do: "unsubscribe", client: client(), filter: filter() });
        break;
      case "ack":
        add({ do: "ack", client: client(), pick: random.below(8), all: random.chance(0.3) });
        break;
      case "answer":
        add({
          do: "answer",
          client: client(),
          own: random.chance(0.7),
          pick: random.below(32),
          verdict: random.chance(0.3) ? "ack" : "return",
        });
        break;
      case "seek":
        add({
          do: "seek",
          client: client(),
          channel: random.pick([...APPENDS, "jobs__dlq"]),
          to: random.pick(["floor", "next", "below", "beyond", "middle"] as const),
        });
        break;
      case "redrive":
        add({ do: "redrive", client: client(), pick: random.below(8), mark: ++mark });
        break;
      case "pass":
        steps.push({
          do: "pass",
          ms: random.pick([10, 100, 250, 250, 500, 1_000, 1_200, 3_000, 6_000, 40_000]),
        });
        break;
      case "crash":
        // As often as not in the middle of what the step before it does (18).
        if (random.chance(0.5)) steps.push({ ...steps.pop()!, turns: random.below(3) });
        steps.push({ do: "crash", downMs: random.pick([0, 0, 1_000, 40_000]) });
        break;
      case "restart":
        steps.push({ do: "restart", downMs: random.pick([0, 0, 1_000, 40_000]) });
        break;
    }
  }
  return { storage, steps };
}

function connect(random: Random, client: string): Connect {
  const level = random.chance(0.75) ? 5 : 4;
  return {
    do: "connect",
    client,
    level,
    clean: random.chance(0.2),
    expiry: random.pick([0, 30, 3_000, 3_000, 3_000]),
    window: random.pick([1, 2, 3, 20, 20]),
  };
}

/** Kinds of steps, as often as they are to come. */
function weighted(random: Random, work: boolean): readonly Action["do"][] {
  const weights: [Action["do"], number][] = [
    ["connect", 8],
    ["impostor", 2],
    ["disconnect", 3],
    ["cut", 3],
    ["publish", 20],
    ["release", 5],
    ["subscribe", 6],
    ["unsubscribe", 4],
    ["ack", 12],
    ["answer", work ? 24 : 0],
    ["seek", 3],
    ["redrive", work ? 2 : 0],
    ["pass", work ? 16 : 8],
    ["crash", random.pick([0, 2, 4])],
    ["restart", random.pick([0, 2, 3])],
  ];
  return weights.flatMap(([kind, weight]) => new Array<Action["do"]>(weight).fill(kind));
}
