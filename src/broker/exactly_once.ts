import { type Nanoseconds, NANOSECONDS_PER_MS } from "../platform/clock.ts";
import type { Timer } from "../platform/timers.ts";
import {
  type HoldStore,
  type Provider,
  type PublishEntry,
  type PublishRow,
  StorageFailure,
} from "../storage/contract.ts";
import { type Message, recordSize, type StoredRecord } from "../storage/record.ts";
import type { Context } from "./context.ts";
import { type Copies, NO_COPIES } from "./copies.ts";
import {
  type Answerer,
  mayPublish,
  NO_GRANT,
  type Publisher,
  type PublishRequest,
} from "./publish.ts";
import { Reason, type ReasonCode, type Refusal } from "./reason.ts";
import type { Channel, Route } from "./routes.ts";
import { InboundExchanges, type Session } from "./session.ts";

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
  /** Monotonic ms at which it is abandoned; set once it is held. */
  expiresAt: number;
  /** Repeats of the PUBLISH that wait for the hold to be stored. */
  repeats: number[];
  /** The release under way: a PUBREL of the next connection hears the same outcome. */
  releasing: Promise<Release> | undefined;
  /** Its value is in the retained store already, its release is not (D5.14). */
  retained: boolean;
  /** Its publisher asked for that, or may have: of a hold found at the start it is not known unread. */
  mayRetain: boolean;
  /** Shared groups over its channel have their copy already (D9.5). */
  copied: boolean;
}

function exchangesOf(session: Session): InboundExchanges {
  return session.exchanges ??= new InboundExchanges();
}

function newExchange(packetId: number, place: HoldPlace, state: Exchange["state"]): Exchange {
  return {
    packetId,
    place,
    state,
    expiry: undefined,
    expiresAt: Infinity,
    repeats: [],
    releasing: undefined,
    retained: false,
    mayRetain: true,
    copied: false,
  };
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
    /** Carries out what an ended exchange still owes a store, until it is done (D6.13). */
    private readonly leave: (clientId: string, writes: (() => Promise<void>)[]) => void,
  ) {}

  /** A PUBLISH at QoS 2. Answered once the hold is stored, or refused as a QoS 1 publish would be. */
  hold(
    session: Session,
    packetId: number,
    request: PublishRequest,
    answerer: Answerer,
    token: number,
  ): void {
    const repeated = session.exchanges?.held.get(packetId);
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
    const exchange = newExchange(packetId, place, "holding");
    exchange.mayRetain = request.retain;
    exchangesOf(session).held.set(packetId, exchange);
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
    route: Route,
  ): Refusal | undefined {
    if (route.kind === "refused") return route.refusal;
    const rules = session.access?.rules;
    if (rules !== undefined && !mayPublish(rules, request, route)) return NO_GRANT;
    return this.#tooMany(session) ?? this.publisher.admit(request);
  }

  #message(session: Session, request: PublishRequest, channel: Channel | undefined): Message {
    if (channel === undefined) return this.publisher.broadcastMessage(request, session.clientId);
    if (channel.kind === "queue" && request.retain) channel.retainIgnored++;
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
      session.exchanges?.held.delete(exchange.packetId);
      for (const each of tokens) {
        this.publisher.failed(message.topic, session.clientId, answerer, each, failure);
      }
      return;
    }
    exchange.state = "held";
    this.#expireIn(session, exchange, this.policy.expiresAfterMs);
    for (const each of tokens) answerer.answered(each, undefined);
    if (session.ended) this.leave(session.clientId, [this.#abandoning(session, exchange)]);
  }

  #expireIn(session: Session, exchange: Exchange, delayMs: number): void {
    exchange.expiresAt = this.context.clock.monotonic() + delayMs;
    this.#armExpiry(session, exchange);
  }

  #armExpiry(session: Session, exchange: Exchange): void {
    const leftMs = exchange.expiresAt - this.context.clock.monotonic();
    exchange.expiry = this.context.timers.after(leftMs, () => {
      const present = session.exchanges?.held.get(exchange.packetId);
      if (present !== exchange || exchange.state !== "held") return;
      session.exchanges?.held.delete(exchange.packetId);
      this.leave(session.clientId, [this.#abandoning(session, exchange)]);
    });
  }

  /** A hold found at the start, with the session it belongs to (D5.16). */
  restore(session: Session, packetId: number, place: HoldPlace, heldAt: Nanoseconds): void {
    const exchange = newExchange(packetId, place, "held");
    exchangesOf(session).held.set(packetId, exchange);
    const waitedMs = Number((this.context.clock.wall() - heldAt) / NANOSECONDS_PER_MS);
    this.#expireIn(session, exchange, this.policy.expiresAfterMs - Math.max(0, waitedMs));
  }

  // ----------------------------------------------------------------------------- control requests

  /**
   * A request to a control topic at QoS 2: true when it is to be carried out, false for a repeat, a
   * refusal when too many exchanges are open. It is no record, so nothing of it outlives the broker.
   */
  apply(session: Session, packetId: number): boolean | Refusal {
    if (session.exchanges?.applied.has(packetId)) return false;
    const refusal = this.#tooMany(session);
    if (refusal !== undefined) return refusal;
    exchangesOf(session).applied.add(packetId);
    return true;
  }

  #tooMany(session: Session): Refusal | undefined {
    const { maxInflightPerClient } = this.policy;
    const { exchanges } = session;
    if (exchanges === undefined) return undefined;
    if (exchanges.held.size + exchanges.applied.size < maxInflightPerClient) return undefined;
    return {
      code: Reason.QuotaExceeded,
      reason:
        `more unfinished QoS 2 publishes than broker.qos2.max_inflight_per_client (${maxInflightPerClient})`,
      counted: "inflight allowance exceeded",
    };
  }

  // ------------------------------------------------------------------------------------- releases

  /** A PUBREL: the record is written, and only then is PUBCOMP due (D5.3, D5.6). */
  release(session: Session, packetId: number): Promise<Release> {
    const exchange = session.exchanges?.held.get(packetId);
    if (exchange === undefined || exchange.state === "holding") {
      const known = session.exchanges?.applied.delete(packetId) === true;
      return Promise.resolve({ code: known ? Reason.Success : Reason.PacketIdentifierNotFound });
    }
    return exchange.releasing ??= this.#release(session, exchange);
  }

  async #release(session: Session, exchange: Exchange): Promise<Release> {
    exchange.state = "releasing";
    exchange.expiry?.cancel();
    try {
      const code = await this.#write(session, exchange);
      session.exchanges?.held.delete(exchange.packetId);
      return { code };
    } catch (error) {
      exchange.state = "held";
      exchange.releasing = undefined;
      this.#armExpiry(session, exchange);
      if (session.ended) this.leave(session.clientId, [this.#abandoning(session, exchange)]);
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

  /**
   * Releases of a session reach their stores in the order of its PUBRELs, whatever each has to read
   * before: a subscriber gets what one client published in that client's order (D20.4).
   */
  async #write(
    session: Session,
    exchange: Exchange,
  ): Promise<typeof Reason.Success | typeof Reason.PacketIdentifierNotFound> {
    const exchanges = exchangesOf(session);
    const before = exchanges.releases;
    let handedOver!: () => void;
    exchanges.releases = new Promise((resolve) => handedOver = resolve);
    try {
      await before;
      return await this.#writeInTurn(session, exchange, handedOver);
    } finally {
      handedOver();
    }
  }

  async #writeInTurn(
    session: Session,
    exchange: Exchange,
    handedOver: () => void,
  ): Promise<typeof Reason.Success | typeof Reason.PacketIdentifierNotFound> {
    const { place, packetId } = exchange;
    await this.#ahead(session, exchange);
    const copies = await this.#copies(session, exchange);
    const apart = copies.filter(({ provider }) => provider !== place.provider);
    const together = copies.filter(({ provider }) => provider === place.provider)
      .flatMap(({ rows }) => rows);
    const written: Copies[] = [];
    let record: StoredRecord | undefined;
    try {
      for (const each of apart) {
        await storeApart(each);
        written.push(each);
      }
      const { clientId } = session;
      const released = place.store.releaseHold(clientId, packetId, together, (record) => {
        for (const each of copies) each.accepted();
        const { offset, message } = record;
        if (place.channel === undefined) this.publisher.releasedBroadcast(offset, message);
        else this.publisher.releasedRecord(place.channel, offset, message);
      });
      handedOver();
      record = await released;
    } catch (error) {
      for (const each of copies) each.refused(written.includes(each));
      throw error;
    }
    if (record !== undefined) return Reason.Success;
    for (const each of copies) each.refused(written.includes(each));
    return Reason.PacketIdentifierNotFound;
  }

  /** The copies that appear with the release, once (07 P5). */
  async #copies(session: Session, { place, packetId }: Exchange): Promise<readonly Copies[]> {
    if (this.publisher.copying.length === 0 || place.channel?.kind === "queue") return NO_COPIES;
    const message = await place.store.held(session.clientId, packetId);
    return message === undefined ? NO_COPIES : this.publisher.copies(message, place.channel);
  }

  /**
   * What is stored just before the release: a retained broadcast's value (D5.14), the copy that shared
   * groups over a channel are owed (D9.5).
   */
  async #ahead(session: Session, exchange: Exchange): Promise<void> {
    const { place, packetId } = exchange;
    const mayRetain = place.channel === undefined && exchange.mayRetain && !exchange.retained;
    const mayCopy = place.channel !== undefined && place.channel.kind !== "queue" &&
      !exchange.copied && this.publisher.hasGroups;
    if (!mayRetain && !mayCopy) return;
    const message = await place.store.held(session.clientId, packetId);
    if (message === undefined) return;
    if (mayCopy) {
      await this.publisher.copyToGroups(message);
      exchange.copied = true;
    } else if (message.retain) {
      await this.publisher.retain(message);
      exchange.retained = true;
    }
  }

  // --------------------------------------------------------------------------------------- ending

  /** The session ends: the writes by which everything it holds goes with it, counted (D6.19). */
  sessionEnded(session: Session): (() => Promise<void>)[] {
    const { exchanges } = session;
    if (exchanges === undefined) return [];
    session.exchanges = undefined;
    return [...exchanges.held.values()].filter(({ state }) => state === "held")
      .map((exchange) => this.#abandoning(session, exchange));
  }

  #abandoning({ clientId }: Session, exchange: Exchange): () => Promise<void> {
    exchange.expiry?.cancel();
    const { packetId, place } = exchange;
    return async () => {
      if (!await place.store.abandonHold(clientId, packetId, "departed")) return;
      this.context.counters.qos2Abandoned++;
      if (!exchange.retained) return;
      this.context.log.warn("an abandoned QoS 2 publish had its value retained before", {
        client: clientId,
      });
    };
  }
}

/** Copies that another provider keeps are stored first (07 T1). @throws StorageFailure */
async function storeApart({ provider, rows, bytes }: Copies): Promise<void> {
  if (rows.length === 0) return;
  const failure = await new Promise<StorageFailure | undefined>((settled) =>
    provider.submit({ rows, bytes, settled })
  );
  if (failure !== undefined) throw failure;
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
