import type { AccessControl, ClientAccess } from "../auth/acl/access.ts";
import type { Copies, Copying, Origin } from "../broker/copies.ts";
import type { Publisher, PublishRequest } from "../broker/publish.ts";
import { type Message, NO_PROPERTIES, utf8Length } from "../storage/record.ts";
import { levels } from "../topics/filter.ts";
import type { Limits } from "../config/configuration.ts";
import type { SkipCause } from "./counters.ts";
import type { Exchange } from "./exchanges/exchange.ts";
import type { AmqpMessage } from "./message.ts";
import { Publication } from "./publication.ts";
import type { Elsewhere } from "./publishing.ts";
import type { AmqpQueue } from "./queues/queue.ts";
import { type Refusal, refuse, Reply } from "./reply.ts";
import { CROSSING_EXCHANGE, type VirtualHost } from "./virtual_host.ts";

/** A routing key is a short string (B5). */
const LONGEST_KEY_BYTES = 255;

/** Property flags and list of what comes from MQTT: delivery-mode 2 for QoS 1 and 2, else nothing (B2). */
const PERSISTENT = Uint8Array.of(0x10, 0x00, 0x02);
const TRANSIENT = Uint8Array.of(0x00, 0x00);

/** Logins whose permissions are kept at hand. */
const KNOWN_LOGINS = 1_024;

/** What the crossing needs of the broker. */
export interface CrossingSurroundings {
  readonly publisher: Publisher;
  readonly access: AccessControl;
  readonly limits: Limits;
}

/**
 * `amq.topic` and MQTT topics see each other's publishes (07 section 10): `/` in a topic is `.` in a key.
 * A message crosses once at most, since what comes over is never asked about again (B4).
 */
export class Crossing implements Copying, Elsewhere {
  readonly #topics: Exchange<AmqpQueue>;
  /** What came over and is not decided, by topic: copies are delivered in the order of publishing. */
  readonly #underWay = new Map<string, Crossed[]>();
  #logins = new Map<string, ClientAccess>();

  /** @param crosses false: only jobs are taken over (`broker.amqp.crossing`) */
  constructor(
    private readonly host: VirtualHost,
    private readonly surroundings: CrossingSurroundings,
    private readonly crosses: boolean,
  ) {
    this.#topics = host.exchanges.get(CROSSING_EXCHANGE)!;
  }

  // ------------------------------------------------------------------------------ from MQTT (B1, B2)

  copies(message: Message, origin: Origin): Copies | undefined {
    if (origin === "amqp" || !this.crosses || this.#topics.bindingCount === 0) return undefined;
    const { topic } = message;
    const { host } = this;
    if (topic.startsWith("$")) return this.#skipFromMqtt("reserved_topic");
    if (utf8Length(topic) > LONGEST_KEY_BYTES) return this.#skipFromMqtt("key_too_long");
    const routingKey = topic.replaceAll("/", ".");
    const queues = this.#topics.route(routingKey);
    if (queues.length === 0) return undefined;
    const persistent = message.qos > 0;
    const crossed = new Crossed(
      this,
      topic,
      new Publication(
        amqpMessage(routingKey, persistent ? PERSISTENT : TRANSIENT, message.payload),
        host.provider,
        () => {},
      ),
    );
    const { publication } = crossed;
    for (const queue of queues) {
      publication.enter(queue, host.nextSeq(), persistent, host.store);
    }
    const before = this.#underWay.get(topic);
    if (before === undefined) this.#underWay.set(topic, [crossed]);
    else before.push(crossed);
    return crossed;
  }

  #skipFromMqtt(cause: SkipCause): undefined {
    this.host.counters.skippedFromMqtt.add(cause);
    return undefined;
  }

  /** What was published first to a topic is delivered first. @internal */
  decided(topic: string): void {
    const underWay = this.#underWay.get(topic);
    while (underWay !== undefined && underWay.length > 0 && underWay[0].finish()) underWay.shift();
    if (underWay?.length === 0) this.#underWay.delete(topic);
  }

  // -------------------------------------------------------------------------------- to MQTT (B3, B5)

  cross(publication: Publication, persistent: boolean, user: string): boolean {
    if (!this.crosses) return false;
    const { message } = publication;
    const topic = this.#topicOf(message.routingKey);
    if (topic === undefined) return false;
    const { publisher } = this.surroundings;
    const { routes, broadcast, shares } = publisher.destinations;
    publication.takenElsewhere = routes.route(topic).kind === "channel" ||
      broadcast.subscribers(topic).length > 0 || shares.matching(topic).length > 0;
    this.#publish(message, topic, persistent ? 1 : 0, publication, user, publication);
    return true;
  }

  /** The topic of a key; undefined, and counted, when it is none. */
  #topicOf(routingKey: string): string | undefined {
    const { limits } = this.surroundings;
    const topic = routingKey.replaceAll(".", "/");
    let cause: SkipCause | undefined;
    if (topic.startsWith("$")) cause = "reserved_topic";
    else if (topic === "" || /[+#\0]/.test(topic)) cause = "no_topic";
    else if (utf8Length(topic) > limits.maxTopicLength || levels(topic) > limits.maxTopicLevels) {
      cause = "no_topic";
    }
    if (cause === undefined) return topic;
    this.host.counters.skippedToMqtt.add(cause);
    return undefined;
  }

  enqueue(publication: Publication, channel: string, user: string): Refusal | undefined {
    const { publisher } = this.surroundings;
    const filters = publisher.destinations.routes.placement(channel)!.filters;
    const [topic] = filters;
    if (filters.length > 1 || /[+#]/.test(topic)) {
      return refuse(
        Reply.AccessRefused,
        `queue channel '${channel}' takes jobs of more topics than one (${filters.join(", ")}); ` +
          `publish to one of them through ${CROSSING_EXCHANGE}`,
      );
    }
    publication.takenElsewhere = true;
    this.#publish(publication.message, topic, 1, publication, user, undefined);
    return undefined;
  }

  #publish(
    { content, propertyBytes }: AmqpMessage,
    topic: string,
    qos: 0 | 1,
    publication: Publication,
    user: string,
    copies: Copies | undefined,
  ): void {
    const payload = content.subarray(propertyBytes);
    const request: PublishRequest = {
      topic,
      payload,
      qos,
      retain: false,
      properties: NO_PROPERTIES,
    };
    const { publisher } = this.surroundings;
    publisher.publish(request, "", publication, 0, this.#rules(user), copies);
  }

  /** What the ACL file lets the login do; undefined where there is none. */
  #rules(user: string) {
    const { access } = this.surroundings;
    if (access.acl === undefined) return undefined;
    let login = this.#logins.get(user);
    if (login === undefined) {
      if (this.#logins.size >= KNOWN_LOGINS) this.#logins = new Map();
      this.#logins.set(user, login = access.client(user, ""));
    }
    return login.rules;
  }
}

/** One MQTT publish on its way into AMQP queues, in the order of its topic. */
class Crossed implements Copies {
  #outcome: "accepted" | "refused" | undefined;

  constructor(
    private readonly crossing: Crossing,
    private readonly topic: string,
    readonly publication: Publication,
  ) {}

  get provider() {
    return this.publication.provider;
  }
  get rows() {
    return this.publication.rows;
  }
  get bytes() {
    return this.publication.bytes;
  }

  accepted(): void {
    this.#outcome = "accepted";
    this.crossing.decided(this.topic);
  }

  refused(written: boolean): void {
    this.#outcome = "refused";
    this.publication.refused(written);
    this.crossing.decided(this.topic);
  }

  /** Carries out what was decided; false while nothing is. */
  finish(): boolean {
    if (this.#outcome === undefined) return false;
    if (this.#outcome === "accepted") this.publication.enqueue();
    else this.publication.withdraw();
    return true;
  }
}

function amqpMessage(
  routingKey: string,
  properties: Uint8Array,
  payload: Uint8Array,
): AmqpMessage {
  const content = new Uint8Array(properties.length + payload.length);
  content.set(properties);
  content.set(payload, properties.length);
  return { exchange: CROSSING_EXCHANGE, routingKey, content, propertyBytes: properties.length };
}
