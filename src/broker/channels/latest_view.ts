import { errorText } from "../../platform/log.ts";
import {
  FIRST_OFFSET,
  NO_HEADERS,
  type Offset,
  recordSize,
  type StoredRecord,
} from "../../storage/record.ts";
import type { Context } from "../context.ts";
import { channelExpiry, channelLabels } from "../delivery.ts";
import type { ClientLink } from "../link.ts";
import { Reason } from "../reason.ts";
import { type Grant, QUANTUM, type Session, type Source } from "../session.ts";
import { shedForRoom } from "../shed.ts";
import type { WindowEntry } from "../window.ts";
import type { LatestChannel } from "./latest.ts";
import {
  NOTHING,
  type OwedDeletions,
  Pass,
  type PassFilter,
  type PassKind,
} from "./latest_pass.ts";
import { TopicsOnWire } from "./topics_on_wire.ts";
import { WaitingValues } from "./waiting_values.ts";

/** Part of `limits.session_queue_bytes` that changes of one channel may wait in; the store has the rest. */
const WAITING_SHARE = 1 / 4;

/** How long a pass waits before it reads again from a store that failed. */
const READ_RETRY_MS = 1_000;

/** Values handed over before their commit was reported; the report follows within a few turns. */
const AHEAD_VALUES = 1_024;

/** What a filter of a SUBSCRIBE asks of a channel. */
export interface ViewRequest {
  readonly filter: string;
  /** Current values are wanted (D13.9). */
  readonly statePass: boolean;
  /** Stored deletions among them (D13.5). */
  readonly deletions: boolean;
}

/**
 * What one session sees of a `latest` channel: the state first, then changes.
 *
 * Everything it owes is in one of four places, served in this order: a pass over the store, the pass
 * after it, changes waiting in memory (one a topic), and `#spilled`, an offset from which on changes
 * are read back from the store because memory has no room for them. While a pass runs, changes wait:
 * a page read from the store is newer than all that was handed over before the pass began, and older
 * than or equal to what waits, so a topic never goes backwards (D13.12) and no view remembers every
 * topic. What is remembered is bounded by what is under way: values a read found before their commit
 * was reported (`#ahead`), and topics that are unacknowledged (`#onWire`).
 *
 * While the session is away only `#mark` moves: the lowest offset it is owed (D13.14).
 */
export class LatestView implements Source {
  readonly neverSkips = true;
  /** Filters of the session that were joined here. The channel keeps them in step. */
  readonly filters = new Set<string>();
  readonly #waiting: WaitingValues;
  #pass: Pass | undefined;
  #nextPass: Pass | undefined;
  #spilled: Offset = NOTHING;
  #mark: Offset = NOTHING;
  /** Lowest offset that could not be delivered at all; only a served SUBSCRIBE clears it (D13.16). */
  #held: Offset = NOTHING;
  /**
   * The lowest offset that the client might not read when it was to be sent, of all topics and of those
   * that are sent at QoS 1 or 2: it is owed until that is granted (02b 7.5.6).
   */
  #refused: Offset = NOTHING;
  #refusedKept: Offset = NOTHING;
  /** Deletions that were owed when the connection went: those made while away are not (D13.19). */
  #owedDeletions: OwedDeletions | undefined;
  /** No connection was served yet since the last one went, or since the session was restored. */
  #resuming: boolean;
  /** The connection this view gave up on: nothing more is sent on it. */
  #givenUp: ClientLink | undefined;
  readonly #ahead = new Map<string, Offset>();
  readonly #onWire = new TopicsOnWire();
  /** A read failed and is not yet to be tried again. */
  #readFailed = false;
  #closed = false;

  constructor(
    private readonly channel: LatestChannel,
    private readonly session: Session,
    private readonly context: Context,
  ) {
    this.#waiting = new WaitingValues(session.queueBytes * WAITING_SHARE);
    this.#resuming = session.link === undefined;
  }

  /** Changes waiting in memory. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * The lowest offset the session is owed and does not have on its wire (D13.14); infinite for
   * nothing.
   */
  get mark(): Offset {
    return Math.min(this.#owedFrom(), this.#held);
  }

  /** The mark without what could not be delivered at all. */
  #owedFrom(): Offset {
    // What a QoS 0 filter reaches is served whole at every resume, wherever the mark stands (D13.18).
    const counts = (filter: string) => (this.session.subscriptions.get(filter)?.qos ?? 0) > 0;
    return Math.min(
      this.#mark,
      this.#pass?.lowest(counts) ?? NOTHING,
      this.#nextPass?.lowest(counts) ?? NOTHING,
      this.#waiting.lowest(),
      this.#spilled,
      this.#refusedKept,
    );
  }

  get #away(): boolean {
    return this.session.link === undefined || this.session.link === this.#givenUp;
  }

  get #busy(): boolean {
    return this.#resuming || this.#pass !== undefined || this.#nextPass !== undefined ||
      this.#waiting.size > 0 || this.#spilled !== NOTHING;
  }

  // -------------------------------------------------------------------------------------- joining

  /** One pass over the filters that want one; the SUBACK is written. */
  join(requests: readonly ViewRequest[]): void {
    const wanting = requests.filter(({ statePass }) => statePass);
    if (wanting.length === 0) return;
    this.#held = NOTHING;
    if (this.session.link === undefined) {
      this.#mark = FIRST_OFFSET;
      return;
    }
    const pass = this.#passToJoin();
    for (const { filter, deletions } of wanting) {
      // A running pass has nothing to add to the whole state of the same filter.
      if (this.#pass?.owedDeletions === undefined) this.#pass?.drop(filter);
      pass.add({ filter, from: FIRST_OFFSET, deletions });
    }
    this.session.wake(this);
  }

  /** A state pass that has not begun, so that many SUBSCRIBEs queue one. */
  #passToJoin(): Pass {
    if (this.#nextPass !== undefined) return this.#nextPass;
    if (this.#pass?.kind === "state" && !this.#pass.begun) return this.#pass;
    const pass = this.#newPass("state", []);
    if (this.#pass === undefined && !this.#resuming) this.#pass = pass;
    else this.#nextPass = pass;
    return pass;
  }

  #newPass(kind: PassKind, filters: readonly PassFilter[], owedDeletions?: OwedDeletions): Pass {
    return new Pass(kind, this.channel.store, filters, owedDeletions);
  }

  // -------------------------------------------------------------------------------------- changes

  /**
   * A committed change of a topic that a filter here reaches. `order` is its place among the changes
   * of the topic: the offset, or past one for a deletion that took none.
   */
  changed(record: StoredRecord, order: number): void {
    const { topic } = record.message;
    this.#onWire.changed(topic, order);
    if (this.#ahead.size > 0 && this.#wasAhead(topic, order)) return;
    const grant = this.session.grant(record.message);
    if (grant === undefined) {
      // The session's own change, withheld: what waits of the topic is not its value any more.
      this.#waiting.delete(topic);
      return;
    }
    if (this.#away) {
      if (grant.qos > 0 && record.offset > 0) this.#mark = Math.min(this.#mark, record.offset);
      return;
    }
    if (!this.#busy && this.session.canSend()) {
      if (this.#hand(record, order, grant, false) !== "blocked") return;
    }
    this.#keep(record, order);
    this.session.wait(this);
  }

  #wasAhead(topic: string, order: number): boolean {
    const ahead = this.#ahead.get(topic);
    if (ahead === undefined) return false;
    if (order >= ahead) this.#ahead.delete(topic);
    return order <= ahead;
  }

  #keep(record: StoredRecord, order: number): void {
    const { topic } = record.message;
    const waiting = this.#waiting.get(topic);
    if (waiting !== undefined) {
      if (waiting.order > order) return;
      this.channel.superseded++;
    }
    if (this.#spilled !== NOTHING) {
      // What follows a spilled change is read back with it.
      this.#waiting.delete(topic);
      this.#spill(record.offset);
    } else if (!this.#waiting.put(record, order)) {
      this.#spill(record.offset);
    }
  }

  #spill(offset: Offset): void {
    if (offset > 0) this.#spilled = Math.min(this.#spilled, offset);
    // A deletion of nothing is in no store to be read back from.
    else shedForRoom(this.session, this.context);
  }

  // ----------------------------------------------------------------------------------- delivering

  pump(): void {
    for (let steps = 0; steps < QUANTUM; steps++) {
      if (this.#closed || this.#away) return;
      if (!this.session.canSend()) break;
      const outcome = this.#step();
      if (outcome === "idle") return;
      if (outcome === "blocked") break;
    }
    this.session.wait(this);
  }

  #step(): "moved" | "blocked" | "idle" {
    if (this.#resuming) this.#resume();
    if (this.#pass === undefined) {
      this.#pass = this.#nextPass;
      this.#nextPass = undefined;
    }
    if (this.#pass !== undefined) return this.#stepPass(this.#pass);
    const first = this.#waiting.first();
    if (first !== undefined) {
      const handed = this.#hand(first.record, first.order, undefined, false);
      if (handed === "blocked") return "blocked";
      this.#waiting.delete(first.record.message.topic);
      return "moved";
    }
    if (this.#spilled === NOTHING) return "idle";
    this.#readBack();
    return "moved";
  }

  #stepPass(pass: Pass): "moved" | "blocked" | "idle" {
    if (pass.reading || this.#readFailed) return "idle";
    const record = pass.value;
    if (record !== undefined) return this.#serve(pass, record) ? "moved" : "blocked";
    const { filter } = pass;
    if (filter === undefined) {
      this.#pass = undefined;
      return "moved";
    }
    if (!this.session.subscriptions.has(filter)) {
      pass.drop(filter);
      return "moved";
    }
    this.#read(pass);
    return "idle";
  }

  /** Hands over a value of a pass, or steps over it. False: no room. */
  #serve(pass: Pass, record: StoredRecord): boolean {
    const { offset, message: { topic } } = record;
    const waiting = this.#waiting.get(topic);
    const newerWaits = waiting !== undefined && waiting.order > offset;
    // The session itself sends what it did not see acknowledged.
    const sent = pass.kind === "resume" && this.#onWire.carries(topic, offset);
    if (!newerWaits && !sent) {
      const handed = this.#hand(record, offset, undefined, pass.kind !== "changes");
      if (handed === "blocked") return false;
      this.#waiting.delete(topic);
      if (handed === "sent" && !this.channel.arrivals.has(offset)) this.#noteAhead(topic, offset);
    }
    pass.step();
    return true;
  }

  #noteAhead(topic: string, offset: Offset): void {
    if (this.#ahead.size >= AHEAD_VALUES) {
      for (const [oldest] of this.#ahead) {
        this.#ahead.delete(oldest);
        break;
      }
    }
    this.#ahead.set(topic, offset);
  }

  #read(pass: Pass): void {
    pass.read().then(() => this.session.wake(this), (error) => {
      this.#readFailed = true;
      this.context.counters.storageErrors.add(this.channel.name);
      this.context.log.error("cannot read a channel for a subscriber; it is tried again", {
        channel: this.channel.name,
        client: this.session.clientId,
        error: errorText(error),
      });
      this.context.timers.after(READ_RETRY_MS, () => {
        this.#readFailed = false;
        this.session.wake(this);
      });
    });
  }

  /** The changes that memory had no room for, from the store. */
  #readBack(): void {
    const from = this.#spilled;
    this.#spilled = NOTHING;
    const filters = [...this.filters].map((filter) => ({ filter, from, deletions: true }));
    this.#pass = this.#newPass("changes", filters, { from, below: NOTHING });
  }

  /** A value that nobody here is granted any more, or that is past retention, is let go. */
  #hand(
    record: StoredRecord,
    order: number,
    granted: Grant | undefined,
    retained: boolean,
  ): "sent" | "let go" | "blocked" {
    const { session } = this;
    const { message } = record;
    const grant = granted ?? session.grant(message);
    if (grant === undefined) return "let go";
    // What was granted in the turn of its commit has no age yet.
    if (granted === undefined && this.channel.isPast(message)) return "let go";
    const qos = Math.min(grant.qos, message.qos) as 0 | 1 | 2;
    if (!session.mayRead(message.topic, this.channel.name)) {
      this.#refuse(record.offset, qos);
      return "let go";
    }
    const bytes = recordSize(message);
    if (qos === 0 ? !session.resent() : !session.fits(bytes)) return "blocked";
    const delivery = this.#delivery(record, grant, qos, retained);
    const sent = qos === 0
      ? session.sendUnacknowledged(delivery)
      : session.send(this, order, 0, delivery, bytes) !== undefined;
    if (!sent) {
      this.#tooLarge(record);
      return "let go";
    }
    if (qos !== 0) this.#onWire.enter(message.topic, order);
    this.context.counters.delivered++;
    return "sent";
  }

  #refuse(offset: Offset, qos: 0 | 1 | 2): void {
    if (offset === 0) return;
    this.#refused = Math.min(this.#refused, offset);
    if (qos > 0) this.#refusedKept = Math.min(this.#refusedKept, offset);
  }

  /** What could not be read is read from the store again, as changes that waited there. */
  permissionsChanged(): void {
    this.#spilled = Math.min(this.#spilled, this.#refused);
    this.#refused = NOTHING;
    this.#refusedKept = NOTHING;
  }

  #delivery(record: StoredRecord, grant: Grant, qos: 0 | 1 | 2, retained: boolean) {
    const { session, channel, context } = this;
    const { message } = record;
    const readsLabels = session.level === 5;
    return {
      message,
      qos,
      retain: retained || (grant.retainAsPublished && message.retain),
      identifiers: grant.identifiers,
      labels: readsLabels
        ? channelLabels(record, grant.several ? channel.name : undefined, undefined)
        : NO_HEADERS,
      expiry: readsLabels && message.properties.messageExpiry !== undefined
        ? channelExpiry(message, context.clock.wall())
        : undefined,
    };
  }

  /** D7.1: never skipped; the client is told, and the mark stays below. */
  #tooLarge(record: StoredRecord): void {
    const { session, channel } = this;
    if (record.offset > 0) this.#held = Math.min(this.#held, record.offset);
    this.context.log.warn("a value is larger than the Maximum Packet Size of its subscriber", {
      channel: channel.name,
      client: session.clientId,
      topic: record.message.topic,
      offset: record.offset,
    });
    this.#givenUp = session.link;
    session.hangUp({
      code: Reason.PacketTooLarge,
      reason:
        `value ${record.offset} of channel ${channel.name} is larger than the Maximum Packet Size of this client`,
    });
  }

  // ------------------------------------------------------------------------------ acknowledgements

  acknowledged(entry: WindowEntry): void {
    this.#onWire.leave(entry.delivery.message.topic);
  }

  received(_entry: WindowEntry, proceed: () => void): void {
    proceed();
  }

  /**
   * A value that was superseded is not sent again (D13.17), nor one past retention. At QoS 2 the
   * exchange is ended with PUBREL instead of being dropped: the client may hold the identifier and
   * would take the next message under it for a repeat.
   */
  resend(entry: WindowEntry): boolean {
    if (entry.state !== "sent") return true;
    if (this.#closed) return this.#resendLeft(entry);
    const { message } = entry.delivery;
    const superseded = this.#onWire.supersedes(message.topic, entry.offset);
    const readable = this.session.mayRead(message.topic, this.channel.name);
    if (!superseded && readable && !this.channel.isPast(message)) return true;
    if (!readable) this.#mark = Math.min(this.#mark, Math.ceil(entry.offset));
    if (superseded) this.#mark = Math.min(this.#mark, Math.ceil(entry.offset));
    if (endedByRelease(entry)) return true;
    this.#onWire.leave(message.topic);
    return false;
  }

  /** What was sent before the last filter here went: a view that came after it knows better. */
  #resendLeft(entry: WindowEntry): boolean {
    return this.channel.view(this.session) === undefined || endedByRelease(entry);
  }

  // ------------------------------------------------------------------------------------- resuming

  /** The connection is gone: what was owed on it is a mark now, and takes no memory (D13.15). */
  detached(): void {
    this.#owedDeletions = this.#deletionsOwed();
    this.#mark = this.#owedFrom();
    this.#pass = undefined;
    this.#nextPass = undefined;
    this.#waiting.clear();
    this.#spilled = NOTHING;
    this.#refused = NOTHING;
    this.#refusedKept = NOTHING;
    this.#resuming = true;
  }

  #deletionsOwed(): OwedDeletions | undefined {
    let from = Math.min(this.#waiting.lowest(), this.#spilled);
    let below = from === NOTHING ? 0 : NOTHING;
    for (const owed of [this.#owedDeletions, this.#pass?.owedDeletions]) {
      if (owed === undefined) continue;
      from = Math.min(from, owed.from);
      below = Math.max(below, owed.below);
    }
    if (from === NOTHING) return undefined;
    return { from, below: Math.min(below, this.channel.arrivals.end) };
  }

  /**
   * The session is served again, without a SUBSCRIBE: what a QoS 0 filter reaches whole (D13.18), the
   * rest at and above the mark (D13.14).
   */
  #resume(): void {
    this.#resuming = false;
    this.#givenUp = undefined;
    const mark = Math.min(this.#mark, this.#held);
    const owedDeletions = this.#owedDeletions;
    this.#mark = NOTHING;
    this.#owedDeletions = undefined;
    const filters: PassFilter[] = [];
    for (const filter of this.filters) {
      const subscription = this.session.subscriptions.get(filter);
      if (subscription === undefined) continue;
      const from = subscription.qos === 0 ? FIRST_OFFSET : mark;
      if (from !== NOTHING) {
        filters.push({ filter, from, deletions: owedDeletions !== undefined });
      }
    }
    if (filters.length > 0) this.#pass = this.#newPass("resume", filters, owedDeletions);
  }

  /** Nothing is sent any more. */
  close(): void {
    this.#closed = true;
    this.#pass = undefined;
    this.#nextPass = undefined;
    this.#waiting.clear();
    this.#ahead.clear();
    this.#onWire.clear();
  }
}

/** Makes an unanswered QoS 2 exchange one that only PUBREL and PUBCOMP are left of. */
function endedByRelease(entry: WindowEntry): boolean {
  if (entry.qos !== 2) return false;
  entry.state = "released";
  return true;
}
