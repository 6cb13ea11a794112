/** Warnings that one peer can cause again and again: the first few are written, the others counted. */
import type { Log, LogFields, LogLevel } from "./log.ts";
import type { Timers } from "./timers.ts";

/** Lines of one kind that are written as they come. */
export const WRITTEN_AT_ONCE = 10;

/** How often the count of the others is written; who has been quiet for so long begins anew. */
export const COUNTED_FOR_MS = 60_000;

/** Kinds that are told apart, since peers make up names. Beyond them a message is one kind for all. */
export const MOST_KINDS = 100;

/** One message about one peer for one reason, or about all that found no place. */
interface Kind {
  readonly msg: string;
  written: number;
  /** Not written since the last count. */
  held: number;
  /** Of the last that was held. */
  latest: LogFields;
}

/**
 * A log in which no peer can fill a disk: a client that publishes where it may not, ten thousand times a
 * second, is ten lines and then one a minute with their number. Only warnings that name a peer are held
 * back, and none at level debug. Counters are nobody's business here and stay exact.
 */
export class CoalescingLog implements Log {
  readonly #kinds = new Map<string, Kind>();
  /** By their message, which is constant: what found no place among the kinds. */
  readonly #others = new Map<string, Kind>();
  #armed = false;

  constructor(private readonly under: Log, private readonly timers: Timers) {}

  enabled(level: LogLevel): boolean {
    return this.under.enabled(level);
  }

  debug(msg: string, fields?: LogFields): void {
    this.under.debug(msg, fields);
  }
  info(msg: string, fields?: LogFields): void {
    this.under.info(msg, fields);
  }
  error(msg: string, fields?: LogFields): void {
    this.under.error(msg, fields);
  }

  warn(msg: string, fields?: LogFields): void {
    const peer = fields === undefined ? undefined : peerOf(fields);
    if (peer === undefined || this.enabled("debug")) return this.under.warn(msg, fields);
    if (!this.enabled("warn")) return;
    const kind = this.#kind(msg, peer, fields!);
    if (kind.written === WRITTEN_AT_ONCE) {
      kind.held++;
      kind.latest = fields!;
      return;
    }
    kind.written++;
    const last = kind.written === WRITTEN_AT_ONCE;
    this.under.warn(msg, last ? { ...fields, more: "counted" } : fields);
  }

  /** Writes the counts; what is not written at a stop never is. */
  flush(): void {
    for (const kind of this.#kinds.values()) this.#count(kind, kind.latest);
    for (const kind of this.#others.values()) this.#count(kind, { peers: "several" });
  }

  #count(kind: Kind, fields: LogFields): void {
    if (kind.held === 0) return;
    this.under.warn(kind.msg, { ...fields, times: kind.held });
    kind.held = 0;
  }

  #kind(msg: string, peer: Peer, { code, reason, why }: LogFields): Kind {
    const name = `${msg}\0${peer}\0${code}\0${reason ?? why}`;
    return this.#kinds.get(name) ??
      (this.#kinds.size < MOST_KINDS
        ? this.#add(this.#kinds, name, msg)
        : this.#others.get(msg) ?? this.#add(this.#others, msg, msg));
  }

  #add(among: Map<string, Kind>, name: string, msg: string): Kind {
    const kind = { msg, written: 0, held: 0, latest: {} };
    among.set(name, kind);
    if (!this.#armed) this.#arm();
    return kind;
  }

  #arm(): void {
    this.#armed = true;
    this.timers.after(COUNTED_FOR_MS, () => {
      this.#armed = false;
      for (const kinds of [this.#kinds, this.#others]) {
        for (const [name, { held }] of kinds) if (held === 0) kinds.delete(name);
      }
      this.flush();
      if (this.#kinds.size + this.#others.size > 0) this.#arm();
    });
  }
}

type Peer = LogFields[string];

/**
 * Whom a line is about: the name that was given, or where it came from, without its port; of a job that
 * nobody could do, its queue.
 */
function peerOf({ client, user, address, listener, queue }: LogFields): Peer {
  if (client) return client;
  if (user) return user;
  return typeof address === "string" ? address.replace(/:\d+$/, "") : listener ?? queue;
}
