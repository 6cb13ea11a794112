/** The broker core's parts over a memory provider, with a clock that stands still and links that record. */
import type { Limits } from "../../src/config/configuration.ts";
import type { Sent } from "../support/generate_deliveries.ts";
import { type Clock, fromMilliseconds, type Nanoseconds } from "../../src/platform/clock.ts";
import type { Log, LogFields } from "../../src/platform/log.ts";
import type { Timer, Timers } from "../../src/platform/timers.ts";
import type { Context } from "../../src/broker/context.ts";
import { Counters } from "../../src/broker/counters.ts";
import { AckDrain } from "../../src/broker/drain.ts";
import type { ClientLink, Delivery, Ending } from "../../src/broker/link.ts";
import { pumpTurns } from "../../src/broker/pump_turns.ts";
import { Session } from "../../src/broker/session.ts";
import { MemoryProvider } from "../../src/storage/memory/provider.ts";
import type { StoreSpec } from "../../src/storage/contract.ts";
import { type Message, NO_HEADERS, NO_PROPERTIES, recordSize } from "../../src/storage/record.ts";

export const START = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

interface Armed extends Timer {
  readonly due: number;
  readonly fire: () => void;
}

/** Both clocks, moved by hand, and the timers that run on them. */
export class ManualTime implements Clock, Timers {
  #ms = 0;
  #armed: Armed[] = [];

  monotonic(): number {
    return this.#ms;
  }

  wall(): Nanoseconds {
    return fromMilliseconds(START + this.#ms);
  }

  after(delayMs: number, fire: () => void): Timer {
    const armed: Armed = {
      due: this.#ms + Math.max(0, Math.ceil(delayMs)),
      fire,
      cancel: () => this.#armed = this.#armed.filter((each) => each !== armed),
    };
    this.#armed.push(armed);
    return armed;
  }

  stop(): void {
    this.#armed = [];
  }

  /** The monotonic moment to start from, before anything is armed. */
  begin(ms: number): void {
    this.#ms = ms;
  }

  /**
   * Lets `ms` pass at once, as for a machine that slept: what became due fires in order, late. For
   * stretches in which a periodic timer would fire thousands of times.
   */
  async leap(ms: number): Promise<void> {
    await quiet();
    this.#ms += ms;
    await this.pass(0);
  }

  /** Timers waiting. */
  get armed(): number {
    return this.#armed.length;
  }

  /** Lets `ms` pass: every timer fires at its moment, and what it starts runs before the next. */
  async pass(ms: number): Promise<void> {
    const end = this.#ms + ms;
    await quiet();
    for (;;) {
      const next = this.#armed.filter(({ due }) => due <= end).sort((a, b) => a.due - b.due)[0];
      if (next === undefined) break;
      next.cancel();
      this.#ms = Math.max(this.#ms, next.due);
      next.fire();
      await quiet();
    }
    this.#ms = end;
  }
}

/** Runs what is ready: the memory provider answers within the turn. */
export async function quiet(): Promise<void> {
  // Deliveries go on in turns of their own where the machine is slow.
  for (let turn = 0; turn < 3 || pumpTurns.due; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}

/** A connection that keeps what it is sent. */
export class RecordingLink implements ClientLink {
  readonly listener = "tcp";
  readonly address = "127.0.0.1:1";
  buffered = 0;
  readonly deliveries: Sent[] = [];
  readonly released: number[] = [];
  ended: Ending | undefined;

  /** `largest`: the client's Maximum Packet Size, here of a message. */
  constructor(readonly level: 4 | 5 = 5, readonly largest = Infinity) {}

  deliver(delivery: Delivery, packetId: number, dup: boolean): boolean {
    if (this.ended !== undefined) return true;
    if (recordSize(delivery.message) > this.largest) return false;
    this.deliveries.push({ ...delivery, packetId, dup });
    return true;
  }

  takes(delivery: Delivery): boolean {
    return recordSize(delivery.message) <= this.largest;
  }

  release(packetId: number): void {
    this.released.push(packetId);
  }

  end(ending: Ending): void {
    this.ended ??= ending;
  }
}

export class RecordingLog implements Log {
  readonly lines: { level: string; msg: string; fields: LogFields }[] = [];

  debug(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "debug", msg, fields });
  }
  info(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "info", msg, fields });
  }
  warn(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "warn", msg, fields });
  }
  error(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "error", msg, fields });
  }
  enabled(): boolean {
    return true;
  }
}

const LIMITS: Limits = {
  maxMessageSize: 1024 * 1024,
  maxTopicLength: 1_024,
  maxTopicLevels: 10,
  maxClientIdLength: 256,
  maxHeaderCount: 32,
  maxHeaderBytes: 8 * 1024,
  maxConnections: 100,
  maxSubscriptions: 100,
  maxSessionExpiryMs: 86_400_000,
  maxKeepaliveMs: undefined,
  publishRate: undefined,
  publishBytes: undefined,
  writeTimeoutMs: 10_000,
  connectTimeoutMs: 10_000,
  maxConnectSize: 64 * 1024,
  maxConnectRate: undefined,
  sessionQueueBytes: 1024 * 1024,
};

export class Rig {
  readonly time = new ManualTime();
  readonly log = new RecordingLog();
  readonly counters = new Counters();
  readonly context: Context;
  readonly provider: MemoryProvider;
  #ids = 0;

  constructor() {
    this.context = {
      clock: this.time,
      timers: this.time,
      log: this.log,
      ids: {
        messageId: () => `id-${++this.#ids}`,
        token: (bytes) => String(++this.#ids).padStart(2 * bytes, "0"),
      },
      limits: LIMITS,
      counters: this.counters,
      ackCommitIntervalMs: 200,
      drain: new AckDrain(200, this.time, this.log),
    };
    this.provider = new MemoryProvider({
      name: "store",
      maxBytes: undefined,
      reserveBytes: 0,
      clock: this.time,
      log: this.log,
    });
  }

  open(...stores: StoreSpec[]): Promise<void> {
    return this.provider.open(stores);
  }

  /** A session with a connection. */
  session(clientId: string, options: { expiry?: number; link?: RecordingLink } = {}): Session {
    const session = new Session({ clientId, user: "", queueBytes: LIMITS.sessionQueueBytes });
    const { expiry = 0, link = new RecordingLink() } = options;
    session.expiry = expiry;
    session.link = link;
    session.level = link.level;
    return session;
  }

  message(topic: string, payload: string | Uint8Array, rest: Partial<Message> = {}): Message {
    return {
      messageId: this.context.ids.messageId(),
      topic,
      timestamp: this.time.wall(),
      headers: NO_HEADERS,
      properties: NO_PROPERTIES,
      payload: typeof payload === "string" ? bytes(payload) : payload,
      retain: false,
      bridge: "",
      clientId: "publisher",
      qos: 1,
      groupCopy: false,
      onlyFor: "",
      ...rest,
    };
  }
}

export function linkOf(session: Session): RecordingLink {
  if (!(session.link instanceof RecordingLink)) throw new Error("the session is away");
  return session.link;
}

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function text(payload: Uint8Array | undefined): string {
  return payload === undefined ? "" : new TextDecoder().decode(payload);
}
