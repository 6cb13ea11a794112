import type { Broker } from "../broker/broker.ts";
import { unreadProperty } from "../broker/delivery.ts";
import type { ClientLink, Delivery, Ending } from "../broker/link.ts";
import { Reason, type ReasonCode, type Refusal } from "../broker/reason.ts";
import type { Session } from "../broker/session.ts";
import type { Departure, PassedOver } from "../broker/sessions.ts";
import { SubscribeProtocolError } from "../broker/subscribe.ts";
import { errorText } from "../platform/log.ts";
import type { Timer } from "../platform/timers.ts";
import { type AnswerKind, Answers } from "./answers.ts";
import { Decoder } from "./codec/decoder.ts";
import type { MalformedPacket } from "./codec/fault.ts";
import { admitConnect, type ConnectRules } from "./connect.ts";
import type { ByteLink } from "./doors/byte_link.ts";
import { InputBuffer } from "./input_buffer.ts";
import { OutputQueue } from "./output_queue.ts";
import {
  type AcknowledgementPacket,
  type ConnectPacket,
  type DisconnectPacket,
  type InboundPacket,
  PacketType,
  type PublishPacket,
  type SubscribePacket,
  type UnsubscribePacket,
} from "./packet.ts";
import { returnCode } from "./return_codes.ts";

/** Publishes of one connection that may wait for their stores before it is read no further. */
const WAITING_PACKETS = 1_024;
const WAITING_BYTES = 1024 * 1024;

/** Largest Topic Alias a client may use (01 section 3). */
const TOPIC_ALIAS_MAXIMUM = 16;

/** What every connection of a door is given. */
export interface ConnectionContext {
  readonly broker: Broker;
  readonly rules: ConnectRules;
  readonly listener: string;
}

/** One connection as its door knows it, and what the door wants to hear of it. */
export interface Arrival {
  /** Peer address as logs print it. */
  readonly address: string;
  /** The user name that a certificate or a proxy proved before the CONNECT; undefined: nobody's. */
  readonly proved: string | undefined;
  /** The CONNECT has been read: `limits.connect_timeout` is over. */
  opened(): void;
  /**
   * The connection ends, by the broker's decision or the client's: its place is free before the last
   * packet is written (02a 13.3). Told as often as it is noticed.
   */
  ending(): void;
}

const TAKEN_OVER = {
  code: Reason.SessionTakenOver,
  reason: "the client id connected elsewhere",
} as const;

type State = "opening" | "connected" | "closing" | "closed";

/**
 * One MQTT connection: bytes to packets to the broker core, and back. Reading goes on while publishes
 * are being stored; what must keep its place behind them (SUBSCRIBE, UNSUBSCRIBE, control topics,
 * DISCONNECT) waits until they are answered.
 */
export class MqttConnection implements ClientLink {
  readonly listener: string;
  readonly address: string;
  level: 4 | 5 = 5;
  #state: State = "opening";
  #session: Session | undefined;
  readonly #broker: Broker;
  readonly #decoder: Decoder;
  readonly #output: OutputQueue;
  readonly #answers: Answers;
  readonly #aliases = new Map<number, string>();
  /** What runs before the next packet is decoded. */
  #busy: Promise<void> | undefined;
  #drainedWaiter: (() => void) | undefined;
  #drainedBelow = 0;
  #lastPacketAt: number;
  #keepAlive: Timer | undefined;
  #departure: Departure = { kind: "lost" };
  #departed: Promise<void> | undefined;
  #closed!: () => void;
  /** Resolves when the connection is gone and what its end changes is stored. */
  readonly closed = new Promise<void>((resolve) => this.#closed = resolve);

  constructor(
    private readonly context: ConnectionContext,
    private readonly link: ByteLink,
    private readonly arrival: Arrival,
  ) {
    const { broker } = context;
    const { clock, timers, limits } = broker.context;
    this.#broker = broker;
    this.listener = context.listener;
    this.address = arrival.address;
    this.#lastPacketAt = clock.monotonic();
    this.#decoder = new Decoder({
      maximumPacketSize: limits.maxMessageSize,
      maximumConnectSize: limits.maxConnectSize,
    });
    this.#output = new OutputQueue(
      link,
      clock,
      timers,
      limits.writeTimeoutMs,
      () => this.#session?.drained(),
      (timedOut) => this.#writeFailed(timedOut),
    );
    this.#answers = new Answers((kind, packetId, refusal) => this.#answer(kind, packetId, refusal));
  }

  // -------------------------------------------------------------------------------------- reading

  /** Serves the connection until it ends. Never rejects. */
  async run(): Promise<void> {
    const input = new InputBuffer();
    const onPacket = (packet: InboundPacket) => this.#onPacket(packet);
    try {
      while (this.#reading) {
        const space = input.space();
        const count = await this.link.read(space);
        if (count === null || !this.#reading) break;
        this.#lastPacketAt = this.#broker.context.clock.monotonic();
        let fault = this.#decoder.decode(space.subarray(0, count), onPacket);
        while (fault === undefined && this.#reading) {
          await this.#untilReady();
          if (!this.#decoder.paused) break;
          fault = this.#decoder.resume(onPacket);
        }
        if (fault !== undefined) {
          await this.#fault(fault);
          break;
        }
        input.used(count, this.#decoder.holdsInput);
      }
    } catch (error) {
      // A handler that throws costs its own client, nothing else.
      this.#broker.context.log.error("a connection ended on an internal error", {
        client: this.#session?.clientId,
        listener: this.listener,
        error: error instanceof Error ? error.stack ?? error.message : String(error),
      });
      this.end({ code: Reason.UnspecifiedError, reason: "internal error" });
    }
    await this.#finish();
  }

  get #reading(): boolean {
    return this.#state === "opening" || this.#state === "connected";
  }

  /** Waits for the packet handler at work, and for room to take more. */
  async #untilReady(): Promise<void> {
    for (;;) {
      if (this.#busy !== undefined) {
        await this.#busy;
        this.#busy = undefined;
        continue;
      }
      if (this.#full) {
        await this.#answeredBelow(WAITING_PACKETS / 2);
        continue;
      }
      const { publisher } = this.#broker;
      const saturated = publisher.saturated;
      if (saturated === undefined) return;
      publisher.saturated = undefined;
      if (saturated.accepting) continue;
      await new Promise<void>((resolve) => saturated.onceAccepting(resolve));
    }
  }

  get #full(): boolean {
    return this.#answers.outstanding >= WAITING_PACKETS ||
      this.#answers.outstandingBytes >= WAITING_BYTES;
  }

  /** Resolves when at most `count` publishes are unanswered. */
  #answeredBelow(count: number): Promise<void> {
    if (this.#answers.outstanding <= count) return Promise.resolve();
    this.#drainedBelow = count;
    return new Promise((resolve) => this.#drainedWaiter = resolve);
  }

  #onPacket(packet: InboundPacket): boolean {
    if (!this.#reading) return false;
    if (this.#state === "opening") {
      this.#busy = this.#connect(packet as ConnectPacket);
      return false;
    }
    switch (packet.type) {
      case PacketType.Publish:
        return this.#publish(packet);
      case PacketType.Puback:
        this.#session!.onPuback(packet.packetId);
        return true;
      case PacketType.Pubrec:
        this.#session!.onPubrec(packet.packetId, packet.reasonCode >= 0x80);
        return true;
      case PacketType.Pubcomp:
        this.#session!.onPubcomp(packet.packetId);
        return true;
      case PacketType.Pubrel:
        void this.#release(packet);
        return true;
      case PacketType.Pingreq:
        this.#output.packets.pingresp();
        this.#output.schedule();
        return true;
      case PacketType.Subscribe:
        this.#busy = this.#subscribe(packet);
        return false;
      case PacketType.Unsubscribe:
        this.#busy = this.#unsubscribe(packet);
        return false;
      case PacketType.Disconnect:
        this.#busy = this.#disconnect(packet);
        return false;
      case PacketType.Auth:
        this.end({ code: Reason.ProtocolError, reason: "AUTH without an Authentication Method" });
        return false;
      case PacketType.Connect:
        this.end({ code: Reason.ProtocolError, reason: "a second CONNECT" });
        return false;
    }
  }

  // -------------------------------------------------------------------------------------- connect

  async #connect(packet: ConnectPacket): Promise<void> {
    this.arrival.opened();
    this.level = packet.level === 5 ? 5 : 4;
    const { packets } = this.#output;
    packets.level = this.level;
    packets.problemInformation = packet.requestProblemInformation !== 0;
    if (packet.maximumPacketSize !== undefined) {
      packets.maximumPacketSize = packet.maximumPacketSize;
    }
    const admitted = admitConnect(packet, this.context.rules, this.arrival.proved);
    if ("code" in admitted) return await this.#refuse(packet.clientId, admitted);
    const { request, assignedClientId } = admitted;
    const claim = await this.#broker.connect(request);
    if ("code" in claim) return await this.#refuse(request.clientId, claim);
    if ("passedOver" in claim) return await this.#passedOver(packet, claim, assignedClientId);
    if (!this.#reading) return claim.abandon();
    packets.connack({
      sessionPresent: claim.sessionPresent,
      reasonCode: Reason.Success,
      ...this.level === 5 ? this.#connackProperties(packet, claim, assignedClientId) : {},
    });
    await this.#output.flushed();
    if (this.#output.failed || !this.#reading) return claim.abandon();
    this.#session = claim.session;
    this.#state = "connected";
    this.#armKeepAlive(packet);
    this.#broker.context.log.info("a client connected", {
      client: request.clientId,
      listener: this.listener,
      address: this.address,
      protocol: this.level === 5 ? "5" : "3.1.1",
      session_present: claim.sessionPresent,
      expiry: claim.expiry,
    });
    claim.complete(this);
    // Nothing the client sends is looked at before what the old session left is gone (D6.11).
    if (!await claim.session.ready) {
      this.end({
        code: Reason.ImplementationSpecificError,
        reason: "the session that this one replaces could not be ended; connect again",
      });
    }
  }

  /** A newer CONNECT of the client id owns the session already (D6.7). */
  async #passedOver(
    packet: ConnectPacket,
    passed: PassedOver,
    assignedClientId: string | undefined,
  ): Promise<void> {
    this.#output.packets.connack({
      sessionPresent: passed.sessionPresent,
      reasonCode: Reason.Success,
      ...this.level === 5 ? this.#connackProperties(packet, passed, assignedClientId) : {},
    });
    this.end(TAKEN_OVER);
    await this.#output.flushed();
  }

  #connackProperties(
    packet: ConnectPacket,
    claim: { readonly expiry: number },
    assignedClientId: string | undefined,
  ) {
    const { limits } = this.#broker.context;
    const ceiling = this.#keepAliveCeiling(packet);
    return {
      topicAliasMaximum: TOPIC_ALIAS_MAXIMUM,
      maximumPacketSize: limits.maxMessageSize,
      retainAvailable: 1 as const,
      ...claim.expiry === (packet.sessionExpiry ?? 0) ? {} : { sessionExpiry: claim.expiry },
      ...assignedClientId === undefined ? {} : { assignedClientId },
      ...ceiling === undefined ? {} : { serverKeepAlive: ceiling },
    };
  }

  /** Seconds, when `limits.max_keepalive` shortens what the client asked for (02a 13.4). */
  #keepAliveCeiling(packet: ConnectPacket): number | undefined {
    const { maxKeepaliveMs } = this.#broker.context.limits;
    if (maxKeepaliveMs === undefined || this.level === 4) return undefined;
    const ceiling = maxKeepaliveMs / 1_000;
    return packet.keepAlive === 0 || packet.keepAlive > ceiling ? ceiling : undefined;
  }

  async #refuse(clientId: string, refusal: Refusal): Promise<void> {
    this.arrival.ending();
    const { counters, log } = this.#broker.context;
    counters.connectionsRefused.add(refusal.reason);
    log.warn("refused a connection", {
      client: clientId,
      listener: this.listener,
      address: this.address,
      code: refusal.code,
      reason: refusal.reason,
    });
    this.#output.packets.connack({
      sessionPresent: false,
      reasonCode: this.level === 5 ? refusal.code : returnCode(refusal.code),
      reasonString: refusal.reason,
    });
    this.#state = "closing";
    await this.#output.flushed();
    this.link.close();
  }

  /** One and a half times the Keep Alive without a packet ends the connection (3.1.2.10). */
  #armKeepAlive(packet: ConnectPacket): void {
    const seconds = this.#keepAliveCeiling(packet) ?? packet.keepAlive;
    if (seconds === 0) return;
    const { clock, timers } = this.#broker.context;
    const allowed = seconds * 1_500;
    const check = () => {
      const silent = clock.monotonic() - this.#lastPacketAt;
      if (silent >= allowed) {
        this.end({
          code: Reason.KeepAliveTimeout,
          reason: "no packet within 1.5 times the Keep Alive",
        });
      } else this.#keepAlive = timers.after(allowed - silent, check);
    };
    this.#keepAlive = timers.after(allowed, check);
  }

  // -------------------------------------------------------------------------------------- publish

  /** False: what follows waits for it. */
  #publish(packet: PublishPacket): boolean {
    const request = this.#withTopic(packet);
    if (request === undefined) return false;
    const session = this.#session!;
    const { qos } = packet;
    const { publisher } = this.#broker;
    const route = publisher.destinations.routes.route(request.topic);
    if (route.kind === "control") {
      this.#busy = this.#control(request);
      return false;
    }
    const bytes = request.payload.byteLength;
    const token = this.#answers.push(qos, packet.packetId, bytes);
    if (qos === 2) {
      this.#broker.exactlyOnce.hold(session, packet.packetId, request, this.#answers, token);
    } else publisher.publish(request, session.clientId, this.#answers, token);
    return !this.#full && publisher.saturated === undefined;
  }

  /** The packet with its Topic Alias resolved; undefined when that ended the connection. */
  #withTopic(packet: PublishPacket): PublishPacket | undefined {
    const { topicAlias } = packet.properties;
    if (topicAlias === undefined) return packet;
    if (topicAlias > TOPIC_ALIAS_MAXIMUM) {
      this.end({
        code: Reason.TopicAliasInvalid,
        reason: `a Topic Alias above the Topic Alias Maximum of ${TOPIC_ALIAS_MAXIMUM}`,
      });
      return undefined;
    }
    if (packet.topic !== "") {
      this.#aliases.set(topicAlias, packet.topic);
      return packet;
    }
    const topic = this.#aliases.get(topicAlias);
    if (topic === undefined) {
      this.end({
        code: Reason.ProtocolError,
        reason: "a Topic Alias that was never given a topic on this connection",
      });
      return undefined;
    }
    return { ...packet, topic };
  }

  async #control(request: PublishPacket): Promise<void> {
    await this.#answeredBelow(0);
    const session = this.#session!;
    if (!this.#reading) return;
    const { qos, packetId } = request;
    if (qos === 2) {
      this.end({
        code: Reason.QoSNotSupported,
        reason: "a request to $saguin/ is published at QoS 0 or 1",
      });
      return;
    }
    const token = this.#answers.push(qos, packetId, request.payload.byteLength);
    const refusal = await this.#broker.request(session, this, request);
    this.#answers.answered(token, refusal);
  }

  /** Writes one answer, in order of arrival. */
  #answer(kind: AnswerKind, packetId: number, refusal: Refusal | undefined): void {
    const waiter = this.#drainedWaiter;
    if (waiter !== undefined && this.#answers.outstanding <= this.#drainedBelow) {
      this.#drainedWaiter = undefined;
      waiter();
    }
    if (kind === 0 || this.#state !== "connected") return;
    if (refusal !== undefined && this.level === 4) {
      this.end({ code: refusal.code, reason: refusal.reason });
      return;
    }
    const { packets } = this.#output;
    if (refusal === undefined) {
      if (kind === 1) packets.puback(packetId);
      else packets.pubrec(packetId);
    } else {
      const explanation = { reasonString: refusal.reason };
      if (kind === 1) packets.puback(packetId, refusal.code, explanation);
      else packets.pubrec(packetId, refusal.code, explanation);
    }
    this.#output.schedule();
  }

  async #release(packet: AcknowledgementPacket): Promise<void> {
    const session = this.#session!;
    try {
      const outcome = await this.#broker.exactlyOnce.release(session, packet.packetId);
      // None for a PUBREL read on a connection whose client id another one has taken (D5.6).
      if (this.#state !== "connected" || session.link !== this) return;
      if ("refusal" in outcome) return this.end(outcome.refusal);
      this.#output.packets.pubcomp(packet.packetId, outcome.code);
      this.#output.schedule();
    } catch (error) {
      this.#broker.context.log.error("a release failed on an internal error", {
        client: session.clientId,
        error: errorText(error),
      });
      this.end({ code: Reason.UnspecifiedError, reason: "internal error" });
    }
  }

  // ---------------------------------------------------------------------- subscribe and unsubscribe

  async #subscribe(packet: SubscribePacket): Promise<void> {
    await this.#answeredBelow(0);
    if (!this.#reading) return;
    try {
      await this.#broker.subscribe(this.#session!, {
        filters: packet.subscriptions,
        identifier: packet.subscriptionIdentifier,
        userProperties: packet.userProperties,
      }, (codes, reason) => {
        if (this.#state !== "connected") return;
        this.#output.packets.suback(
          packet.packetId,
          codes,
          reason === undefined ? undefined : { reasonString: reason },
        );
        this.#output.schedule();
      });
    } catch (error) {
      if (!(error instanceof SubscribeProtocolError)) throw error;
      this.end(error.refusal);
    }
  }

  async #unsubscribe(packet: UnsubscribePacket): Promise<void> {
    await this.#answeredBelow(0);
    if (!this.#reading) return;
    const codes = await this.#broker.unsubscribe(this.#session!, packet.filters);
    if (this.#state !== "connected") return;
    const failed = codes.find((code) => code >= 0x80);
    if (failed !== undefined && this.level === 4) {
      return this.end({ code: failed, reason: "the session store could not forget a filter" });
    }
    const unread = unreadProperty(packet.userProperties, []);
    this.#output.packets.unsuback(
      packet.packetId,
      codes,
      unread === undefined ? undefined : { userProperties: [["saguin-unread", unread]] },
    );
    this.#output.schedule();
  }

  // ---------------------------------------------------------------------------------------- ending

  async #disconnect(packet: DisconnectPacket): Promise<void> {
    this.arrival.ending();
    await this.#answeredBelow(0);
    if (!this.#reading) return;
    const session = this.#session!;
    if (packet.sessionExpiry !== undefined && packet.sessionExpiry > 0 && !session.durable) {
      return this.end({
        code: Reason.ProtocolError,
        reason:
          "DISCONNECT gives a Session Expiry Interval to a session that had none (3.14.2.2.2)",
      });
    }
    this.#departure = {
      kind: "clean",
      expiry: packet.sessionExpiry,
      will: packet.reasonCode !== Reason.Success,
    };
    await this.#output.flushed();
    this.#state = "closing";
  }

  async #fault(fault: MalformedPacket): Promise<void> {
    this.arrival.ending();
    const { log, counters } = this.#broker.context;
    log.warn("closed a connection on a malformed packet", {
      client: this.#session?.clientId,
      listener: this.listener,
      address: this.address,
      code: fault.code,
      reason: fault.reason,
    });
    if (fault.inConnect) counters.connectionsRefused.add("malformed packet");
    const { answer } = fault;
    const { packets } = this.#output;
    this.#state = "closing";
    if (answer?.packet === "connack") {
      packets.level = answer.level;
      packets.connack({
        sessionPresent: false,
        reasonCode: answer.code,
        reasonString: fault.reason,
      });
    } else if (answer?.packet === "disconnect") {
      packets.disconnect(answer.code, { reasonString: fault.reason });
    }
    await this.#output.flushed();
  }

  #writeFailed(timedOut: boolean): void {
    if (timedOut) {
      this.#broker.context.log.warn("disconnected a consumer that stopped reading", {
        client: this.#session?.clientId,
        deadline_ms: this.#broker.context.limits.writeTimeoutMs,
      });
    }
    this.#abort();
  }

  /** Closes at once: a connection that has sent no CONNECT, or lingers while the broker stops. */
  cut(): void {
    this.#abort();
  }

  /** Closes without a word. */
  #abort(): void {
    if (this.#state === "closed") return;
    this.#state = "closing";
    this.arrival.ending();
    this.#output.stop();
    this.link.close();
    this.#wakeReader();
  }

  #wakeReader(): void {
    const waiter = this.#drainedWaiter;
    this.#drainedWaiter = undefined;
    waiter?.();
  }

  /** The session hears once that its connection is gone; resolves when that is stored. */
  #depart(session: Session): Promise<void> {
    return this.#departed ??= this.#broker.disconnected(session, this, this.#departure);
  }

  #departureFailed(session: Session, error: unknown): void {
    this.#broker.context.log.error("the end of a connection failed on an internal error", {
      client: session.clientId,
      error: errorText(error),
    });
  }

  async #finish(): Promise<void> {
    this.#state = "closed";
    this.arrival.ending();
    this.#keepAlive?.cancel();
    const session = this.#session;
    if (session !== undefined) {
      try {
        await this.#depart(session);
      } catch (error) {
        this.#departureFailed(session, error);
      }
      this.#broker.context.log.info("a client disconnected", {
        client: session.clientId,
        listener: this.listener,
        how: this.#departure.kind,
      });
    }
    this.#output.stop();
    this.link.close();
    this.#closed();
  }

  // ------------------------------------------------------------------------- what the core sees

  get buffered(): number {
    return this.#output.buffered;
  }

  deliver(delivery: Delivery): boolean {
    if (this.#state !== "connected") return true;
    if (!this.#output.packets.publish(delivery)) return false;
    this.#output.schedule();
    return true;
  }

  takes(delivery: Delivery): boolean {
    const { packets } = this.#output;
    return packets.publishSize(delivery) <= packets.maximumPacketSize;
  }

  release(packetId: number, code: ReasonCode = Reason.Success): void {
    if (this.#state !== "connected") return;
    this.#output.packets.pubrel(packetId, code);
    this.#output.schedule();
  }

  end(ending: Ending): void {
    if (!this.#reading) return;
    this.#state = "closing";
    this.arrival.ending();
    this.#broker.context.log.warn("ended a connection", {
      client: this.#session?.clientId,
      listener: this.listener,
      code: ending.code,
      reason: ending.reason,
    });
    this.#output.packets.disconnect(ending.code, { reasonString: ending.reason });
    this.#wakeReader();
    if (this.#session !== undefined) {
      const session = this.#session;
      this.#depart(session).catch((error) => this.#departureFailed(session, error));
    }
    this.#output.flushed().then(() => this.link.close());
  }
}
