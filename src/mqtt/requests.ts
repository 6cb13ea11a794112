import type { Exceeded, PublishRates } from "../auth/publish_rates.ts";
import type { Broker } from "../broker/broker.ts";
import { deniedPublish } from "../broker/denials.ts";
import { unreadProperty } from "../broker/delivery.ts";
import type { ClientLink } from "../broker/link.ts";
import { Reason, type Refusal } from "../broker/reason.ts";
import type { Session } from "../broker/session.ts";
import { SubscribeProtocolError } from "../broker/subscribe.ts";
import { errorText } from "../platform/log.ts";
import type { AnswerKind, Answers } from "./answers.ts";
import type { OutputQueue } from "./output_queue.ts";
import type {
  AcknowledgementPacket,
  PublishPacket,
  SubscribePacket,
  UnsubscribePacket,
} from "./packet.ts";
import type { Pacing } from "./pacing.ts";
import { TopicAliases } from "./topic_aliases.ts";

const OVER_RATE: Readonly<Record<Exceeded, Refusal>> = {
  publish_rate: {
    code: Reason.QuotaExceeded,
    reason: "more publishes in a second than this client's publish_rate",
  },
  publish_bytes: {
    code: Reason.QuotaExceeded,
    reason: "more bytes published in a second than this client's publish_bytes",
  },
};

/** Subscribers whose deliveries a publish may begin, and publishes, after which the clock is looked at. */
const REACHED_A_LOOK = 1_024;
const PUBLISHES_A_LOOK = 16;

/** The connection as its requests see it. */
export interface Requester extends ClientLink {
  /** Packets are still taken from it, and answers sent. */
  readonly open: boolean;
}

/**
 * What a connected client asks: PUBLISH, PUBREL, SUBSCRIBE, UNSUBSCRIBE, and the answers to them. What
 * must keep its place behind earlier publishes waits until they are answered.
 */
export class Requests {
  readonly #aliases = new TopicAliases();
  /** Where no ACL file says otherwise. */
  readonly #rates: PublishRates;
  #publishes = 0;

  constructor(
    private readonly broker: Broker,
    private readonly session: Session,
    private readonly link: Requester,
    private readonly output: OutputQueue,
    private readonly answers: Answers,
    private readonly pacing: Pacing,
  ) {
    this.#rates = broker.access.broadRates;
  }

  // -------------------------------------------------------------------------------------- publish

  /** False: what follows waits for it, or for a look at the clock. */
  publish(packet: PublishPacket): boolean {
    this.broker.context.counters.publishesReceived++;
    const request = this.#aliases.resolve(packet);
    if ("code" in request) {
      this.link.end(request);
      return false;
    }
    const { session, pacing } = this;
    const { qos, packetId } = packet;
    const bytes = request.payload.byteLength;
    const { publisher, budgets } = this.broker;
    const { access } = session;
    const rates = access?.rates ?? this.#rates;
    const over = budgets.take(session.clientId, rates, bytes + request.topic.length);
    if (over !== undefined) return this.#overRate(request, over);
    const route = publisher.destinations.routes.route(request.topic);
    const denied = access && deniedPublish(access.rules, request, route);
    if (denied !== undefined) {
      this.link.end(denied);
      return false;
    }
    if (route.kind === "control") {
      pacing.busy = this.#control(request);
      return false;
    }
    const token = this.answers.push(qos, packetId, bytes);
    if (qos === 2) this.broker.exactlyOnce.hold(session, packetId, request, this.answers, token);
    else publisher.publish(request, session.clientId, this.answers, token, access?.rules);
    pacing.saturated = publisher.saturated;
    publisher.saturated = undefined;
    return pacing.saturated === undefined && !pacing.full && !this.#mayBeLong();
  }

  #mayBeLong(): boolean {
    const { publisher } = this.broker;
    if (++this.#publishes < PUBLISHES_A_LOOK && publisher.reached < REACHED_A_LOOK) return false;
    this.#publishes = 0;
    publisher.reached = 0;
    return true;
  }

  /** Refused before its topic is looked at, and the connection stays (02a 13.5). */
  #overRate({ topic, qos, packetId }: PublishPacket, exceeded: Exceeded): boolean {
    const { counters, log } = this.broker.context;
    counters.publishRateExceeded++;
    log.debug("refused a publish over its client's rate", {
      client: this.session.clientId,
      topic,
      reason: OVER_RATE[exceeded].reason,
    });
    this.answers.answered(this.answers.push(qos, packetId, 0), OVER_RATE[exceeded]);
    return this.link.open;
  }

  /** At QoS 2 a request is carried out once, when its PUBLISH first comes. */
  async #control(request: PublishPacket): Promise<void> {
    await this.pacing.allAnswered();
    const { session, broker } = this;
    if (!this.link.open) return;
    const { qos, packetId } = request;
    const token = this.answers.push(qos, packetId, request.payload.byteLength);
    const applies = qos === 2 ? broker.exactlyOnce.apply(session, packetId) : true;
    const refusal = applies === true
      ? await broker.request(session, this.link, request)
      : applies || undefined;
    if (refusal !== undefined) {
      broker.publisher.countRefusal(request.topic, session.clientId, refusal);
      // A PUBREC that refuses ends the exchange (MQTT 5 4.3.3).
      session.exchanges?.applied.delete(packetId);
    }
    this.answers.answered(token, refusal);
  }

  /** Writes one answer, in order of arrival. */
  answer(kind: AnswerKind, packetId: number, refusal: Refusal | undefined): void {
    if (kind === 0 || !this.link.open) return;
    // A 3.1.1 acknowledgement cannot say no (02a section 7).
    if (refusal !== undefined && this.link.level === 4) return this.link.end(refusal);
    const { packets } = this.output;
    if (refusal === undefined) {
      if (kind === 1) packets.puback(packetId);
      else packets.pubrec(packetId);
    } else {
      const explanation = { reasonString: refusal.reason };
      if (kind === 1) packets.puback(packetId, refusal.code, explanation);
      else packets.pubrec(packetId, refusal.code, explanation);
    }
    this.output.schedule();
  }

  /** A PUBREL. False: what follows waits for it. */
  release({ packetId }: AcknowledgementPacket): boolean {
    const { pacing } = this;
    pacing.releases();
    void this.#release(packetId).finally(() => pacing.released());
    return !pacing.full;
  }

  /** Never rejects. */
  async #release(packetId: number): Promise<void> {
    const { session, link } = this;
    try {
      const outcome = await this.broker.exactlyOnce.release(session, packetId);
      // None for a PUBREL read on a connection whose client id another one has taken (D5.6).
      if (!link.open || session.link !== link) return;
      if ("refusal" in outcome) return link.end(outcome.refusal);
      this.output.packets.pubcomp(packetId, outcome.code);
      this.output.schedule();
    } catch (error) {
      this.broker.context.log.error("a release failed on an internal error", {
        client: session.clientId,
        error: errorText(error),
      });
      link.end({ code: Reason.UnspecifiedError, reason: "internal error" });
    }
  }

  // ---------------------------------------------------------------------- subscribe and unsubscribe

  async subscribe(packet: SubscribePacket): Promise<void> {
    await this.pacing.allAnswered();
    if (!this.link.open) return;
    try {
      await this.broker.subscribe(this.session, {
        filters: packet.subscriptions,
        identifier: packet.subscriptionIdentifier,
        userProperties: packet.userProperties,
      }, (codes, reason) => {
        if (!this.link.open) return;
        this.output.packets.suback(
          packet.packetId,
          codes,
          reason === undefined ? undefined : { reasonString: reason },
        );
        this.output.schedule();
      });
    } catch (error) {
      if (!(error instanceof SubscribeProtocolError)) throw error;
      this.link.end(error.refusal);
    }
  }

  async unsubscribe(packet: UnsubscribePacket): Promise<void> {
    await this.pacing.allAnswered();
    if (!this.link.open) return;
    const codes = await this.broker.unsubscribe(this.session, packet.filters);
    if (!this.link.open) return;
    const failed = codes.find((code) => code >= 0x80);
    if (failed !== undefined && this.link.level === 4) {
      return this.link.end({ code: failed, reason: "the session store could not forget a filter" });
    }
    const unread = unreadProperty(packet.userProperties, []);
    this.output.packets.unsuback(
      packet.packetId,
      codes,
      unread === undefined ? undefined : { userProperties: [["saguin-unread", unread]] },
    );
    this.output.schedule();
  }
}
