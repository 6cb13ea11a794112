import {
  sessionReader,
  type SessionRecord,
  type SessionStore,
  StorageFailure,
  type StoredWill,
} from "../storage/contract.ts";
import type { Offset } from "../storage/record.ts";
import type { AppendChannel } from "./channels/append.ts";
import { ConnectTurns, type Owned, type Turn } from "./connect_turns.ts";
import type { Context } from "./context.ts";
import { type Departure, Departures } from "./departures.ts";
import { Endings } from "./endings.ts";
import type { ClientLink } from "./link.ts";
import { LogReader } from "./log_reader.ts";
import type { Parts } from "./parts.ts";
import { Reason, type Refusal } from "./reason.ts";
import { SessionRegistry } from "./registry.ts";
import { RETRY_MS } from "./remains.ts";
import { Replacing } from "./replacing.ts";
import type { Session } from "./session.ts";
import type { SessionAccess } from "./session_access.ts";

export type { Departure } from "./departures.ts";

/** MQTT's "never expires" (3.1.2.11.2); capped like every other value. */
const NEVER_SECONDS = 0xffff_ffff;

/** A CONNECT after every check that depends on the packet and the credentials alone. */
export interface ConnectRequest {
  /** Never empty: the door assigned one if the client sent none. */
  readonly clientId: string;
  /** The proved identity; empty for none. */
  readonly user: string;
  /** The client id as the CONNECT has it, maybe empty: `client_ids:` of an ACL file is about this one. */
  readonly sentClientId: string;
  /** What an ACL file lets the client do; undefined without such a file. */
  readonly access: SessionAccess | undefined;
  readonly level: 4 | 5;
  readonly cleanStart: boolean;
  /** Seconds; for 3.1.1, 0 or "never" by its clean session flag. */
  readonly expiry: number;
  readonly receiveMaximum: number;
  readonly will: StoredWill | undefined;
}

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

/** A CONNECT that a newer one passed: CONNACK, then `0x8E` (D6.7). */
export interface PassedOver {
  readonly passedOver: true;
  readonly sessionPresent: boolean;
  readonly expiry: number;
}

/** Every session, connected or away, and the one place where they begin and change hands. */
export class Sessions {
  readonly registry: SessionRegistry;
  readonly endings: Endings;
  readonly departures: Departures;
  readonly #turns = new ConnectTurns();

  constructor(
    private readonly context: Context,
    private readonly store: SessionStore,
    private readonly parts: Parts,
  ) {
    this.registry = new SessionRegistry(context);
    this.endings = new Endings(context, store, this.registry, parts);
    this.departures = new Departures(
      context,
      store,
      this.registry,
      parts,
      this.endings,
      (requested) => this.#grantedExpiry(requested),
    );
  }

  get(clientId: string): Session | undefined {
    return this.registry.get(clientId);
  }

  values(): IterableIterator<Session> {
    return this.registry.values();
  }

  get size(): number {
    return this.registry.size;
  }

  /** Runs `work` in turn with every other change of the client's session (S26). */
  inTurn<T>(clientId: string, work: () => Promise<T>): Promise<T> {
    return this.registry.inTurn(clientId, work);
  }

  disconnected(session: Session, link: ClientLink, how: Departure): Promise<void> {
    return this.departures.disconnected(session, link, how);
  }

  // ------------------------------------------------------------------------------------ beginning

  /** Serves CONNECTs of one client id in turn (D6.7). The lock is held until the claim is settled. */
  async claim(request: ConnectRequest): Promise<Claim | PassedOver | Refusal> {
    const { clientId } = request;
    const expiry = this.#grantedExpiry(request.expiry);
    if (request.level === 5 && expiry < request.expiry) {
      this.context.counters.sessionExpiryShortened++;
    }
    const turn: Turn = { clientId, passable: !request.cleanStart && expiry > 0 };
    this.store.mark(clientId);
    this.#turns.enter(turn);
    for (;;) {
      const release = await this.registry.acquire(clientId);
      const step = this.#turns.begin(turn);
      if (step === "serve") return await this.#serve(request, expiry, turn, release);
      // A newer one takes the session, and this one hears of it.
      const decided = step === "pass" ? this.#turns.pass(turn) : step;
      release();
      const owned = await decided;
      if (owned === "again") continue;
      this.store.unmark(clientId);
      this.context.counters.connections++;
      this.#passedWill(request, owned.sessionPresent);
      return { passedOver: true, sessionPresent: owned.sessionPresent, expiry };
    }
  }

  /** As for a connection that was taken over: published, or dropped with its delay. */
  #passedWill({ clientId, will }: ConnectRequest, sessionPresent: boolean): void {
    if (will === undefined || (sessionPresent && will.delay > 0)) return;
    void this.parts.wills.fire(clientId, will, sessionPresent ? "immediate" : "session_ended");
  }

  async #serve(
    request: ConnectRequest,
    expiry: number,
    turn: Turn,
    release: () => void,
  ): Promise<Claim | Refusal> {
    const settle: Settle = (owned) => {
      if (owned !== undefined) this.context.counters.connections++;
      this.store.unmark(request.clientId);
      this.#turns.end(turn, owned);
      release();
    };
    try {
      const claim = await this.#claim(request, expiry, settle);
      if ("code" in claim) settle(undefined);
      return claim;
    } catch (error) {
      settle(undefined);
      if (error instanceof StorageFailure) {
        this.context.counters.storageErrors.add("sessions");
        return storeRefusal(error, request.will !== undefined);
      }
      throw error;
    }
  }

  async #claim(request: ConnectRequest, expiry: number, settle: Settle): Promise<Claim | Refusal> {
    const { clientId } = request;
    let held = this.registry.get(clientId);
    if (held !== undefined && this.departures.hasExpired(held)) {
      await this.endings.end(held);
      held = undefined;
    }
    // What an ended session of this id left goes first, or nothing is begun (D6.12, D6.13).
    if (!await this.endings.remains.settle(clientId)) return REMAINS;
    await held?.willFiring;
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
    settle: Settle,
  ): Promise<Claim | Refusal> {
    // What is on the wire is not written any more once the session ends with its connection.
    if (expiry === 0) await session.log?.window.flush("answering");
    const before = session.record();
    // Until it is told to go, the present connection is sent as much as it lets.
    const { receiveMaximum } = session.link === undefined ? request : session.window;
    const record: SessionRecord = {
      ...before,
      expiry,
      awaySince: 0n,
      will: request.will,
      willDue: 0n,
      window: session.storedWindow(Math.max(receiveMaximum, request.receiveMaximum)),
    };
    const { shares } = this.parts;
    const groups = sharedFilters(session);
    const unlock = await shares.lock(groups);
    const found = shares.missing(groups);
    try {
      await this.store.save(record, "answering", { found, end: [] });
    } catch (error) {
      unlock();
      const full = error instanceof StorageFailure && error.kind === "full";
      if (full && found.length > 0) return NO_ROOM_FOR_CURSOR;
      throw error;
    }
    return {
      session,
      sessionPresent: true,
      expiry,
      complete: (link) => {
        shares.founded(found);
        unlock();
        const takenOver = session.link !== undefined;
        this.#handOver(session);
        this.parts.wills.resumed(session, takenOver);
        session.expiryTimer?.cancel();
        session.expiresAt = undefined;
        session.expiry = expiry;
        session.awaySince = 0n;
        session.will = request.will;
        session.window.receiveMaximum = request.receiveMaximum;
        session.user = request.user;
        session.access = request.access;
        this.#rejoin(session);
        session.resume(link);
        settle({ sessionPresent: true });
      },
      abandon: () => {
        const end = found.map(({ name }) => name);
        this.#untilStored(
          session.clientId,
          () => this.store.save(before, "answering", { found: [], end }),
        ).then(() => {
          unlock();
          settle(undefined);
        });
      },
    };
  }

  /** The session that is replaced loses its connection, which hears why. */
  #handOver(session: Session): void {
    const old = session.link;
    if (old === undefined) return;
    this.departures.detach(session);
    old.end({ code: Reason.SessionTakenOver, reason: "the client id connected elsewhere" });
  }

  /** `passed`: channels whose stored position of `old` fell below the floor; the others are kept. */
  async #begin(
    request: ConnectRequest,
    requestedExpiry: number,
    old: Session | undefined,
    passed: ReadonlySet<AppendChannel> | undefined,
    settle: Settle,
  ): Promise<Claim> {
    const session = this.registry.make(request.clientId, request.user);
    session.access = request.access;
    session.level = request.level;
    session.window.receiveMaximum = request.receiveMaximum;
    session.will = request.will;
    session.expiry = requestedExpiry;
    const replacing = old === undefined
      ? undefined
      : await Replacing.begin(old, this.store, this.parts);
    try {
      await this.#store(session, old?.stored ? replacing!.ends : undefined);
    } catch (error) {
      await replacing?.undo();
      throw error;
    }
    return {
      session,
      sessionPresent: false,
      expiry: session.expiry,
      complete: (link) => {
        if (old !== undefined) {
          this.#handOver(old);
          session.ready = this.#retire(session, old, passed, replacing!);
        }
        this.registry.hold(session);
        if (session.stored) {
          session.log = new LogReader(session, this.parts.log, this.parts.log.end);
        }
        session.link = link;
        settle({ sessionPresent: false });
      },
      abandon: () => {
        void this.#giveBack(session, old, replacing).then(() => settle(undefined));
      },
    };
  }

  /** Ends the session that `session` replaced; false when a store refused some of it (D6.12). */
  #retire(
    session: Session,
    old: Session,
    passed: ReadonlySet<AppendChannel> | undefined,
    replacing: Replacing,
  ): Promise<boolean> {
    const { appendChannels } = this.parts;
    if (passed !== undefined) {
      session.inherited = this.#keptPositions(old, passed);
      for (const channel of passed) {
        channel.passed(old, "session", channel.consumer(old)!.position, channel.store.floor());
      }
    }
    // One that ends with its connection keeps what it inherits in memory: nothing stored outlives it (D11.20).
    const channels = passed === undefined || !session.stored
      ? appendChannels
      : appendChannels.filter((channel) => passed.has(channel));
    const ended = old.ended
      ? this.endings.remains.settle(old.clientId)
      : this.endings.replaced(old, channels, replacing.rows);
    replacing.done();
    return ended;
  }

  /** CONNACK could not be written: the store is told what it was told before (D6.4). */
  async #giveBack(
    session: Session,
    old: Session | undefined,
    replacing: Replacing | undefined,
  ): Promise<void> {
    if (old !== undefined && old.stored && !old.ended) {
      await this.#untilStored(session.clientId, () => replacing!.restore());
    } else if (session.stored) {
      await this.#untilStored(
        session.clientId,
        () => this.store.end(session.clientId, "departed"),
      );
    }
    await replacing?.undo();
  }

  /**
   * Stores a new session, and with it the end of the one it replaces, in one write (D6.5). `ends`: groups
   * that end with that one; undefined where none is stored.
   */
  async #store(session: Session, ends: readonly string[] | undefined): Promise<void> {
    if (session.durable) {
      try {
        await this.store.begin(session.record(), this.parts.log.end, "answering");
        session.stored = true;
        return;
      } catch (error) {
        const full = error instanceof StorageFailure && error.kind === "full";
        if (!full || session.will !== undefined) throw error;
        // No room for the record: the session is granted for the connection only (02b 15).
        session.expiry = 0;
        this.context.counters.sessionsDropped.add("storage_full");
      }
    }
    if (ends === undefined) return;
    await this.store.end(session.clientId, "answering", { end: ends, returned: [] });
  }

  /** Writes what must be written, every second until it is (D6.4). */
  async #untilStored(client: string, write: () => Promise<void>): Promise<void> {
    for (let failed = false;; failed = true) {
      try {
        return await write();
      } catch (error) {
        if (!(error instanceof StorageFailure)) throw error;
        this.context.counters.storageErrors.add("sessions");
        if (!failed) {
          this.context.log.error(
            "cannot give a session back after a CONNACK that was not written; it is tried every second",
            { client, error: error.message },
          );
        }
        await new Promise<void>((resolve) => this.context.timers.after(RETRY_MS, resolve));
      }
    }
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
}

type Settle = (owned: Owned | undefined) => void;

const REMAINS: Refusal = {
  code: Reason.ImplementationSpecificError,
  reason: "what an earlier session of this client id left could not be dropped yet",
};

const NO_ROOM_FOR_CURSOR: Refusal = {
  code: Reason.QuotaExceeded,
  reason: "the session store has no room for the cursor of a shared group this session is in",
};

/** The shared filters a session holds: the names of its groups. */
export function sharedFilters(session: Session): string[] {
  return [...session.subscriptions.keys()].filter((filter) => filter.startsWith("$share/"));
}

/** What a CONNECT hears when the session store refused (02a section 10). */
function storeRefusal(failure: StorageFailure, hasWill: boolean): Refusal {
  if (failure.kind === "full" && hasWill) {
    return {
      code: Reason.QuotaExceeded,
      reason: "the session store has no room for the Will",
      counted: "session store full",
    };
  }
  return { code: Reason.ImplementationSpecificError, reason: failure.message };
}
