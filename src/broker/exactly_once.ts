import { type Nanoseconds, NANOSECONDS_PER_MS } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import type { Timer } from "../platform/timers.ts";
import {
  type HoldStore,
  type Provider,
  type PublishEntry,
  type PublishRow,
  StorageFailure,
} from "../storage/contract.ts";
import { type Message, recordSize } from "../storage/record.ts";
import type { Context } from "./context.ts";
import type { Answerer, Publisher, PublishRequest } from "./publish.ts";
import { Reason, type ReasonCode, type Refusal } from "./reason.ts";
import type { Channel } from "./routes.ts";
import type { Session } from "./session.ts";

/** Where a held publish goes when it is released: where its PUBLISH placed it (D5.7). */
export interface HoldPlace {
  readonly store: HoldStore & { readonly channel: string };
  readonly provider: Provider;
  /** Undefined for a broadcast topic. */
  readonly channel: Channel | undefined;
}

/**
 * One inbound QoS 2 exchange (spec 03 section 5):
 * ```
 * holding --stored--> held --PUBREL--> releasing --stored--> gone
 *                       +--session ends, expires_after--> abandoned
 * ```
 */
export interface Exchange {
  readonly packetId: number;
  readonly place: HoldPlace;
  state: "holding" | "held" | "releasing";
  expiry: Timer | undefined;
  /** Repeats of the PUBLISH that wait for the hold to be stored. */
  repeats: number[];
}

export interface ExactlyOncePolicy {
  /** `broker.qos2.max_inflight_per_client`. */
  readonly maxInflightPerClient: number;
  /** `broker.qos2.expires_after`. */
  readonly expiresAfterMs: number;
}

/** What a PUBREL is answered: PUBCOMP with `code`, or the connection ends with `refusal` (D5.5). */
export type Release =
  | { readonly code: typeof Reason.Success | typeof Reason.PacketIdentifierNotFound }
  | { readonly refusal: Refusal };

/** QoS 2 publishes of clients: held from PUBREC to PUBREL in the store of their topic (D5.1, D5.2). */
export class ExactlyOnce {
  constructor(
    private readonly context: Context,
    private readonly publisher: Publisher,
    private readonly policy: ExactlyOncePolicy,
    /** The broadcast log, where broadcast publishes are held (D5.13). */
    private readonly logPlace: HoldPlace,
  ) {}

  /** A PUBLISH at QoS 2. Answered once the hold is stored, or refused as a QoS 1 publish would be. */
  hold(
    session: Session,
    packetId: number,
    request: PublishRequest,
    answerer: Answerer,
    token: number,
  ): void {
    const repeated = session.inbound.get(packetId);
    if (repeated !== undefined) {
      // A repeat is answered again, and held once (D5.9).
      if (repeated.state === "holding") repeated.repeats.push(token);
      else answerer.answered(token, undefined);
      return;
    }
    const { publisher } = this;
    const route = publisher.destinations.routes.route(request.topic);
    const refusal = this.#refusal(session, request, route);
    if (refusal !== undefined) {
      return publisher.refuse(request, session.clientId, answerer, token, refusal);
    }
    const channel = route.kind === "channel" ? route.channel : undefined;
    const place = channel === undefined ? this.logPlace : {
      store: channel.store,
      provider: channel.provider,
      channel,
    };
    const exchange: Exchange = {
      packetId,
      place,
      state: "holding",
      expiry: undefined,
      repeats: [],
    };
    session.inbound.set(packetId, exchange);
    place.provider.submit(
      new HoldEntry(
        this,
        session,
        exchange,
        this.#message(session, request, channel),
        answerer,
        token,
      ),
    );
  }

  #refusal(
    session: Session,
    request: PublishRequest,
    route: ReturnType<Publisher["destinations"]["routes"]["route"]>,
  ): Refusal | undefined {
    if (route.kind === "refused") return route.refusal;
    if (session.inbound.size >= this.policy.maxInflightPerClient) {
      return {
        code: Reason.QuotaExceeded,
        reason:
          `more unfinished QoS 2 publishes than broker.qos2.max_inflight_per_client (${this.policy.maxInflightPerClient})`,
      };
    }
    return this.publisher.admit(request);
  }

  #message(session: Session, request: PublishRequest, channel: Channel | undefined): Message {
    if (channel === undefined) return this.publisher.broadcastMessage(request, session.clientId);
    if (channel.kind === "queue" && request.retain) this.context.counters.queueRetainIgnored++;
    const retain = request.retain && channel.kind !== "queue";
    return this.publisher.channelMessage(request, session.clientId, retain);
  }

  /** The hold's write came back. */
  held(
    session: Session,
    exchange: Exchange,
    message: Message,
    answerer: Answerer,
    token: number,
    failure: StorageFailure | undefined,
  ): void {
    const tokens = [token, ...exchange.repeats];
    exchange.repeats = [];
    if (failure !== undefined) {
      session.inbound.delete(exchange.packetId);
      for (const each of tokens) {
        this.publisher.failed(message.topic, session.clientId, answerer, each, failure);
      }
      return;
    }
    exchange.state = "held";
    this.#armExpiry(session, exchange, this.policy.expiresAfterMs);
    for (const each of tokens) answerer.answered(each, undefined);
    if (session.ended) void this.#abandon(session, exchange);
  }

  #armExpiry(session: Session, exchange: Exchange, delayMs: number): void {
    exchange.expiry = this.context.timers.after(delayMs, () => {
      if (session.inbound.get(exchange.packetId) !== exchange || exchange.state !== "held") return;
      session.inbound.delete(exchange.packetId);
      void this.#abandon(session, exchange);
    });
  }

  /** A hold found at the start, with the session it belongs to (D5.16). */
  restore(session: Session, packetId: number, place: HoldPlace, heldAt: Nanoseconds): void {
    const exchange: Exchange = { packetId, place, state: "held", expiry: undefined, repeats: [] };
    session.inbound.set(packetId, exchange);
    const waitedMs = Number((this.context.clock.wall() - heldAt) / NANOSECONDS_PER_MS);
    this.#armExpiry(session, exchange, this.policy.expiresAfterMs - Math.max(0, waitedMs));
  }

  /** A PUBREL: the record is written, and only then is PUBCOMP due (D5.3, D5.6). */
  async release(session: Session, packetId: number): Promise<Release> {
    const exchange = session.inbound.get(packetId);
    if (exchange === undefined || exchange.state !== "held") {
      return { code: Reason.PacketIdentifierNotFound };
    }
    exchange.state = "releasing";
    exchange.expiry?.cancel();
    try {
      const code = await this.#write(session, exchange);
      session.inbound.delete(packetId);
      return { code };
    } catch (error) {
      exchange.state = "held";
      this.#armExpiry(session, exchange, this.policy.expiresAfterMs);
      if (session.ended) void this.#abandon(session, exchange);
      return { refusal: this.#releaseRefusal(exchange, error) };
    }
  }

  #releaseRefusal(exchange: Exchange, error: unknown): Refusal {
    if (!(error instanceof StorageFailure)) throw error;
    if (error.kind === "failed") {
      this.context.counters.storageErrors.add(exchange.place.store.channel);
    }
    const code: ReasonCode = error.kind === "full"
      ? Reason.QuotaExceeded
      : Reason.ImplementationSpecificError;
    return { code, reason: `the release could not be stored and stays held: ${error.message}` };
  }

  async #write(
    session: Session,
    exchange: Exchange,
  ): Promise<typeof Reason.Success | typeof Reason.PacketIdentifierNotFound> {
    const { place, packetId } = exchange;
    if (place.channel === undefined) await this.#retain(session, exchange);
    const record = await place.store.releaseHold(session.clientId, packetId);
    if (record === undefined) return Reason.PacketIdentifierNotFound;
    this.context.counters.published++;
    const { offset, message } = record;
    if (place.channel !== undefined) {
      if (offset > 0) place.channel.recorded(offset, message);
      else if (place.channel.kind === "latest") place.channel.deletedNothing(message);
      return Reason.Success;
    }
    const { broadcast, log } = this.publisher.destinations;
    const audience = broadcast.audience(message.topic);
    log.recorded(offset, message, broadcast.owed(message, audience));
    broadcast.deliver(message, audience);
    return Reason.Success;
  }

  /** A retained broadcast enters the retained store just before its log write (D5.14). */
  async #retain(session: Session, exchange: Exchange): Promise<void> {
    const message = await exchange.place.store.held(session.clientId, exchange.packetId);
    if (message === undefined || !message.retain) return;
    const { retained, providerOf } = this.publisher.destinations;
    const row: PublishRow = { kind: "retain", store: retained, message, offset: 0 };
    await new Promise<void>((resolve, reject) => {
      providerOf(retained).submit({
        rows: [row],
        bytes: recordSize(message),
        settled: (failure) => failure === undefined ? resolve() : reject(failure),
      });
    });
  }

  /** The session ends: everything it holds goes with it, counted (D6.19). */
  async sessionEnded(session: Session): Promise<void> {
    const exchanges = [...session.inbound.values()];
    session.inbound.clear();
    await Promise.all(
      exchanges.filter((exchange) => exchange.state === "held")
        .map((exchange) => this.#abandon(session, exchange)),
    );
  }

  async #abandon(session: Session, exchange: Exchange): Promise<void> {
    exchange.expiry?.cancel();
    try {
      const dropped = await exchange.place.store.abandonHold(
        session.clientId,
        exchange.packetId,
        "departed",
      );
      if (dropped) this.context.counters.qos2Abandoned++;
    } catch (error) {
      this.context.counters.storageErrors.add(exchange.place.store.channel);
      this.context.log.error(
        "cannot drop an abandoned QoS 2 publish; it is dropped at the next start",
        {
          client: session.clientId,
          channel: exchange.place.store.channel,
          error: errorText(error),
        },
      );
    }
  }
}

class HoldEntry implements PublishEntry {
  readonly rows: readonly PublishRow[];
  readonly bytes: number;

  constructor(
    private readonly exactlyOnce: ExactlyOnce,
    private readonly session: Session,
    private readonly exchange: Exchange,
    private readonly message: Message,
    private readonly answerer: Answerer,
    private readonly token: number,
  ) {
    this.bytes = recordSize(message);
    const heldAt = message.timestamp;
    const hold = {
      clientId: session.clientId,
      packetId: exchange.packetId,
      heldAt,
      message,
    };
    this.rows = [{ kind: "hold", store: exchange.place.store, hold, offset: 0 }];
  }

  settled(failure: StorageFailure | undefined): void {
    const { exactlyOnce, session, exchange, message, answerer, token } = this;
    exactlyOnce.held(session, exchange, message, answerer, token, failure);
  }
}
