import { errorText } from "../platform/log.ts";
import type { SessionStore } from "../storage/contract.ts";
import type { Context } from "./context.ts";
import type { WillCause } from "./counters.ts";
import type { Endings } from "./endings.ts";
import type { ClientLink } from "./link.ts";
import type { Parts } from "./parts.ts";
import { Reason } from "./reason.ts";
import type { SessionRegistry } from "./registry.ts";
import { RETRY_MS } from "./remains.ts";
import type { Session } from "./session.ts";

/** How a connection ended. */
export type Departure =
  /** The link was lost, or the broker closed it. */
  | { readonly kind: "lost" }
  /** DISCONNECT: `expiry` when it changed it, `will` unless its code was 0x00 (MQTT-3.1.2-10). */
  | { readonly kind: "clean"; readonly expiry: number | undefined; readonly will: boolean };

/** What happens to a session when its connection ends, and while it is away. */
export class Departures {
  /** Sessions whose departure the store has refused so far. */
  readonly #unwritten = new Set<Session>();
  #stopping = false;

  constructor(
    private readonly context: Context,
    private readonly store: SessionStore,
    private readonly registry: SessionRegistry,
    private readonly parts: Parts,
    private readonly endings: Endings,
    private readonly grantedExpiry: (requested: number) => number,
  ) {}

  /**
   * The connection `link` ended. Resolves when what that changes is stored (D6.16); a connection that
   * no longer owns the session changes nothing (D6.1).
   */
  async disconnected(session: Session, link: ClientLink, how: Departure): Promise<void> {
    if (session.link !== link) return;
    this.detach(session);
    const { wills } = this.parts;
    if (how.kind === "clean") {
      if (!how.will) wills.discard(session);
      if (how.expiry !== undefined && session.durable) {
        session.expiry = this.grantedExpiry(how.expiry);
      }
    }
    if (!session.durable) {
      this.#sayShortenedDelay(session);
      // Not with the end, which a CONNECT that is being served may take the cause from.
      if (session.will?.delay === 0) void wills.publish(session, "immediate");
      // In turn: a successor's record may be on its way to the store under the same client id. A CONNECT that
      // found the session before its DISCONNECT let it end has resumed it by then (D6.1).
      await this.registry.inTurn(session.clientId, async () => {
        if (session.ended || session.link !== undefined) return;
        await this.endings.end(session, "immediate");
      });
      return;
    }
    session.awaySince = this.context.clock.wall();
    this.armExpiry(session, session.expiry * 1_000);
    const delay = session.will?.delay ?? 0;
    if (delay > 0) this.waitWill(session, Math.min(delay, session.expiry) * 1_000);
    // Published before the record forgets it (D19.10).
    else await wills.publish(session, "immediate");
    await this.#storeDeparture(session);
  }

  #sayShortenedDelay({ clientId: client, will }: Session): void {
    if (will === undefined || will.delay === 0) return;
    this.context.log.info(
      "a Will Delay was cut short because the session ends with its connection",
      {
        client,
        delay: will.delay,
        remedy: "a Session Expiry Interval at least as long as the Will Delay Interval",
      },
    );
  }

  /** The session has no connection any more; what its queues had handed it goes back (D14.19). */
  detach(session: Session): void {
    session.detach();
    session.live.clear();
    for (const queue of this.parts.queueChannels) queue.connectionEnded(session);
  }

  /** The Will is published after `delayMs`, unless the session is resumed before. */
  waitWill(session: Session, delayMs: number): void {
    this.parts.wills.wait(session, delayMs, () => void this.fireWill(session, "delayed"));
  }

  /** Publishes a Will that was waiting; then its removal from the record is stored (D19.10). */
  async fireWill(session: Session, cause: WillCause): Promise<void> {
    if (session.link !== undefined || session.ended) return;
    await this.parts.wills.publish(session, cause);
    await this.#storeDeparture(session);
  }

  /** The session ends after `delayMs`, unless it is resumed before. */
  armExpiry(session: Session, delayMs: number): void {
    session.expiryTimer?.cancel();
    session.expiresAt = this.context.clock.monotonic() + delayMs;
    session.expiryTimer = this.context.timers.after(delayMs, () => void this.#expire(session));
  }

  async #expire(session: Session): Promise<void> {
    await this.registry.inTurn(session.clientId, async () => {
      if (this.hasExpired(session)) await this.endings.end(session);
    });
  }

  /** Its expiry passed; told by the monotonic clock, which no time server moves. */
  hasExpired(session: Session): boolean {
    return session.link === undefined && !session.ended && session.expiresAt !== undefined &&
      this.context.clock.monotonic() >= session.expiresAt;
  }

  // --------------------------------------------------------------------------------------- storing

  /** Stores that the client went, and tries again every second where that is refused (D6.16). */
  async #storeDeparture(session: Session): Promise<void> {
    const release = await this.registry.acquire(session.clientId);
    try {
      if (session.link === undefined && !session.ended) await this.#write(session);
      this.#unwritten.delete(session);
    } catch (error) {
      this.#refused(session, error);
    } finally {
      release();
    }
  }

  #refused(session: Session, error: unknown): void {
    this.context.counters.storageErrors.add("sessions");
    if (!this.#unwritten.has(session)) {
      this.context.log.error("cannot store a disconnect; it is tried again every second", {
        client: session.clientId,
        error: errorText(error),
      });
    }
    this.#unwritten.add(session);
    if (this.#stopping) return;
    this.context.timers.after(RETRY_MS, () => {
      if (session.link === undefined && !session.ended) void this.#storeDeparture(session);
      else this.#unwritten.delete(session);
    });
  }

  /** What is on its wire, its positions, its record. */
  async #write(session: Session): Promise<void> {
    const writes: Promise<void>[] = [];
    if (session.log !== undefined) writes.push(session.log.window.flush("departed"));
    for (const channel of this.parts.appendChannels) {
      const consumer = channel.consumer(session);
      if (consumer?.dirty) writes.push(consumer.flush("departed"));
    }
    writes.push(this.store.save(session.record(), "departed"));
    const outcomes = await Promise.allSettled(writes);
    const refused = outcomes.find((outcome) => outcome.status === "rejected");
    if (refused !== undefined) throw refused.reason;
  }

  // ------------------------------------------------------------------------------------------ stop

  /**
   * Every connection is told, every session that is kept is stored, a disconnect that is still owed
   * included. Sessions that end with their connection are ended at the next start (D19.15).
   */
  async stop(): Promise<void> {
    this.#stopping = true;
    const writes = [...this.#unwritten].filter(({ ended }) => !ended);
    this.#unwritten.clear();
    for (const session of [...this.registry.values()]) {
      const { link } = session;
      if (link === undefined) continue;
      this.detach(session);
      link.end({ code: Reason.ServerShuttingDown, reason: "the broker is stopping" });
      if (!session.durable) continue;
      session.awaySince = this.context.clock.wall();
      writes.push(session);
    }
    await Promise.all(writes.map((session) => this.#storeDeparture(session)));
    await this.endings.remains.stop();
  }
}
