import { fromMilliseconds, NANOSECONDS_PER_MS } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import {
  sessionReader,
  type SessionRecord,
  type SessionStore,
  StorageFailure,
  type StoredWill,
} from "../storage/contract.ts";
import type { Offset } from "../storage/record.ts";
import type { AppendChannel } from "./channels/append.ts";
import type { Context } from "./context.ts";
import type { ClientLink } from "./link.ts";
import { LiveQueue } from "./live_queue.ts";
import { KeyedLocks } from "./locks.ts";
import { LogReader } from "./log.ts";
import { Reason, type Refusal } from "./reason.ts";
import type { Parts } from "./parts.ts";
import { Session } from "./session.ts";

/** MQTT's "never expires" (3.1.2.11.2); capped like every other value. */
const NEVER_SECONDS = 0xffff_ffff;

/** What a refused write of a departed session waits before it is tried again (D6.13, D6.16). */
const RETRY_MS = 1_000;

const GIVE_BACK = "give a session back after a CONNACK that could not be written";

/** A CONNECT after every check that depends on the packet and the credentials alone. */
export interface ConnectRequest {
  /** Never empty: the door assigned one if the client sent none. */
  readonly clientId: string;
  /** The proved identity; empty for none. */
  readonly user: string;
  readonly level: 4 | 5;
  readonly cleanStart: boolean;
  /** Seconds; for 3.1.1, 0 or "never" by its clean session flag. */
  readonly expiry: number;
  readonly receiveMaximum: number;
  readonly will: StoredWill | undefined;
}

/** How a connection ended. */
export type Departure =
  /** The link was lost, or the broker closed it. */
  | { readonly kind: "lost" }
  /** DISCONNECT: `expiry` when it changed it, `will` when it asked for the Will (0x04). */
  | { readonly kind: "clean"; readonly expiry: number | undefined; readonly will: boolean };

/** A CONNECT that may go on: CONNACK is written between the claim and its completion (D6.3). */
export interface Claim {
  readonly session: Session;
  readonly sessionPresent: boolean;
  /** Granted expiry in seconds. */
  readonly expiry: number;
  /** CONNACK is written: the claim becomes ownership. */
  complete(link: ClientLink): void;
  /** CONNACK could not be written: everything is as it was (D6.4). */
  abandon(): void;
}

/** Every session, connected or away, and the one place where they begin, change hands and end. */
export class Sessions {
  readonly #held = new Map<string, Session>();
  readonly #locks = new KeyedLocks();

  constructor(
    private readonly context: Context,
    private readonly store: SessionStore,
    private readonly parts: Parts,
  ) {}

  get(clientId: string): Session | undefined {
    return this.#held.get(clientId);
  }

  values(): IterableIterator<Session> {
    return this.#held.values();
  }

  get size(): number {
    return this.#held.size;
  }

  /** Runs `work` in turn with every other change of the client's session (S26). */
  async inTurn<T>(clientId: string, work: () => Promise<T>): Promise<T> {
    const release = await this.#locks.acquire(clientId);
    try {
      return await work();
    } finally {
      release();
    }
  }

  // ------------------------------------------------------------------------------------ beginning

  /** Serves CONNECTs of one client id in turn (D6.7). The lock is held until the claim is settled. */
  async claim(request: ConnectRequest): Promise<Claim | Refusal> {
    const { clientId } = request;
    this.store.mark(clientId);
    const release = await this.#locks.acquire(clientId);
    const settle = () => {
      this.store.unmark(clientId);
      release();
    };
    try {
      const claim = await this.#claim(request, settle);
      if ("code" in claim) settle();
      return claim;
    } catch (error) {
      settle();
      if (error instanceof StorageFailure) {
        this.context.counters.storageErrors.add("sessions");
        return storeRefusal(error, request.will !== undefined);
      }
      throw error;
    }
  }

  async #claim(request: ConnectRequest, settle: () => void): Promise<Claim | Refusal> {
    const { clientId } = request;
    let held = this.#held.get(clientId);
    if (held !== undefined && this.#hasExpired(held)) {
      await this.#end(held);
      held = undefined;
    }
    const expiry = this.#grantedExpiry(request.expiry);
    if (held !== undefined && held.durable && !request.cleanStart) {
      await this.#joinStored(held);
      const passed = this.#passedPositions(held);
      if (passed.size === 0) return this.#resume(held, request, expiry, settle);
      this.#logPassed(held, passed);
      return this.#begin(request, expiry, held, passed, settle);
    }
    return this.#begin(request, expiry, held, undefined, settle);
  }

  #grantedExpiry(requested: number): number {
    const cap = Math.floor(this.context.limits.maxSessionExpiryMs / 1_000);
    return Math.min(requested, cap, NEVER_SECONDS);
  }

  async #resume(
    session: Session,
    request: ConnectRequest,
    expiry: number,
    settle: () => void,
  ): Promise<Claim> {
    const before = session.record();
    const record: SessionRecord = {
      ...before,
      expiry,
      awaySince: 0n,
      will: request.will,
      willDue: 0n,
      window: request.receiveMaximum,
    };
    await this.store.save(record, "answering");
    return {
      session,
      sessionPresent: true,
      expiry,
      complete: (link) => {
        this.#handOver(session);
        this.parts.wills.replaced(session);
        session.expiryTimer?.cancel();
        session.expiry = expiry;
        session.awaySince = 0n;
        session.will = request.will;
        session.window.receiveMaximum = request.receiveMaximum;
        session.user = request.user;
        this.#rejoin(session);
        session.resume(link);
        settle();
      },
      abandon: () => {
        this.#untilStored(GIVE_BACK, session.clientId, () => this.store.save(before, "answering"))
          .then(settle);
      },
    };
  }

  /** The session that is replaced loses its connection, which hears why. */
  #handOver(session: Session): void {
    const old = session.link;
    if (old === undefined) return;
    this.#detach(session);
    old.end({ code: Reason.SessionTakenOver, reason: "the client id connected elsewhere" });
  }

  /** The store forgot a session whose successor could not be answered: it is written back whole. */
  #giveBack(session: Session, settle: () => void): void {
    const image = session.log?.image() ?? { cursor: this.parts.log.store.next(), inFlight: [] };
    this.#untilStored(GIVE_BACK, session.clientId, async () => {
      await this.store.begin(session.record(), image.cursor, "answering");
      if (image.inFlight.length > 0) {
        await this.store.change(
          { clientId: session.clientId, put: image.inFlight, drop: [] },
          "answering",
        );
      }
    }).then(() => {
      session.frozen = false;
      settle();
    });
  }

  /** `passed`: channels whose stored position of `old` fell below the floor; the others are kept. */
  async #begin(
    request: ConnectRequest,
    requestedExpiry: number,
    old: Session | undefined,
    passed: ReadonlySet<AppendChannel> | undefined,
    settle: () => void,
  ): Promise<Claim> {
    const session = this.#make(request.clientId, request.user);
    session.level = request.level;
    session.window.receiveMaximum = request.receiveMaximum;
    session.will = request.will;
    session.expiry = requestedExpiry;
    const replaces = old?.stored ?? false;
    if (old !== undefined) old.frozen = true;
    try {
      await this.#store(session, replaces);
    } catch (error) {
      if (old !== undefined) old.frozen = false;
      throw error;
    }
    return {
      session,
      sessionPresent: false,
      expiry: session.expiry,
      complete: (link) => {
        if (old !== undefined) {
          this.#handOver(old);
          const kept = passed === undefined ? undefined : this.#keptPositions(old, passed);
          session.ready = this.#retire(old, passed).then(() => kept);
        }
        this.#held.set(session.clientId, session);
        if (session.stored) this.#addLogReader(session, this.parts.log.store.next());
        session.link = link;
        settle();
      },
      abandon: () => {
        if (old !== undefined && replaces) return this.#giveBack(old, settle);
        if (old !== undefined) old.frozen = false;
        if (!session.stored) return settle();
        this.#untilStored(
          GIVE_BACK,
          session.clientId,
          () => this.store.end(session.clientId, "departed"),
        ).then(settle);
      },
    };
  }

  /** Stores a new session, and with it the end of the one it replaces, in one write (D6.5). */
  async #store(session: Session, replaces: boolean): Promise<void> {
    if (session.durable) {
      try {
        await this.store.begin(session.record(), this.parts.log.store.next(), "answering");
        session.stored = true;
        return;
      } catch (error) {
        const full = error instanceof StorageFailure && error.kind === "full";
        if (!full || session.will !== undefined) throw error;
        // No room for the record: the session is granted for the connection only (02b 15).
        session.expiry = 0;
        this.context.counters.sessionsDropped++;
      }
    }
    if (replaces) await this.store.end(session.clientId, "answering");
  }

  #make(clientId: string, user: string): Session {
    const session = new Session({
      clientId,
      user,
      queueBytes: this.context.limits.sessionQueueBytes,
    });
    session.live = new LiveQueue(session, this.context);
    return session;
  }

  #addLogReader(session: Session, cursor: Offset): LogReader {
    const reader = new LogReader(session, this.parts.log, cursor);
    session.log = reader;
    return reader;
  }

  // -------------------------------------------------------------------------------- append readers

  /** Reads the stored positions of a session that came back from the store, once. */
  async #joinStored(session: Session): Promise<void> {
    if (session.joined) return;
    const reader = sessionReader(session.clientId);
    for (const channel of this.parts.appendChannels) {
      if (channel.consumer(session) !== undefined) continue;
      const position = await channel.store.position(reader);
      if (position !== undefined) channel.join(session, position.offset, false).pause();
    }
  }

  #passedPositions(session: Session): Set<AppendChannel> {
    const passed = new Set<AppendChannel>();
    for (const channel of this.parts.appendChannels) {
      const consumer = channel.consumer(session);
      if (consumer !== undefined && consumer.position < channel.store.floor()) passed.add(channel);
    }
    return passed;
  }

  #logPassed(session: Session, passed: ReadonlySet<AppendChannel>): void {
    for (const channel of passed) {
      this.context.log.warn("retention passed a stored position; the session starts anew", {
        client: session.clientId,
        channel: channel.name,
        position: channel.consumer(session)?.position,
        floor: channel.store.floor(),
      });
    }
  }

  #keptPositions(
    session: Session,
    passed: ReadonlySet<AppendChannel>,
  ): ReadonlyMap<AppendChannel, Offset> {
    const kept = new Map<AppendChannel, Offset>();
    for (const channel of this.parts.appendChannels) {
      const consumer = channel.consumer(session);
      if (consumer !== undefined && !passed.has(channel)) kept.set(channel, consumer.position);
    }
    return kept;
  }

  /** A resumed session goes on reading what its filters reach, new channels included. */
  #rejoin(session: Session): void {
    if (session.joined) return;
    session.joined = true;
    this.parts.subscriptions.joinAll(session);
  }

  // --------------------------------------------------------------------------------------- leaving

  /**
   * The connection `link` ended. Resolves when what that changes is stored (D6.16); a connection that
   * no longer owns the session changes nothing (D6.1).
   */
  async disconnected(session: Session, link: ClientLink, how: Departure): Promise<void> {
    if (session.link !== link) return;
    this.#detach(session);
    const { wills } = this.parts;
    if (how.kind === "clean") {
      if (!how.will) wills.discard(session);
      if (how.expiry !== undefined && session.durable) {
        session.expiry = this.#grantedExpiry(how.expiry);
      }
    }
    const delay = session.will?.delay ?? 0;
    if (!session.durable) {
      if (delay > 0) {
        this.context.log.info(
          "a Will Delay was cut short because the session ends with its connection",
          {
            client: session.clientId,
            delay,
            remedy: "a Session Expiry Interval at least as long as the Will Delay Interval",
          },
        );
      }
      return await this.#end(session);
    }
    session.awaySince = this.context.clock.wall();
    this.#armExpiry(session, session.expiry * 1_000);
    if (session.will !== undefined) {
      if (delay === 0) void wills.publish(session);
      else this.#waitWill(session, Math.min(delay, session.expiry) * 1_000);
    }
    await this.#storeDeparture(session);
  }

  #detach(session: Session): void {
    session.detach();
    session.live.clear();
    for (const queue of this.parts.queueChannels) queue.connectionEnded(session);
  }

  #waitWill(session: Session, delayMs: number): void {
    session.willDue = this.context.clock.wall() + fromMilliseconds(delayMs);
    session.willTimer = this.context.timers.after(delayMs, () => {
      if (session.link !== undefined || session.ended) return;
      void this.parts.wills.publish(session).then(() => this.#storeDeparture(session));
    });
  }

  async #storeDeparture(session: Session): Promise<void> {
    const release = await this.#locks.acquire(session.clientId);
    try {
      if (session.link === undefined && !session.ended) await this.#writeDeparture(session);
    } catch (error) {
      this.context.log.error("cannot store a disconnect; it is tried again every second", {
        client: session.clientId,
        error: errorText(error),
      });
      this.context.timers.after(RETRY_MS, () => {
        if (session.link === undefined && !session.ended) void this.#storeDeparture(session);
      });
    } finally {
      release();
    }
  }

  async #writeDeparture(session: Session): Promise<void> {
    const writes: Promise<void>[] = [];
    if (session.log !== undefined) writes.push(session.log.flush("departed"));
    for (const channel of this.parts.appendChannels) {
      const consumer = channel.consumer(session);
      if (consumer?.dirty) writes.push(consumer.flush("departed"));
    }
    writes.push(this.store.save(session.record(), "departed"));
    const outcomes = await Promise.allSettled(writes);
    const refused = outcomes.find((outcome) => outcome.status === "rejected");
    if (refused !== undefined) throw refused.reason;
  }

  #armExpiry(session: Session, delayMs: number): void {
    session.expiryTimer?.cancel();
    session.expiryTimer = this.context.timers.after(delayMs, () => {
      if (session.link === undefined && !session.ended) void this.#expire(session);
    });
  }

  async #expire(session: Session): Promise<void> {
    await this.inTurn(session.clientId, async () => {
      if (session.link === undefined && !session.ended) await this.#end(session);
    });
  }

  #hasExpired(session: Session): boolean {
    if (session.link !== undefined || session.awaySince === 0n) return false;
    const awayMs = (this.context.clock.wall() - session.awaySince) / NANOSECONDS_PER_MS;
    return awayMs >= BigInt(session.expiry) * 1_000n;
  }

  // ---------------------------------------------------------------------------------------- ending

  /** The one way a session ends (D6.10): its Will first, then everything kept for it. */
  async #end(session: Session): Promise<void> {
    await this.#retire(session, undefined);
    if (!session.stored) return;
    await this.#untilStored("end a session", session.clientId, async () => {
      await this.store.end(session.clientId, "departed");
    });
  }

  /** Everything of an ending but the session's record, which a new session's replaces. */
  async #retire(session: Session, passed: ReadonlySet<AppendChannel> | undefined): Promise<void> {
    if (session.ended) return;
    session.ended = true;
    if (this.#held.get(session.clientId) === session) this.#held.delete(session.clientId);
    session.expiryTimer?.cancel();
    const will = this.parts.wills.publish(session);
    this.parts.subscriptions.leaveAll(session);
    const readers: AppendChannel[] = [];
    for (const channel of this.parts.appendChannels) {
      channel.leave(session);
      if (passed === undefined || passed.has(channel)) readers.push(channel);
    }
    session.log?.close();
    const holds = this.parts.exactlyOnce.sessionEnded(session);
    if (session.stored) await this.#dropPositions(session, readers);
    await Promise.all([will, holds]);
  }

  async #dropPositions(session: Session, channels: readonly AppendChannel[]): Promise<void> {
    const reader = sessionReader(session.clientId);
    await this.#untilStored(
      "drop the positions of an ended session",
      session.clientId,
      async () => {
        await Promise.all(channels.map(({ store }) => store.dropPosition(reader, "departed")));
      },
    );
  }

  /** Writes what must be written, every second until it is (D6.4, D6.13). */
  async #untilStored(what: string, clientId: string, write: () => Promise<void>): Promise<void> {
    for (let failed = false;; failed = true) {
      try {
        return await write();
      } catch (error) {
        if (!(error instanceof StorageFailure) || this.#stopping) throw error;
        if (!failed) {
          this.context.counters.storageErrors.add("sessions");
          this.context.log.error("a session write is tried again every second", {
            what,
            client: clientId,
            error: error.message,
          });
        }
        await new Promise<void>((resolve) => this.context.timers.after(RETRY_MS, resolve));
      }
    }
  }

  // ------------------------------------------------------------------------------- start and stop

  #stopping = false;

  /** Brings back what was stored. Called once, before any door opens. */
  restore(
    images: Awaited<ReturnType<SessionStore["load"]>>["sessions"],
  ): { session: Session; image: (typeof images)[number] }[] {
    const restored: { session: Session; image: (typeof images)[number] }[] = [];
    for (const image of images) {
      const { record } = image;
      const session = this.#make(record.clientId, record.will?.user ?? "");
      session.expiry = record.expiry;
      session.awaySince = record.awaySince === 0n ? this.context.clock.wall() : record.awaySince;
      session.will = record.will;
      session.willDue = record.willDue;
      session.window.receiveMaximum = record.window;
      this.#held.set(session.clientId, session);
      session.joined = false;
      session.stored = true;
      this.#addLogReader(session, image.cursor);
      for (const subscription of record.subscriptions) {
        this.parts.subscriptions.restore(session, subscription);
      }
      restored.push({ session, image });
    }
    return restored;
  }

  /** Ends what expired while the broker was stopped; arms the clocks of the rest. */
  async settleRestored(): Promise<void> {
    const now = this.context.clock.wall();
    for (const session of [...this.#held.values()]) {
      const awayMs = Number((now - session.awaySince) / NANOSECONDS_PER_MS);
      const leftMs = session.expiry * 1_000 - awayMs;
      if (leftMs <= 0) {
        // A Will without a due moment is dropped unannounced (D19.16).
        if (session.willDue === 0n) this.parts.wills.discard(session);
        await this.#end(session);
        continue;
      }
      this.#armExpiry(session, leftMs);
      if (session.will !== undefined && session.willDue !== 0n) {
        const waitMs = Number((session.willDue - now) / NANOSECONDS_PER_MS);
        if (waitMs > 0) this.#waitWill(session, waitMs);
        else await this.parts.wills.publish(session).then(() => this.#storeDeparture(session));
      }
    }
  }

  /** Every connection is told, every session stored. Sessions that end with their connection end. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const departures: Promise<void>[] = [];
    for (const session of [...this.#held.values()]) {
      const { link } = session;
      if (link === undefined) continue;
      this.#detach(session);
      link.end({ code: Reason.ServerShuttingDown, reason: "the broker is stopping" });
      if (!session.durable) continue;
      session.awaySince = this.context.clock.wall();
      departures.push(this.#writeDeparture(session));
    }
    for (const outcome of await Promise.allSettled(departures)) {
      if (outcome.status === "rejected") {
        this.context.log.error("cannot store a session at the stop", {
          error: errorText(outcome.reason),
        });
      }
    }
  }
}

/** What a CONNECT hears when the session store refused (02a section 10). */
function storeRefusal(failure: StorageFailure, hasWill: boolean): Refusal {
  if (failure.kind === "full" && hasWill) {
    return { code: Reason.QuotaExceeded, reason: "the session store has no room for the Will" };
  }
  return { code: Reason.ImplementationSpecificError, reason: failure.message };
}
