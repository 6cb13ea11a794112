/** One `latest` channel over the memory provider, with sessions that look at it. */
import { setImmediate } from "node:timers";
import { LatestChannel, type LatestPolicy } from "../../src/broker/channels/latest.ts";
import type { Delivery } from "../../src/broker/link.ts";
import { pumpTurns } from "../../src/broker/pump_turns.ts";
import { Session } from "../../src/broker/session.ts";
import type { LatestStore, Scan } from "../../src/storage/contract.ts";
import type { Message, Offset, QoS, StoredRecord } from "../../src/storage/record.ts";
import type { WindowEntry } from "../../src/broker/window.ts";
import { linkOf, quiet, RecordingLink, Rig, text } from "./rig.ts";

export interface Subscribing {
  readonly qos?: QoS;
  readonly noLocal?: boolean;
  readonly retainAsPublished?: boolean;
  readonly identifier?: number;
  readonly statePass?: boolean;
  readonly deletions?: boolean;
}

export class LatestRig extends Rig {
  channel!: LatestChannel;
  /** Reads of the store wait for `Page.answer` when set. */
  readonly pages: Page[] = [];
  /** Values of each page read, in order. */
  readonly read: number[] = [];
  held = false;

  static async make(policy: Partial<LatestPolicy> = {}): Promise<LatestRig> {
    const rig = new LatestRig();
    await rig.open({ channel: "state", kind: "latest" });
    rig.channel = new LatestChannel(
      "state",
      new ObservedStore(rig.provider.latest("state"), rig),
      rig.provider,
      { retentionPeriodMs: undefined, deletionRetentionPeriodMs: undefined, ...policy },
      rig.context,
    );
    return rig;
  }

  /** A session with a connection; away with `link: null`. */
  client(
    clientId: string,
    options: {
      queueBytes?: number;
      receiveMaximum?: number;
      link?: RecordingLink | null;
    } = {},
  ): Session {
    const { queueBytes = 1024 * 1024, receiveMaximum = 65_535, link } = options;
    const session = new Session({ clientId, user: "", queueBytes });
    session.expiry = 3_600;
    session.window.receiveMaximum = receiveMaximum;
    if (link !== null) session.link = link ?? new RecordingLink();
    session.level = session.link?.level ?? 5;
    return session;
  }

  /** What the end of a SUBSCRIBE does. */
  subscribe(
    session: Session,
    filters: string | readonly string[],
    options: Subscribing = {},
  ): void {
    const list = typeof filters === "string" ? [filters] : filters;
    const { statePass = true, deletions = false } = options;
    for (const filter of list) {
      session.subscribe({
        filter,
        qos: options.qos ?? 1,
        noLocal: options.noLocal ?? false,
        retainAsPublished: options.retainAsPublished ?? false,
        retainHandling: 0,
        identifier: options.identifier,
        logOffset: 1,
      }, false);
    }
    this.channel.join(session, list.map((filter) => ({ filter, statePass, deletions })));
  }

  /** Stores and reports; the offset taken. */
  publish(topic: string, payload: string, rest: Partial<Message> = {}): Offset {
    const [offset, report] = this.store(topic, payload, rest);
    report();
    return offset;
  }

  /** Stores only: what reports it is returned. */
  store(topic: string, payload: string, rest: Partial<Message> = {}): [Offset, () => void] {
    const message = this.message(topic, payload, rest);
    const row = { kind: "set" as const, store: this.provider.latest("state"), message, offset: 0 };
    this.provider.submit({
      rows: [row],
      bytes: 0,
      settled: (failure) => {
        if (failure !== undefined) throw failure;
      },
    });
    const { offset } = row;
    return [
      offset,
      () =>
        offset > 0 ? this.channel.recorded(offset, message) : this.channel.deletedNothing(message),
    ];
  }

  /** The connection goes and a new one comes. */
  async reconnect(session: Session, link = new RecordingLink()): Promise<RecordingLink> {
    if (session.link !== undefined) session.detach();
    session.resume(link);
    await quiet();
    return link;
  }
}

/** A read of the store that waits. */
export class Page {
  constructor(private readonly settle: (outcome: Promise<readonly StoredRecord[]>) => void) {}

  answer(values: readonly StoredRecord[]): Promise<void> {
    this.settle(Promise.resolve(values));
    return quiet();
  }

  fail(error: Error): Promise<void> {
    this.settle(Promise.reject(error));
    return quiet();
  }
}

class ObservedStore implements LatestStore {
  readonly kind = "latest";

  constructor(private readonly inner: LatestStore, private readonly rig: LatestRig) {}

  get channel(): string {
    return this.inner.channel;
  }
  next = () => this.inner.next();
  floor = () => this.inner.floor();
  size = () => this.inner.size();
  get = (topic: string) => this.inner.get(topic);
  held: LatestStore["held"] = (...args) => this.inner.held(...args);
  releaseHold: LatestStore["releaseHold"] = (...args) => this.inner.releaseHold(...args);
  abandonHold: LatestStore["abandonHold"] = (...args) => this.inner.abandonHold(...args);
  topics: LatestStore["topics"] = (...args) => this.inner.topics(...args);
  trim: LatestStore["trim"] = (...args) => this.inner.trim(...args);
  removeMany: LatestStore["removeMany"] = (...args) => this.inner.removeMany(...args);

  scan(filter: string, from: Offset, deletions: boolean): Scan {
    const scan = this.inner.scan(filter, from, deletions);
    return {
      next: async (max) => {
        const page = this.rig.held
          ? await new Promise<readonly StoredRecord[]>((settle) => {
            this.rig.pages.push(new Page(settle));
          })
          : await scan.next(max);
        this.rig.read.push(page.length);
        return page;
      },
    };
  }
}

/** Runs what is ready, without a timer: stores of a few values answer within it. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Acknowledges everything on the wire, and what follows, until nothing is left. */
export async function acknowledgeAll(
  session: Session,
  heard: (entry: WindowEntry) => void = () => {},
): Promise<void> {
  for (;;) {
    do await turn(); while (pumpTurns.due);
    const entries = [...session.window.entries()];
    if (entries.length === 0) return;
    for (const entry of entries) {
      heard(entry);
      if (entry.qos === 1) session.onPuback(entry.packetId);
      else {
        session.onPubrec(entry.packetId, false);
        session.onPubcomp(entry.packetId);
      }
    }
  }
}

export function offsetOf({ labels }: Delivery): Offset | undefined {
  const label = labels.find(([name]) => name === "saguin-offset");
  return label === undefined ? undefined : Number(label[1]);
}

/** Deliveries as `topic=payload`, with `R` before those that carry RETAIN. */
export function shown(deliveries: readonly Delivery[]): string[] {
  return deliveries.map(({ message, retain }) =>
    `${retain ? "R " : ""}${message.topic}=${text(message.payload)}`
  );
}

/** What a session's link got since the last call. */
export function taken(session: Session): string[] {
  return shown(linkOf(session).deliveries.splice(0));
}
