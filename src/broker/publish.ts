import type { Nanoseconds } from "../platform/clock.ts";
import type {
  AppendStore,
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
  type PublishProperties,
  type QoS,
  recordSize,
  utf8Length,
} from "../storage/record.ts";
import type { Audience, Broadcast } from "./broadcast.ts";
import type { Context } from "./context.ts";
import { publishedHeaders, RESERVED_PREFIX } from "./delivery.ts";
import type { BroadcastLog, LogReader } from "./log.ts";
import { Reason, type Refusal } from "./reason.ts";
import type { Channel, Routes } from "./routes.ts";

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

  /** Stores and delivers a publish at QoS 0 or 1, or an in-process one at any QoS (D5.11). */
  publish(request: PublishRequest, clientId: string, answerer: Answerer, token: number): void {
    const route = this.destinations.routes.route(request.topic);
    const refusal = route.kind === "refused"
      ? route.refusal
      : route.kind === "control"
      ? { code: Reason.TopicNameInvalid, reason: "a control topic takes requests of clients only" }
      : this.admit(request);
    if (refusal !== undefined) return this.refuse(request, clientId, answerer, token, refusal);
    if (route.kind === "channel") {
      this.#toChannel(route.channel, request, clientId, answerer, token);
    } else this.#toBroadcast(request, clientId, answerer, token);
  }

  #toChannel(
    channel: Channel,
    request: PublishRequest,
    clientId: string,
    answerer: Answerer,
    token: number,
  ): void {
    if (channel.kind === "queue" && request.retain) this.context.counters.queueRetainIgnored++;
    const retain = request.retain && channel.kind !== "queue";
    const message = this.channelMessage(request, clientId, retain);
    const row = channelRow(channel, message);
    const publication = new ChannelPublication(this, channel, row, answerer, token);
    channel.provider.submit(publication);
    if (!channel.provider.accepting) this.saturated = channel.provider;
  }

  #toBroadcast(
    request: PublishRequest,
    clientId: string,
    answerer: Answerer,
    token: number,
  ): void {
    const { broadcast, log, retained } = this.destinations;
    const audience = broadcast.audience(request.topic);
    if (audience.subscribers.length === 0 && !request.retain) {
      this.context.counters.published++;
      answerer.answered(token, undefined);
      return;
    }
    const message = this.broadcastMessage(request, clientId);
    const readers = broadcast.owed(message, audience);
    const publication = new BroadcastPublication(
      this,
      message,
      audience,
      readers,
      answerer,
      token,
    );
    publication.submit(log.store, request.retain ? retained : undefined);
  }

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
    if (refusal.code === Reason.NotAuthorized && topic.startsWith("$SYS")) return;
    this.context.counters.publishRefused.add(refusal.code);
    this.context.log.warn("refused a publish", {
      client: clientId,
      topic,
      code: refusal.code,
      reason: refusal.reason,
    });
  }

  /** A publish that was stored: answer first, then deliver. */
  stored(answerer: Answerer, token: number): void {
    this.context.counters.published++;
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

/** What a publisher is told of a storage failure (S6). */
export function storageRefusal(failure: StorageFailure): Refusal {
  return {
    code: failure.kind === "full" ? Reason.QuotaExceeded : Reason.ImplementationSpecificError,
    reason: failure.message,
  };
}

/** The row that puts `message` into `channel`. */
export function channelRow(channel: Channel, message: Message): PublishRow {
  switch (channel.kind) {
    case "append":
      return { kind: "append", store: channel.store, message, offset: 0 };
    case "latest":
      return { kind: "set", store: channel.store, message, offset: 0 };
    case "queue":
      return { kind: "enqueue", store: channel.store, message, offset: 0 };
  }
}

/** One publish into one channel, from its submission to its delivery. */
class ChannelPublication implements PublishEntry {
  readonly rows: readonly [PublishRow & { readonly message: Message }];
  readonly bytes: number;

  constructor(
    private readonly publisher: Publisher,
    private readonly channel: Channel,
    row: PublishRow,
    private readonly answerer: Answerer,
    private readonly token: number,
  ) {
    this.rows = [row as PublishRow & { readonly message: Message }];
    this.bytes = recordSize(this.rows[0].message);
  }

  settled(failure: StorageFailure | undefined): void {
    const [row] = this.rows;
    if (failure !== undefined) {
      const { topic, clientId } = row.message;
      this.publisher.failed(topic, clientId, this.answerer, this.token, failure);
      return;
    }
    this.publisher.stored(this.answerer, this.token);
    if (row.offset > 0) this.channel.recorded(row.offset, row.message);
    else if (this.channel.kind === "latest") this.channel.deletedNothing(row.message);
  }
}

/**
 * One broadcast: a log record where durable sessions are owed it, a retained value where the flag is
 * set; one transaction when both are kept by one provider.
 */
class BroadcastPublication {
  #pending = 0;
  #failure: StorageFailure | undefined;
  #logRow: PublishRow | undefined;

  constructor(
    private readonly publisher: Publisher,
    private readonly message: Message,
    private readonly audience: Audience,
    private readonly readers: readonly LogReader[],
    private readonly answerer: Answerer,
    private readonly token: number,
  ) {}

  submit(log: AppendStore, retained: LatestStore | undefined): void {
    const { message, publisher } = this;
    const bytes = recordSize(message);
    const parts = new Map<Provider, PublishRow[]>();
    const add = (store: AppendStore | LatestStore, row: PublishRow) => {
      const provider = publisher.destinations.providerOf(store);
      const rows = parts.get(provider);
      if (rows === undefined) parts.set(provider, [row]);
      else rows.push(row);
    };
    if (retained !== undefined) {
      add(retained, { kind: "retain", store: retained, message, offset: 0 });
    }
    if (this.readers.length > 0) {
      this.#logRow = { kind: "append", store: log, message, offset: 0 };
      add(log, this.#logRow);
    }
    this.#pending = parts.size + 1;
    for (const [provider, rows] of parts) {
      provider.submit({ rows, bytes, settled: (failure) => this.#settled(failure) });
      if (!provider.accepting) publisher.saturated = provider;
    }
    this.#settled(undefined);
  }

  #settled(failure: StorageFailure | undefined): void {
    this.#failure ??= failure;
    if (--this.#pending > 0) return;
    const { publisher, message, audience, readers } = this;
    if (this.#failure !== undefined) {
      publisher.failed(
        message.topic,
        message.clientId,
        this.answerer,
        this.token,
        this.#failure,
      );
      return;
    }
    publisher.stored(this.answerer, this.token);
    const { log, broadcast } = publisher.destinations;
    if (this.#logRow !== undefined) log.recorded(this.#logRow.offset, message, readers);
    broadcast.deliver(message, audience);
  }
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
