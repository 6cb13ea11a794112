import type { ByteLink } from "../doors/byte_link.ts";
import { errorText } from "../platform/log.ts";
import type { Timer } from "../platform/timers.ts";
import { BlockedPublisher } from "./blocked_publisher.ts";
import type { Channel, ChannelLink } from "./channel.ts";
import { Channels } from "./channels.ts";
import type { PartialBytes } from "./content.ts";
import type { ConnectionContext } from "./connection_context.ts";
import type { Declarations } from "./declarations.ts";
import { Heartbeats } from "./heartbeats.ts";
import { Handshake, type HandshakeEvents } from "./handshake.ts";
import { Inbound, type Reading } from "./inbound.ts";
import { Intake } from "./intake.ts";
import type { Publishing } from "./publishing.ts";
import { type Refusal, refuse, Reply, replyText } from "./reply.ts";
import { Outbound } from "./outbound.ts";
import type { TuneOffer } from "./tuning.ts";
import type { VirtualHost } from "./virtual_host.ts";
import { WireFault } from "./wire/fault.ts";
import { FrameType } from "./wire/frames.ts";
import {
  type Arguments,
  formOf,
  type Method,
  type MethodName,
  readMethod,
} from "./wire/methods.ts";
import { Reader } from "./wire/reader.ts";

/** Unfinished contents of one connection: several of the largest at once, or many small ones. */
const LARGEST_CONTENTS_AT_ONCE = 4;
const LEAST_PARTIAL_BYTES = 16 * 1024 * 1024;

/** How long a peer has for its close-ok (A15, A16). */
const CLOSE_OK_MS = 5_000;

/** `closing` sent our close or is about to, `ended` is over (section 4.1). */
type State = "handshake" | "running" | "closing" | "ended";

/** What a pause waits for; the frame that met it is done first when it is over. */
interface Held {
  readonly channel: Channel;
  readonly method: Method;
  readonly bytes: number;
}

/**
 * One AMQP connection: whose frame is whose business, what keeps it from being read, and how it ends.
 * What publishes wait for does not stop the reading, up to a bound; what stops it is an alarm, a full
 * provider, a peer that does not read, and the socket itself.
 */
export class AmqpConnection implements Reading, ChannelLink, HandshakeEvents {
  readonly host: VirtualHost;
  readonly declarations: Declarations;
  readonly publishing: Publishing;
  readonly partial: PartialBytes;
  readonly consumers = { count: 0 };
  readonly maxMessageBytes: number;
  readonly maxUnacked: number;
  readonly address: string;
  #state: State = "handshake";
  readonly #handshake: Handshake;
  #handshakeTimer: Timer | undefined;
  #tuned: TuneOffer;
  readonly outbound: Outbound;
  readonly #inbound: Inbound;
  readonly #reader = new Reader();
  readonly #channels: Channels;
  readonly #intake: Intake;
  /** The method that an exception of the frame at hand names (A21). */
  #offender: MethodName | undefined;
  /** What runs before the next frame is decoded: a login, a close. */
  #busy: Promise<void> | undefined;
  #held: Held | undefined;
  readonly #blocked: BlockedPublisher;
  /** It is not read because it does not read. */
  #waitsForRoom = false;
  #closeTimer: Timer | undefined;
  #heartbeats: Heartbeats | undefined;
  #closeSent = false;
  /** It got as far as open-ok. */
  #opened = false;
  #closed!: () => void;
  /** Resolves when the connection is gone. */
  readonly closed = new Promise<void>((resolve) => this.#closed = resolve);

  constructor(
    private readonly context: ConnectionContext,
    private readonly link: ByteLink,
    arrival: { readonly address: string; readonly proved?: string },
  ) {
    const { host, clock, access, offer } = context;
    this.host = host;
    this.declarations = context.declarations;
    this.publishing = context.publishing;
    this.maxMessageBytes = context.maxMessageBytes;
    this.maxUnacked = context.maxUnacked;
    this.address = arrival.address;
    this.#tuned = offer;
    this.#intake = new Intake(context.publishBatch);
    const most = Math.max(LEAST_PARTIAL_BYTES, context.maxMessageBytes * LARGEST_CONTENTS_AT_ONCE);
    this.partial = { bytes: 0, most };
    this.outbound = new Outbound(
      link,
      clock,
      context.outboundHighWater,
      {
        room: () => this.#channels.wake(),
        // Nothing is read meanwhile: what the peer takes is the life it shows.
        taken: () => this.#waitsForRoom && this.#heartbeats?.heard(),
        failed: () => this.cut(),
      },
    );
    this.#inbound = new Inbound(link, this);
    this.#channels = new Channels(this);
    this.#blocked = new BlockedPublisher(
      host.alarm,
      (reason) => {
        if (!this.#running) return;
        if (reason === undefined) this.write("connection.unblocked", {});
        else this.write("connection.blocked", { reason });
      },
      () => this.#intake.wake(),
    );
    const { timers } = host;
    const { proved } = arrival;
    this.#handshake = new Handshake({ access, offer, vhost: host.name, proved, timers }, this);
    this.#handshakeTimer = timers.after(context.handshakeTimeoutMs, () => {
      this.#log("an AMQP client did not complete its handshake in time", "info");
      this.cut();
    });
    host.counters.connections++;
  }

  // ------------------------------------------------------------------------------------------ reading

  /** Serves the connection until it ends. Never rejects. */
  async run(): Promise<void> {
    try {
      await this.#inbound.run();
    } catch (error) {
      this.internalError(error);
    }
    this.#finish();
  }

  get ended(): boolean {
    return this.#state === "ended";
  }

  heard(): void {
    this.#heartbeats?.heard();
  }

  resting(): void {
    if (!this.#waitsForRoom) this.#heartbeats?.pause();
  }

  beforeNextFrame(): Promise<void> | undefined {
    if (this.#busy !== undefined) return this.#busy;
    const blocked = this.#held !== undefined && this.host.alarm.reason !== undefined;
    return blocked ? this.#intake.paused() : undefined;
  }

  goOn(): void {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined && this.#running) held.channel.method(held.method, held.bytes);
  }

  beforeNextRead(): Promise<void> | undefined {
    const room = this.outbound.untilRoom();
    this.#waitsForRoom = room !== undefined;
    return room ?? this.#intake.untilRoom(this.publishing, this.host.provider);
  }

  waits(steps: number, bytes: number): void {
    this.#intake.waits(steps, bytes);
  }

  // --------------------------------------------------------------------------------------- frame sink

  greeted(): boolean {
    this.#handshake.greet();
    return true;
  }

  wrongProtocol(): void {
    this.#log("refused a peer that does not speak AMQP 0-9-1", "info");
    this.outbound.frames.protocolHeader();
    this.#end();
  }

  frame(type: number, channel: number, bytes: Uint8Array, start: number, end: number): boolean {
    const reader = this.#reader;
    reader.begin(bytes, start, end);
    if (this.#state === "closing") {
      if (type === FrameType.Method && channel === 0) this.#whileClosing(reader);
      return !this.ended;
    }
    if (this.ended) return false;
    this.#offender = undefined;
    try {
      this.#frame(type, channel, reader);
    } catch (error) {
      if (!(error instanceof WireFault)) throw error;
      this.raise(refuse(error.code, error.detail), this.#offender);
    }
    return this.#busy === undefined && this.#held === undefined && this.#running;
  }

  undecodable({ code, detail }: WireFault): void {
    this.raise(refuse(code, detail), undefined);
  }

  closeOk(): void {
    this.#end();
  }

  #frame(type: number, channel: number, reader: Reader): void {
    if (type === FrameType.Method) {
      const bytes = reader.end - reader.at;
      const method = readMethod(reader);
      this.#offender = method.method;
      if (channel === 0) this.#onConnectionMethod(method);
      else this.#onChannelMethod(channel, method, bytes);
    } else if (type === FrameType.Heartbeat) {
      if (channel !== 0) this.#invalid(`a heartbeat on channel ${channel}`);
      if (reader.at !== reader.end) {
        throw new WireFault(Reply.FrameError, "a heartbeat with a payload");
      }
    } else {
      if (this.#state !== "running") this.#handshake.outOfOrder("content");
      if (channel === 0) throw new WireFault(Reply.UnexpectedFrame, "content on channel 0");
      const to = this.#channels.get(channel, "content");
      if (to.takesContent) this.#offender = "basic.publish";
      if (type === FrameType.Header) to.header(reader);
      else to.body(reader.bytes, reader.at, reader.end);
    }
  }

  get #running(): boolean {
    return this.#state !== "closing" && this.#state !== "ended";
  }

  #invalid(detail: string): never {
    throw new WireFault(Reply.CommandInvalid, detail);
  }

  #onChannelMethod(number: number, method: Method, bytes: number): void {
    if (method.method.startsWith("connection.")) {
      this.#invalid(`${method.method} on channel ${number}`);
    }
    if (this.#state !== "running") this.#handshake.outOfOrder(method.method);
    if (method.method === "channel.open") return this.#channels.open(number);
    const channel = this.#channels.get(number, method.method);
    if (method.method === "basic.publish" && this.host.alarm.reason !== undefined) {
      // Read up to here and no further until publishes are taken again (A17).
      this.#held = { channel, method, bytes };
    } else channel.method(method, bytes);
  }

  channelClosed(channel: Channel): void {
    this.#channels.closed(channel);
  }

  // ---------------------------------------------------------------------------------------- channel 0

  #onConnectionMethod(method: Method): void {
    const { method: name } = method;
    if (name === "connection.close") {
      return this.#isBusy(this.#closedByClient());
    }
    if (!name.startsWith("connection.")) {
      throw new WireFault(Reply.ChannelError, `${name} on channel 0`);
    }
    if (formOf(name).from === "server") this.#invalid(`${name} is not a method of clients`);
    if (name === "connection.update-secret") {
      return this.raise(refuse(Reply.NotImplemented, `${name} is not supported`), name);
    }
    if (this.#state === "handshake") this.#isBusy(this.#handshake.method(method));
    else throw new WireFault(Reply.ChannelError, `${name} on an open connection`);
  }

  /** No frame is decoded until `work` settled. */
  #isBusy(work: Promise<void> | undefined): void {
    this.#busy = work?.finally(() => this.#busy = undefined);
  }

  // ---------------------------------------------------------------------------------------- handshake

  get over(): boolean {
    return this.#state !== "handshake";
  }

  refusedLogin(user: string, why: string): void {
    const { listener } = this.context;
    this.host.log.warn("refused an AMQP login", { user, listener, address: this.address, why });
  }

  tuned(tuned: TuneOffer): void {
    this.#tuned = tuned;
    this.#channels.most = tuned.channelMax;
    this.#inbound.maximumPayload = tuned.frameMax;
    this.outbound.frames.frameMax = tuned.frameMax;
  }

  opened(): void {
    this.#handshakeTimer?.cancel();
    this.#handshakeTimer = undefined;
    this.#state = "running";
    this.#opened = true;
    const { heartbeat } = this.#tuned;
    if (heartbeat > 0) {
      this.#heartbeats = new Heartbeats(heartbeat, this.context.clock, this.host.timers, {
        lastWriteAt: () => this.outbound.lastWriteAt,
        send: () => {
          this.outbound.frames.heartbeat();
          this.outbound.schedule();
        },
        silent: () => {
          this.#log("dropped an AMQP connection that missed its heartbeats", "warn");
          this.cut();
        },
      });
    }
    this.#blocked.join(this.#handshake.capabilities.connectionBlocked);
    this.#log("an AMQP client connected", "info");
  }

  get user(): string {
    return this.#handshake.user;
  }

  // ------------------------------------------------------------------------------------------ closing

  /** What arrives once our close was sent: nothing but the end (A20, A21). */
  #whileClosing(reader: Reader): void {
    let method: Method;
    try {
      method = readMethod(reader);
    } catch (error) {
      if (!(error instanceof WireFault)) throw error;
      return;
    }
    if (method.method === "connection.close") {
      this.write("connection.close-ok", {});
      this.#end();
    } else if (method.method === "connection.close-ok") this.#end();
  }

  /** Commits what was published and settled, then answers (A15). */
  async #closedByClient(): Promise<void> {
    await this.#settleAll();
    if (this.ended) return;
    try {
      await this.host.everythingSettled();
    } catch (error) {
      // A close-ok would say that they are gone (T6).
      this.host.log.warn("closed an AMQP connection whose settled messages could not be stored", {
        user: this.user,
        error: errorText(error),
      });
      return this.cut();
    }
    await this.host.changed();
    if (this.ended) return;
    this.write("connection.close-ok", {});
    this.#end();
  }

  /** Ends every channel and waits until what was read whole is done. */
  async #settleAll(): Promise<void> {
    await this.#channels.finished();
    this.#endChannels();
  }

  #endChannels(): void {
    this.#channels.end();
    this.host.removeQueuesOf(this);
  }

  /**
   * An exception of the connection (A21): nothing more is read, what was published is settled and
   * confirmed, then connection.close leaves.
   */
  raise(refusal: Refusal, method: MethodName | undefined): void {
    if (!this.#running) return;
    const text = replyText(refusal);
    this.host.counters.refused.add(refusal.code);
    this.host.log.warn("closed an AMQP connection", {
      user: this.user,
      listener: this.context.listener,
      address: this.address,
      code: refusal.code,
      reason: text,
    });
    void this.#close(refusal, text, method);
  }

  async #close(refusal: Refusal, text: string, method: MethodName | undefined): Promise<void> {
    this.#state = "closing";
    this.#handshakeTimer?.cancel();
    this.#blocked.leave();
    this.#held = undefined;
    this.#intake.wake();
    this.#closeTimer = this.host.timers.after(CLOSE_OK_MS, () => this.cut());
    await this.#channels.finished();
    if (this.ended) return;
    this.#channels.flushConfirms();
    this.#endChannels();
    this.#closeSent = true;
    const { classId, methodId } = method === undefined
      ? { classId: 0, methodId: 0 }
      : formOf(method);
    this.write("connection.close", {
      replyCode: refusal.code,
      replyText: text,
      classId,
      methodId,
    });
  }

  internalError(error: unknown): void {
    this.host.log.error("an AMQP connection ended on an internal error", {
      user: this.user,
      listener: this.context.listener,
      error: error instanceof Error ? error.stack ?? error.message : String(error),
    });
    this.raise(refuse(Reply.InternalError, "internal error"), undefined);
  }

  /** The broker stops: the client is told, and has a moment to answer (A16). */
  stop(): void {
    if (this.#state === "running") {
      this.raise(refuse(Reply.ConnectionForced, "the broker is stopping"), undefined);
    } else if (this.#state !== "closing") this.cut();
  }

  /** Flushes what is written, then closes the socket. */
  #end(): void {
    if (this.ended) return;
    this.#state = "ended";
    this.#intake.wake();
    const deadline = this.host.timers.after(CLOSE_OK_MS, () => this.link.close());
    void this.outbound.flushed().then(() => {
      deadline.cancel();
      this.link.close();
    });
  }

  /** Closes at once, without a word. */
  cut(): void {
    this.#state = "ended";
    this.#intake.wake();
    this.outbound.stop();
    this.link.close();
  }

  /** The reading is over. */
  #finish(): void {
    if (!this.ended) this.#end();
    this.#handshakeTimer?.cancel();
    this.#closeTimer?.cancel();
    this.#heartbeats?.stop();
    this.#blocked.leave();
    this.#endChannels();
    this.#channels.clear();
    this.outbound.giveBackUnwritten();
    this.host.counters.connections--;
    if (this.#opened) this.#log("an AMQP client disconnected", "info");
    this.#closed();
  }

  #log(message: string, level: "info" | "warn"): void {
    this.host.log[level](message, {
      user: this.user,
      listener: this.context.listener,
      address: this.address,
      name: this.#handshake.name === "" ? undefined : this.#handshake.name,
    });
  }

  // ------------------------------------------------------------------------------- what channels need

  get cancelNotify(): boolean {
    return this.#handshake.capabilities.consumerCancelNotify;
  }

  get open(): boolean {
    return this.#state !== "ended" && !this.#closeSent;
  }

  get congested(): boolean {
    return this.#state !== "running" || this.outbound.congested;
  }

  write<N extends MethodName>(name: N, args: Arguments<N>): void {
    this.outbound.frames.method(0, name, args);
    this.outbound.schedule();
  }
}
