import type { ByteLink } from "../mqtt/doors/byte_link.ts";
import type { Clock } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import type { Timer } from "../platform/timers.ts";
import type { AlarmListener } from "./alarm.ts";
import { Channel, type ChannelLink } from "./channel.ts";
import type { PartialBytes } from "./content.ts";
import type { Declarations } from "./declarations.ts";
import { Heartbeats } from "./heartbeats.ts";
import { Handshake, type HandshakeEvents } from "./handshake.ts";
import { Intake } from "./intake.ts";
import type { Access } from "./login.ts";
import type { Publishing } from "./publishing.ts";
import { type Refusal, refuse, Reply, replyText } from "./reply.ts";
import { Outbound } from "./outbound.ts";
import type { TuneOffer } from "./tuning.ts";
import type { VirtualHost } from "./virtual_host.ts";
import { WireFault } from "./wire/fault.ts";
import {
  FRAME_END,
  FrameDecoder,
  type FrameSink,
  FrameType,
  WrongProtocol,
} from "./wire/frames.ts";
import {
  type Arguments,
  formOf,
  type Method,
  type MethodName,
  readMethod,
} from "./wire/methods.ts";
import { ReadBuffer } from "./read_buffer.ts";
import { Reader } from "./wire/reader.ts";

/** Unfinished contents of one connection: several of the largest at once, or many small ones. */
const LARGEST_CONTENTS_AT_ONCE = 4;
const LEAST_PARTIAL_BYTES = 16 * 1024 * 1024;

/** How long a peer has for its close-ok (A15, A16). */
const CLOSE_OK_MS = 5_000;

/** What a door gives to all of its connections. */
export interface ConnectionContext {
  readonly host: VirtualHost;
  readonly declarations: Declarations;
  readonly publishing: Publishing;
  readonly access: Access;
  readonly clock: Clock;
  readonly listener: string;
  readonly offer: TuneOffer;
  readonly handshakeTimeoutMs: number;
  readonly maxMessageBytes: number;
  readonly maxUnacked: number;
  readonly publishBatch: number;
  readonly outboundHighWater: number;
}

/** `closing` sent our close or is about to, `ended` is over (section 4.1). */
type State = "handshake" | "running" | "closing" | "ended";

/** What a pause waits for; the frame that met it is done first when it is over. */
interface Held {
  readonly channel: Channel;
  readonly method: Method;
}

/**
 * One AMQP connection: bytes to frames to channels, and back. What publishes wait for does not stop the
 * reading, up to a bound; what stops it is an alarm, a full provider, and the socket itself.
 */
export class AmqpConnection implements FrameSink, ChannelLink, AlarmListener, HandshakeEvents {
  readonly host: VirtualHost;
  readonly declarations: Declarations;
  readonly publishing: Publishing;
  readonly partial: PartialBytes;
  readonly maxMessageBytes: number;
  readonly maxUnacked: number;
  readonly address: string;
  #state: State = "handshake";
  readonly #handshake: Handshake;
  #handshakeTimer: Timer | undefined;
  #tuned: TuneOffer;
  readonly outbound: Outbound;
  readonly #decoder: FrameDecoder;
  readonly #reader = new Reader();
  readonly #channels = new Map<number, Channel>();
  readonly #intake: Intake;
  /** What runs before the next frame is decoded: a login, a close. */
  #busy: Promise<void> | undefined;
  #held: Held | undefined;
  /** The client was told that it is blocked. */
  #blocked = false;
  #closeTimer: Timer | undefined;
  #heartbeats: Heartbeats | undefined;
  #deaf = false;
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
      () => this.#roomMade(),
      () => this.cut(),
    );
    this.#decoder = new FrameDecoder(this);
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
    const buffer = new ReadBuffer();
    try {
      while (!this.#ended) {
        const { bytes } = buffer;
        const count = await this.link.read(bytes);
        if (count === null || this.#ended) break;
        this.#heartbeats?.heard();
        if (this.#deaf) {
          if (endsWithCloseOk(bytes, count)) this.#end();
          continue;
        }
        this.#decode(() => this.#decoder.decode(bytes.subarray(0, count)));
        while (this.#decoder.paused && !this.#ended) {
          await this.#untilReady();
          if (!this.#ended) this.#decode(() => this.#resumeDecoding());
        }
        await this.#untilRoom();
        buffer.used(count);
      }
    } catch (error) {
      this.internalError(error);
    }
    this.#finish();
  }

  get #ended(): boolean {
    return this.#state === "ended";
  }

  #decode(run: () => void): void {
    try {
      run();
    } catch (error) {
      // Frames cannot be told apart any more: what still comes is not looked at.
      this.#deaf = true;
      if (error instanceof WireFault) this.raise(refuse(error.code, error.detail), undefined);
      else if (error instanceof WrongProtocol) this.#wrongProtocol();
      else throw error;
    }
  }

  #resumeDecoding(): void {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined && this.#running) held.channel.method(held.method);
    this.#decoder.resume();
  }

  /** Waits for what the frame that paused waits for. */
  async #untilReady(): Promise<void> {
    while (!this.#ended) {
      if (this.#busy !== undefined) {
        await this.#busy;
        this.#busy = undefined;
      } else if (this.#held !== undefined && this.host.alarm.reason !== undefined) {
        await this.#paused();
      } else return;
    }
  }

  /** Waits while as much waits for the stores as may. */
  async #untilRoom(): Promise<void> {
    const { provider } = this.host;
    const intake = this.#intake;
    while (!this.#ended) {
      if (this.publishing.saturated && !intake.idle) {
        this.publishing.saturated = false;
        if (!provider.accepting) {
          provider.onceAccepting(() => intake.wake());
          await this.#paused();
        }
      } else if (intake.full) await this.#paused();
      else return;
    }
  }

  /** Not read until it is woken: the peer's silence says nothing meanwhile. */
  async #paused(): Promise<void> {
    this.#heartbeats?.pause();
    await this.#intake.paused();
    this.#heartbeats?.heard();
  }

  waits(publishes: number, bytes: number): void {
    this.#intake.waits(publishes, bytes);
  }

  // --------------------------------------------------------------------------------------- frame sink

  greeted(): boolean {
    this.#handshake.greet();
    return true;
  }

  #wrongProtocol(): void {
    this.#log("refused a peer that does not speak AMQP 0-9-1", "info");
    this.outbound.frames.protocolHeader();
    this.#end();
  }

  frame(type: number, channel: number, bytes: Uint8Array, start: number, end: number): boolean {
    const reader = this.#reader;
    reader.begin(bytes, start, end);
    if (this.#state === "closing") {
      if (type === FrameType.Method && channel === 0) this.#whileClosing(reader);
      return !this.#ended;
    }
    if (this.#ended) return false;
    try {
      this.#frame(type, channel, reader);
    } catch (error) {
      if (!(error instanceof WireFault)) throw error;
      this.raise(refuse(error.code, error.detail), undefined);
    }
    return this.#busy === undefined && this.#held === undefined && this.#running;
  }

  #frame(type: number, channel: number, reader: Reader): void {
    if (type === FrameType.Method) {
      const method = readMethod(reader);
      if (channel === 0) this.#onConnectionMethod(method);
      else this.#onChannelMethod(channel, method);
    } else if (type === FrameType.Heartbeat) {
      if (channel !== 0) this.#invalid(`a heartbeat on channel ${channel}`);
      if (reader.at !== reader.end) {
        throw new WireFault(Reply.FrameError, "a heartbeat with a payload");
      }
    } else {
      if (this.#state !== "running") this.#handshake.outOfOrder("content");
      if (channel === 0) throw new WireFault(Reply.UnexpectedFrame, "content on channel 0");
      const to = this.#channel(channel, "content");
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

  #channel(number: number, what: string): Channel {
    const channel = this.#channels.get(number);
    if (channel === undefined) {
      throw new WireFault(Reply.ChannelError, `${what} on channel ${number}, which is not open`);
    }
    return channel;
  }

  #onChannelMethod(number: number, method: Method): void {
    if (method.method.startsWith("connection.")) {
      this.#invalid(`${method.method} on channel ${number}`);
    }
    if (this.#state !== "running") this.#handshake.outOfOrder(method.method);
    if (method.method === "channel.open") {
      if (!this.#channels.has(number)) return this.#openChannel(number);
      throw new WireFault(Reply.ChannelError, `channel ${number} is open already`);
    }
    const channel = this.#channel(number, method.method);
    if (method.method === "basic.publish" && this.host.alarm.reason !== undefined) {
      // Read up to here and no further until publishes are taken again (A17).
      this.#held = { channel, method };
    } else channel.method(method);
  }

  #openChannel(number: number): void {
    if (number > this.#tuned.channelMax) {
      throw new WireFault(
        Reply.NotAllowed,
        `channel ${number} is above the channel_max of ${this.#tuned.channelMax}`,
      );
    }
    const channel = new Channel(number, this);
    this.#channels.set(number, channel);
    this.host.counters.channels++;
    channel.write("channel.open-ok", {});
  }

  channelClosed(channel: Channel): void {
    if (this.#channels.get(channel.number) !== channel) return;
    this.#channels.delete(channel.number);
    this.host.counters.channels--;
  }

  // ---------------------------------------------------------------------------------------- channel 0

  #onConnectionMethod(method: Method): void {
    const { method: name } = method;
    if (name === "connection.close") {
      this.#busy = this.#closedByClient();
      return;
    }
    if (!name.startsWith("connection.")) {
      throw new WireFault(Reply.ChannelError, `${name} on channel 0`);
    }
    if (formOf(name).from === "server") this.#invalid(`${name} is not a method of clients`);
    if (name === "connection.update-secret") {
      return this.raise(refuse(Reply.NotImplemented, `${name} is not supported`), name);
    }
    if (this.#state === "handshake") this.#busy = this.#handshake.method(method);
    else throw new WireFault(Reply.ChannelError, `${name} on an open connection`);
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
    this.#decoder.maximumPayload = tuned.frameMax;
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
    this.host.alarm.add(this);
    if (this.host.alarm.reason !== undefined) this.alarmRaised(this.host.alarm.reason);
    this.#log("an AMQP client connected", "info");
  }

  get user(): string {
    return this.#handshake.user;
  }

  // -------------------------------------------------------------------------------------------- alarm

  alarmRaised(reason: string): void {
    const { connectionBlocked } = this.#handshake.capabilities;
    if (this.#blocked || !connectionBlocked || !this.#running) return;
    this.#blocked = true;
    this.write("connection.blocked", { reason });
  }

  alarmCleared(): void {
    if (this.#blocked && this.#running) this.write("connection.unblocked", {});
    this.#blocked = false;
    this.#intake.wake();
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
    if (this.#ended) return;
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
    if (this.#ended) return;
    this.write("connection.close-ok", {});
    this.#end();
  }

  /** Ends every channel and waits until what was read whole is done. */
  async #settleAll(): Promise<void> {
    const channels = [...this.#channels.values()];
    await Promise.all(channels.map((channel) => channel.finished()));
    this.#endChannels();
  }

  #endChannels(): void {
    for (const channel of this.#channels.values()) channel.end();
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
    this.host.alarm.remove(this);
    this.#held = undefined;
    this.#intake.wake();
    this.#closeTimer = this.host.timers.after(CLOSE_OK_MS, () => this.cut());
    await Promise.all([...this.#channels.values()].map((channel) => channel.finished()));
    if (this.#ended) return;
    for (const channel of this.#channels.values()) channel.flushConfirms();
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
    if (this.#ended) return;
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
    if (!this.#ended) this.#end();
    this.#handshakeTimer?.cancel();
    this.#closeTimer?.cancel();
    this.#heartbeats?.stop();
    this.host.alarm.remove(this);
    this.#endChannels();
    this.host.counters.channels -= this.#channels.size;
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

  #roomMade(): void {
    for (const channel of this.#channels.values()) channel.deliveries.wakeAll();
  }

  write<N extends MethodName>(name: N, args: Arguments<N>): void {
    this.outbound.frames.method(0, name, args);
    this.outbound.schedule();
  }
}

/** connection.close-ok as the last frame of what was read: the answer of a peer we cannot follow. */
const CLOSE_OK = Uint8Array.of(1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 51, FRAME_END);

function endsWithCloseOk(bytes: Uint8Array, count: number): boolean {
  if (count < CLOSE_OK.length) return false;
  return CLOSE_OK.every((byte, i) => bytes[count - CLOSE_OK.length + i] === byte);
}
