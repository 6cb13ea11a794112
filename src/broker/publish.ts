import type { ClientRules } from "../auth/acl/client_rules.ts";
import type { Nanoseconds } from "../platform/clock.ts";
import type {
  LatestStore,
  Provider,
  PublishEntry,
  PublishRow,
  StorageFailure,
} from "../storage/contract.ts";
import {
  type Headers,
  type Message,
  NO_HEADERS,
  NO_PROPERTIES,
  type Offset,
  ownedMessage,
  type PublishProperties,
  type QoS,
  recordSize,
  utf8Length,
} from "../storage/record.ts";
import type { Broadcast } from "./broadcast.ts";
import type { Context } from "./context.ts";
import { type Copies, type Copying, NO_COPIES } from "./copies.ts";
import { publishedHeaders, RESERVED_PREFIX } from "./delivery.ts";
import { LiveOrder } from "./live_order.ts";
import type { BroadcastLog } from "./log.ts";
import {
  BroadcastPublication,
  ChannelPublication,
  copyRow,
  GroupedPublication,
  reportRecord,
} from "./publications.ts";
import { Reason, type Refusal, refusalName } from "./reason.ts";
import type { Channel, Route, Routes } from "./routes.ts";
import type { ShareGroup } from "./share/group.ts";
import type { Shares } from "./share/shares.ts";

/** Of a topic that is what it should be: the client may not write there (02b 7.5.3). */
export const NO_GRANT: Refusal = {
  code: Reason.NotAuthorized,
  reason: "no grant to publish to this topic",
};

const NO_GROUPS: readonly ShareGroup[] = [];

/** A publish as a front door decoded it, or as the broker itself makes one (a Will). */
export interface PublishRequest {
  readonly topic: string;
  /** May be a view of a read buffer; whoever keeps it past the turn of the answer copies it. */
  readonly payload: Uint8Array;
  readonly qos: QoS;
  readonly retain: boolean;
  /** `NO_PROPERTIES` itself when none were sent. User Properties in order, repeats kept. */
  readonly properties: PublishProperties & { readonly userProperties?: Headers };
}

/** Who is answered once a publish is stored or refused. One object for many publishes. */
export interface Answerer {
  /** `token` is the one given with the publish. Called once for each, maybe before `publish` returns. */
  answered(token: number, refusal: Refusal | undefined): void;
}

/** An answer nobody waits for: QoS 0. */
export const NOBODY_WAITS: Answerer = { answered: () => {} };

/** Where a publish is kept, by kind of topic. */
export interface Destinations {
  readonly routes: Routes;
  readonly broadcast: Broadcast;
  readonly log: BroadcastLog;
  readonly shares: Shares;
  readonly retained: LatestStore;
  /** The provider that keeps a store. */
  providerOf(store: { readonly channel: string }): Provider;
}

/**
 * The one pipeline of a publish (DESIGN section 3): admit, route, store, acknowledge, deliver. Nothing
 * is answered before it is stored, and nobody else's socket is on the way to an answer.
 */
export class Publisher {
  /** The provider that stopped accepting at the last publish; a door clears it and stops reading. */
  saturated: Provider | undefined;
  /** Subscribers that broadcasts had since a door last set it to 0, which looks at its clock then. */
  reached = 0;
  /** Whoever takes copies of what is published; where nobody does, that is all it costs (P2). */
  readonly copying: Copying[] = [];
  readonly liveOrder = new LiveOrder();
  readonly #utf8 = new TextDecoder("utf-8", { fatal: true });

  constructor(private readonly context: Context, readonly destinations: Destinations) {}

  /** Refusals that depend on the packet alone; the same for every QoS. */
  admit(request: PublishRequest): Refusal | undefined {
    const { userProperties } = request.properties;
    if (userProperties !== undefined) {
      const refusal = this.#headersRefusal(userProperties);
      if (refusal !== undefined) return refusal;
    }
    if (request.properties.payloadFormat === 1) {
      try {
        this.#utf8.decode(request.payload);
      } catch {
        return {
          code: Reason.PayloadFormatInvalid,
          reason: "the payload is not the UTF-8 its Payload Format Indicator says",
        };
      }
    }
    return undefined;
  }

  #headersRefusal(headers: Headers): Refusal | undefined {
    const { maxHeaderCount, maxHeaderBytes } = this.context.limits;
    if (headers.length > maxHeaderCount) {
      return {
        code: Reason.QuotaExceeded,
        reason: `more User Properties than limits.max_header_count (${maxHeaderCount})`,
      };
    }
    let bytes = 0;
    for (const [name, value] of headers) bytes += utf8Length(name) + utf8Length(value);
    if (bytes <= maxHeaderBytes) return undefined;
    return {
      code: Reason.QuotaExceeded,
      reason: `User Properties larger than limits.max_header_bytes (${maxHeaderBytes})`,
    };
  }

  /** The message of a channel record: every reserved name out, the id lifted or made (D3.1). */
  channelMessage(request: PublishRequest, clientId: string, retain: boolean): Message {
    const { headers, messageId } = publishedHeaders(request.properties.userProperties);
    return this.#message(
      request,
      clientId,
      retain,
      headers,
      messageId ?? this.context.ids.messageId(),
    );
  }

  /** The message of a broadcast: forwarded as it arrived, less reserved names but its id (D3.5). */
  broadcastMessage(request: PublishRequest, clientId: string): Message {
    const { userProperties } = request.properties;
    if (userProperties === undefined) {
      return this.#message(request, clientId, request.retain, NO_HEADERS, "");
    }
    const { messageId } = publishedHeaders(userProperties);
    const headers = userProperties.filter(([name]) =>
      !name.startsWith(RESERVED_PREFIX) || (name === "saguin-id" && messageId !== undefined)
    );
    return this.#message(request, clientId, request.retain, headers, messageId ?? "");
  }

  #message(
    request: PublishRequest,
    clientId: string,
    retain: boolean,
    headers: Headers,
    messageId: string,
  ): Message {
    return {
      messageId,
      topic: request.topic,
      timestamp: this.#now(),
      headers,
      properties: request.properties === NO_PROPERTIES
        ? NO_PROPERTIES
        : storedProperties(request.properties),
      payload: request.payload,
      retain,
      bridge: "",
      clientId,
      qos: request.qos,
      groupCopy: false,
      onlyFor: "",
    };
  }

  /** One reading of the clock a millisecond: a batch shares its receipt time. */
  #now(): Nanoseconds {
    return this.context.clock.wall();
  }

  /**
   * Stores and delivers a publish at QoS 0 or 1, or an in-process one at any QoS (D5.11). `rules`: what
   * an ACL file lets the publisher do; undefined asks nothing. `copies`: those that come with it, where
   * it crosses over from AMQP (07 B4).
   */
  publish(
    request: PublishRequest,
    clientId: string,
    answerer: Answerer,
    token: number,
    rules?: ClientRules,
    copies?: Copies,
  ): void {
    const route = this.destinations.routes.route(request.topic);
    const refusal = route.kind === "refused"
      ? route.refusal
      : route.kind === "control"
      ? { code: Reason.TopicNameInvalid, reason: "a control topic takes requests of clients only" }
      : rules !== undefined && !mayPublish(rules, request, route)
      ? NO_GRANT
      : this.admit(request);
    if (refusal !== undefined) {
      copies?.refused(false);
      return this.refuse(request, clientId, answerer, token, refusal);
    }
    if (route.kind === "channel") {
      this.#toChannel(route.channel, request, clientId, answerer, token, copies);
    } else this.#toBroadcast(request, clientId, answerer, token, copies);
  }

  #toChannel(
    channel: Channel,
    request: PublishRequest,
    clientId: string,
    answerer: Answerer,
    token: number,
    given: Copies | undefined,
  ): void {
    if (channel.kind === "queue" && request.retain) channel.retainIgnored++;
    const retain = request.retain && channel.kind !== "queue";
    const message = this.channelMessage(request, clientId, retain);
    const groups = this.#groupsOver(channel, message.topic);
    const copies = this.copies(message, channel, given);
    const publication = groups.length === 0 && copies.length === 0
      ? new ChannelPublication(this, channel, message, answerer, token)
      : new GroupedPublication(this, channel, message, groups, answerer, token, copies);
    publication.submit();
  }

  /** Shared groups that get records of `channel`; none get jobs (I11). */
  #groupsOver(channel: Channel, topic: string): readonly ShareGroup[] {
    const { shares } = this.destinations;
    return shares.isEmpty || channel.kind === "queue" ? NO_GROUPS : shares.matching(topic);
  }

  #toBroadcast(
    request: PublishRequest,
    clientId: string,
    answerer: Answerer,
    token: number,
    given: Copies | undefined,
  ): void {
    const { broadcast, shares } = this.destinations;
    const subscribers = broadcast.subscribers(request.topic);
    this.reached += subscribers.length;
    const groups = shares.matching(request.topic);
    const unmatched = subscribers.length === 0 && groups.length === 0 && !request.retain;
    if (unmatched && given === undefined && this.copying.length === 0) {
      this.countUnmatched();
      return this.stored(undefined, answerer, token);
    }
    const message = this.broadcastMessage(request, clientId);
    const copies = this.copies(message, undefined, given);
    new BroadcastPublication(this, message, subscribers, groups, answerer, token, copies).submit();
  }

  /** The copies of a message: `given` where it came over from AMQP, and those of whoever takes some. */
  copies(message: Message, channel: Channel | undefined, given?: Copies): readonly Copies[] {
    if (this.copying.length === 0 && given === undefined) return NO_COPIES;
    const all = given === undefined ? [] : [given];
    // A job is for one worker and nobody else (B1).
    if (channel?.kind === "queue") return all;
    const origin = given === undefined ? "mqtt" : "amqp";
    for (const each of this.copying) {
      const copies = each.copies(message, origin);
      if (copies !== undefined) all.push(copies);
    }
    return all;
  }

  // ------------------------------------------------------------- what a release at PUBREL publishes

  /** Some shared group exists, so a release may owe it a copy. */
  get hasGroups(): boolean {
    return !this.destinations.shares.isEmpty;
  }

  /** A released broadcast is a record of the log already: it is owed and delivered (D5.13). */
  releasedBroadcast(offset: Offset, message: Message): void {
    const { broadcast, log, shares } = this.destinations;
    const subscribers = broadcast.subscribers(message.topic);
    const audience = broadcast.audience(message, subscribers);
    const groups = shares.matching(message.topic);
    this.countStored(undefined);
    if (subscribers.length === 0 && groups.length === 0) this.countUnmatched();
    const holding = groups.filter((group) => group.holds(message));
    log.recorded(offset, message, [...audience.debts, ...holding]);
    broadcast.deliver(message, audience.live);
    for (const group of groups) if (!group.holds(message)) group.offer(message, false);
  }

  /** A released channel record; its groups that hold messages have their copy (D5.10). */
  releasedRecord(channel: Channel, offset: Offset, message: Message): void {
    this.countStored(channel);
    reportRecord(channel, offset, message);
    for (const group of this.#groupsOver(channel, message.topic)) {
      if (!group.holds(message)) group.offer(ownedMessage(message), true);
    }
  }

  /** Writes the copy of a channel record that shared groups are owed (D9.5). @throws StorageFailure */
  async copyToGroups(message: Message): Promise<void> {
    const { log, shares } = this.destinations;
    const holding = shares.matching(message.topic).filter((group) => group.holds(message));
    if (holding.length === 0) return;
    const row = copyRow(log, message);
    const failure = await this.#write(row, log.store, (failure) => {
      if (failure === undefined) log.recorded(row.offset, row.message, holding);
      else if (failure.kind === "full") log.noRoom(holding);
    });
    if (failure?.kind === "failed") throw failure;
  }

  /** Stores a retained value on its own. @throws StorageFailure */
  async retain(message: Message): Promise<void> {
    const { retained } = this.destinations;
    const row: PublishRow = { kind: "retain", store: retained, message, offset: 0 };
    const failure = await this.#write(row, retained, () => {});
    if (failure !== undefined) throw failure;
  }

  /** The provider that keeps a row's store. */
  homeOf(store: { readonly channel: string }): Provider {
    const channel = this.destinations.routes.channel(store.channel);
    return channel?.provider ?? this.destinations.providerOf(store);
  }

  /** Hands an entry to its provider; a door hears of one that wants no more for now. */
  submit(provider: Provider, entry: PublishEntry): void {
    provider.submit(entry);
    if (!provider.accepting) this.saturated = provider;
  }

  /** `told` hears of it in the turn of the store's answer, in the order of storage. */
  #write(
    row: PublishRow & { readonly message: Message },
    store: { readonly channel: string },
    told: (failure: StorageFailure | undefined) => void,
  ): Promise<StorageFailure | undefined> {
    return new Promise((resolve) => {
      this.destinations.providerOf(store).submit({
        rows: [row],
        bytes: recordSize(row.message),
        settled: (failure) => {
          told(failure);
          resolve(failure);
        },
      });
    });
  }

  // -------------------------------------------------------------------------------------- answers

  refuse(
    request: { readonly topic: string },
    clientId: string,
    answerer: Answerer,
    token: number,
    refusal: Refusal,
  ): void {
    this.countRefusal(request.topic, clientId, refusal);
    answerer.answered(token, refusal);
  }

  countRefusal(topic: string, clientId: string, refusal: Refusal): void {
    // There is nothing to be seen in what can never be published (05 section 13).
    const system = topic === "$SYS" || topic.startsWith("$SYS/");
    if (system && refusal.code === Reason.NotAuthorized) return;
    this.context.counters.publishRefused.add(refusalName(refusal));
    this.context.log.warn("refused a publish", {
      client: clientId,
      topic,
      code: refusal.code,
      reason: refusal.reason,
    });
  }

  /** A publish into `channel`, or a broadcast, was accepted. */
  countStored(channel: Channel | undefined): void {
    if (channel === undefined) this.context.counters.broadcastPublished++;
    else channel.published++;
  }

  /** A broadcast was accepted that nobody is subscribed to. */
  countUnmatched(): void {
    this.context.counters.broadcastUnmatched++;
  }

  /** A publish that was stored: answer first, then deliver. */
  stored(channel: Channel | undefined, answerer: Answerer, token: number): void {
    this.countStored(channel);
    answerer.answered(token, undefined);
  }

  failed(
    topic: string,
    clientId: string,
    answerer: Answerer,
    token: number,
    failure: StorageFailure,
  ) {
    if (failure.kind === "failed") this.context.counters.storageErrors.add("publish");
    this.refuse({ topic }, clientId, answerer, token, storageRefusal(failure));
  }
}

/** Asked of a route that leads somewhere. */
export function mayPublish(
  rules: ClientRules,
  { topic, payload }: Pick<PublishRequest, "topic" | "payload">,
  route: Route,
): boolean {
  const channel = route.kind === "channel" ? route.channel.name : undefined;
  return rules.mayPublish(topic, channel, payload.byteLength === 0);
}

/** What a publisher is told of a storage failure (S6). */
export function storageRefusal(failure: StorageFailure): Refusal {
  return {
    code: failure.kind === "full" ? Reason.QuotaExceeded : Reason.ImplementationSpecificError,
    reason: failure.message,
  };
}

/** The five properties a record keeps, whatever else the packet carried. */
function storedProperties(properties: PublishProperties): PublishProperties {
  const { contentType, responseTopic, correlationData, payloadFormat, messageExpiry } = properties;
  const stored: { -readonly [K in keyof PublishProperties]: PublishProperties[K] } = {};
  if (contentType !== undefined) stored.contentType = contentType;
  if (responseTopic !== undefined) stored.responseTopic = responseTopic;
  if (correlationData !== undefined) stored.correlationData = correlationData.slice();
  if (payloadFormat !== undefined) stored.payloadFormat = payloadFormat;
  if (messageExpiry !== undefined) stored.messageExpiry = messageExpiry;
  return stored;
}
