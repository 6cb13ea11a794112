import type { ClientRules } from "../auth/acl/client_rules.ts";
import type { Claimed, Identification } from "../auth/identity.ts";
import type { Broker } from "../broker/broker.ts";
import { BAD_CREDENTIALS } from "../broker/connect_access.ts";
import type { Delivery, Ending } from "../broker/link.ts";
import { Reason, type ReasonCode, type Refusal } from "../broker/reason.ts";
import type { Session } from "../broker/session.ts";
import type { Departure } from "../broker/sessions.ts";
import { errorText } from "../platform/log.ts";
import { Answers } from "./answers.ts";
import { acceptance, type Granted, keepAliveSeconds } from "./connack.ts";
import { Decoder } from "./codec/decoder.ts";
import type { MalformedPacket } from "./codec/fault.ts";
import { admitConnect, type ConnectRules, identified } from "./connect.ts";
import type { ByteLink } from "../doors/byte_link.ts";
import { InputBuffer } from "./input_buffer.ts";
import { KeepAlive } from "./keep_alive.ts";
import { OutputQueue } from "./output_queue.ts";
import {
  type ConnectPacket,
  type DisconnectPacket,
  type InboundPacket,
  PacketType,
} from "./packet.ts";
import { Pacing } from "./pacing.ts";
import { type Requester, Requests } from "./requests.ts";
import { returnCode } from "./return_codes.ts";

/** What every connection of a door is given. */
export interface ConnectionContext {
  readonly broker: Broker;
  readonly rules: ConnectRules;
  readonly listener: string;
  readonly identify: Identify;
}

/** Says who a client of a door is; `gone` is asked before work is spent on one that has left. */
export type Identify = (claimed: Claimed, gone: () => boolean) => Promise<Identification>;

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

const TAKEN_OVER: Ending = {
  code: Reason.SessionTakenOver,
  reason: "the client id connected elsewhere",
};
const SILENT: Ending = {
  code: Reason.KeepAliveTimeout,
  reason: "no packet within 1.5 times the Keep Alive",
};
const NOT_ENDED: Ending = {
  code: Reason.ImplementationSpecificError,
  reason: "the session that this one replaces could not be ended; connect again",
};

/** What the last packet of a connection may take where `limits.write_timeout` is none. */
const LAST_WRITE_MS = 5_000;

/** How long the packets of one read are handled before other connections have their turn. */
const TURN_MS = 10;

/**
 * What may wait unread beside one message of the largest size. More than deliveries reach by themselves,
 * which pause at half of it (broker/session.ts): only answers that the client asks for and never reads do.
 */
const MOST_ANSWER_BYTES = 512 * 1024;

type State = "opening" | "connected" | "closing" | "closed";

/**
 * One MQTT connection: bytes to packets to the broker core, and back. Reading goes on while publishes
 * are being stored; what must keep its place behind them (SUBSCRIBE, UNSUBSCRIBE, control topics,
 * DISCONNECT) waits until they are answered.
 */
export class MqttConnection implements Requester {
  readonly listener: string;
  readonly address: string;
  level: 4 | 5 = 5;
  #state: State = "opening";
  #session: Session | undefined;
  readonly #broker: Broker;
  readonly #decoder: Decoder;
  readonly #output: OutputQueue;
  readonly #answers: Answers;
  readonly #keepAlive: KeepAlive;
  readonly #pacing: Pacing;
  /** Bytes that the peer leaves unread above which it is read no further. */
  readonly #mostUnread: number;
  /** A packet was decoded since the last read. */
  #packetSeen = false;
  /** Of a client that is connected. */
  #requests: Requests | undefined;
  #departure: Departure = { kind: "lost" };
  #departed: Promise<void> | undefined;
  /** The last packet is on its way. */
  #goodbye: Promise<void> | undefined;
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
    this.#keepAlive = new KeepAlive(clock, timers, () => this.end(SILENT));
    this.#mostUnread = limits.maxMessageSize + MOST_ANSWER_BYTES;
    this.#decoder = new Decoder({
      maximumPacketSize: limits.maxMessageSize,
      maximumConnectSize: limits.maxConnectSize,
    });
    this.#output = new OutputQueue(
      link,
      broker.context.counters,
      clock,
      timers,
      limits.writeTimeoutMs,
      () => this.#session?.drained(),
      (timedOut) => this.#writeFailed(timedOut),
    );
    this.#answers = new Answers((kind, packetId, refusal) => {
      this.#pacing.answered();
      this.#requests?.answer(kind, packetId, refusal);
    });
    this.#pacing = new Pacing(this.#answers, this.#keepAlive);
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
        this.#broker.context.counters.bytesReceived += count;
        const { clock } = this.#broker.context;
        const readAt = clock.monotonic();
        let turn = readAt;
        this.#packetSeen = false;
        let fault = this.#decoder.decode(space.subarray(0, count), onPacket);
        while (fault === undefined && this.#reading) {
          if (this.#pacing.mustWait) await this.#pacing.untilReady();
          // What is answered at once would otherwise go on for as long as packets are in hand.
          if (clock.monotonic() - turn >= TURN_MS) {
            await new Promise((resolve) => setTimeout(resolve, 0));
            turn = clock.monotonic();
          }
          if (!this.#decoder.paused) break;
          fault = this.#decoder.resume(onPacket);
        }
        if (this.#packetSeen) this.#keepAlive.packet(readAt);
        if (fault !== undefined) {
          await this.#fault(fault);
          break;
        }
        input.used(count, this.#decoder.holdsInput);
        if (this.#output.buffered > this.#mostUnread) {
          this.#pacing.busy = this.#untilTaken();
          await this.#pacing.untilReady();
        }
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

  /** Resolves when the peer has taken so much that what it sends may be answered again. */
  async #untilTaken(): Promise<void> {
    while (this.#reading && this.#output.buffered > this.#mostUnread) await this.#output.taken();
  }

  /** Connected, and answers are sent. */
  get open(): boolean {
    return this.#state === "connected";
  }

  get #reading(): boolean {
    return this.#state === "opening" || this.#state === "connected";
  }

  #onPacket(packet: InboundPacket): boolean {
    if (!this.#reading) return false;
    this.#packetSeen = true;
    if (this.#state === "opening") {
      this.#pacing.busy = this.#connect(packet as ConnectPacket);
      return false;
    }
    switch (packet.type) {
      case PacketType.Publish:
        return this.#requests!.publish(packet);
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
        return this.#requests!.release(packet);
      case PacketType.Pingreq:
        this.#output.packets.pingresp();
        this.#output.schedule();
        return true;
      case PacketType.Subscribe:
        this.#pacing.busy = this.#requests!.subscribe(packet);
        return false;
      case PacketType.Unsubscribe:
        this.#pacing.busy = this.#requests!.unsubscribe(packet);
        return false;
      case PacketType.Disconnect:
        this.#pacing.busy = this.#disconnect(packet);
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
    const admitted = admitConnect(packet, this.context.rules);
    if ("code" in admitted) return await this.#refuse(packet.clientId, packet.userName, admitted);
    const { assignedClientId } = admitted;
    const user = await this.#identify(packet);
    if (!this.#reading) return;
    if (typeof user !== "string") {
      return await this.#refuse(packet.clientId, packet.userName, user);
    }
    const request = this.#broker.permit(identified(admitted.request, user));
    if ("code" in request) return await this.#refuse(packet.clientId, user, request);
    const rules = request.access?.rules;
    const claim = await this.#broker.connect(request);
    if ("code" in claim) return await this.#refuse(request.clientId, request.user, claim);
    if ("passedOver" in claim) {
      // A newer CONNECT of the client id owns the session already (D6.7).
      this.#accept(packet, claim, assignedClientId, rules);
      return this.end(TAKEN_OVER);
    }
    if (!this.#reading) return claim.abandon();
    this.#accept(packet, claim, assignedClientId, rules);
    await this.#output.flushed();
    if (this.#output.failed || !this.#reading) return claim.abandon();
    this.#session = claim.session;
    this.#requests = new Requests(
      this.#broker,
      claim.session,
      this,
      this.#output,
      this.#answers,
      this.#pacing,
    );
    this.#state = "connected";
    const keepAlive = keepAliveSeconds(packet, this.#broker.context.limits);
    this.#keepAlive.start(keepAlive);
    const { listener, address } = this;
    const { cleanStart } = packet;
    claim.session.lastConnection = { listener, address, keepAlive, cleanStart };
    this.#broker.context.log.info("a client connected", {
      client: request.clientId,
      user: request.user === "" ? undefined : request.user,
      listener: this.listener,
      address: this.address,
      protocol: this.level === 5 ? "5" : "3.1.1",
      session_present: claim.sessionPresent,
      expiry: claim.expiry,
    });
    claim.complete(this);
    // Nothing the client sends is looked at before what the old session left is gone (D6.11).
    if (!await claim.session.ready) this.end(NOT_ENDED);
  }

  /** The user, or why there is none to serve. */
  async #identify({ userName, password }: ConnectPacket): Promise<string | Refusal> {
    const claimed = { proved: this.arrival.proved, user: userName, password };
    const identity = await this.context.identify(claimed, () => !this.#reading);
    if ("user" in identity) return identity.user;
    const { refused, cause } = identity;
    if (refused === "bad credentials") return { ...BAD_CREDENTIALS, cause };
    return { code: Reason.ServerBusy, reason: "the server is busy", cause };
  }

  #accept(
    packet: ConnectPacket,
    granted: Granted,
    assignedClientId: string | undefined,
    rules: ClientRules | undefined,
  ): void {
    const { limits } = this.#broker.context;
    this.#output.packets.connack(acceptance(packet, granted, assignedClientId, limits, rules));
  }

  async #refuse(clientId: string, user: string | undefined, refusal: Refusal): Promise<void> {
    this.arrival.ending();
    this.#broker.refusedConnection(clientId, user ?? "", refusal);
    this.#broker.context.log.warn("refused a connection", {
      client: clientId,
      user,
      listener: this.listener,
      address: this.address,
      code: refusal.code,
      reason: refusal.cause ?? refusal.reason,
    });
    this.#output.packets.connack({
      sessionPresent: false,
      reasonCode: this.level === 5 ? refusal.code : returnCode(refusal.code),
      reasonString: refusal.reason,
    });
    this.#state = "closing";
    // The reader may come to its end before this does.
    this.#goodbye = this.#output.flushed();
    await this.#goodbye;
  }

  // ---------------------------------------------------------------------------------------- ending

  async #disconnect(packet: DisconnectPacket): Promise<void> {
    this.arrival.ending();
    await this.#pacing.allAnswered();
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
    this.#countEnding(fault);
    this.#broker.context.log.warn("closed a connection on a malformed packet", {
      client: this.#session?.clientId,
      listener: this.listener,
      address: this.address,
      code: fault.code,
      reason: fault.reason,
    });
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
    this.#pacing.end();
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
    this.#keepAlive.stop();
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
    await this.#goodbye;
    this.#output.stop();
    this.link.close();
    this.#closed();
  }

  // ------------------------------------------------------------------------- what the core sees

  /** Nothing is sent on a connection that closes: what is at QoS 0 would count as delivered (D11.12). */
  get buffered(): number {
    return this.#state === "connected" ? this.#output.buffered : Infinity;
  }

  deliver(delivery: Delivery, packetId: number, dup: boolean): boolean {
    if (this.#state !== "connected") return true;
    if (!this.#output.packets.publish(delivery, packetId, dup)) return false;
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

  /** A publish that ended the connection has its own name among publishes, and its code's here. */
  #countEnding({ code }: { readonly code: ReasonCode }): void {
    const { clientId = "", user = "" } = this.#session ?? {};
    this.#broker.refusedConnection(clientId, user, { code });
  }

  end(ending: Ending): void {
    if (!this.#reading) return;
    this.#countEnding(ending);
    this.#state = "closing";
    this.arrival.ending();
    this.#broker.context.log.warn("ended a connection", {
      client: this.#session?.clientId,
      listener: this.listener,
      code: ending.code,
      reason: ending.reason,
    });
    this.#output.packets.disconnect(ending.code, { reasonString: ending.reason });
    this.#pacing.end();
    if (this.#session !== undefined) {
      const session = this.#session;
      this.#depart(session).catch((error) => this.#departureFailed(session, error));
    }
    this.#goodbye = this.#output.flushed().then(() => this.link.close());
    // Without a write deadline a peer that reads nothing would keep the connection for ever (D8.3).
    const { limits, timers } = this.#broker.context;
    if (limits.writeTimeoutMs !== undefined) return;
    const cut = timers.after(LAST_WRITE_MS, () => this.#abort());
    void this.#goodbye.then(() => cut.cancel());
  }
}
