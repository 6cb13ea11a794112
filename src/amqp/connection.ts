import type { ByteLink } from "../mqtt/doors/byte_link.ts";
import type { Clock } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import type { Timer } from "../platform/timers.ts";
import { VERSION } from "../version.ts";
import type { AlarmListener } from "./alarm.ts";
import { Channel, type ChannelLink } from "./channel.ts";
import type { PartialBytes } from "./content.ts";
import type { Declarations } from "./declarations.ts";
import { Heartbeats } from "./heartbeats.ts";
import {
  type Access,
  type Capabilities,
  capabilitiesOf,
  clientName,
  credentialsOf,
  MECHANISM,
  NO_CAPABILITIES,
} from "./login.ts";
import type { Publishing } from "./publishing.ts";
import type { QueueItem } from "./queues/source.ts";
import { isRefusal, type Refusal, refuse, Reply, replyText } from "./reply.ts";
import { SocketWriter, type WriteEvents } from "./socket_writer.ts";
import { agree, serverProperties, type TuneOffer } from "./tuning.ts";
import type { VirtualHost } from "./virtual_host.ts";
import { WireFault } from "./wire/fault.ts";
import {
  FRAME_END,
  FrameDecoder,
  type FrameSink,
  FrameType,
  WrongProtocol,
} from "./wire/frames.ts";
import type { FrameWriter } from "./wire/frame_writer.ts";
import {
  type Arguments,
  formOf,
  type Method,
  type MethodName,
  type MethodOf,
  readMethod,
} from "./wire/methods.ts";
import { ReadBuffer } from "./read_buffer.ts";
import { Reader } from "./wire/reader.ts";
import { encodeText } from "./wire/text.ts";
import { Unwritten } from "./unwritten.ts";

/** Publishes of one connection that may wait for their stores before it is read no further. */
const WAITING_PUBLISHES_PER_BATCH = 4;
const WAITING_BYTES = 8 * 1024 * 1024;

/** Unfinished contents of one connection: several of the largest at once, or many small ones. */
const LARGEST_CONTENTS_AT_ONCE = 4;
const LEAST_PARTIAL_BYTES = 16 * 1024 * 1024;

/** How long a peer has for its close-ok (A15, A16). */
const CLOSE_OK_MS = 5_000;

/** How long a wrong password waits for its answer where the client cannot be told (A11). */
const WRONG_PASSWORD_MS = 1_000;

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

/** The handshake, then `running`; `closing` sent our close, `ended` is over (section 4.1). */
type State = "header" | "starting" | "tuning" | "opening" | "running" | "closing" | "ended";

/** What a pause waits for; the frame that met it is done first when it is over. */
interface Held {
  readonly channel: Channel;
  readonly method: Method;
}

/**
 * One AMQP connection: bytes to frames to channels, and back. What publishes wait for does not stop the
 * reading, up to a bound; what stops it is an alarm, a full provider, and the socket itself.
 */
export class AmqpConnection implements FrameSink, ChannelLink, AlarmListener, WriteEvents {
  readonly host: VirtualHost;
  readonly declarations: Declarations;
  readonly publishing: Publishing;
  readonly partial: PartialBytes;
  readonly maxMessageBytes: number;
  readonly maxUnacked: number;
  readonly address: string;
  user = "";
  #state: State = "header";
  #capabilities: Capabilities = NO_CAPABILITIES;
  #tuned: TuneOffer;
  #name = "";
  readonly #socket: SocketWriter;
  readonly #decoder: FrameDecoder;
  readonly #reader = new Reader();
  readonly #channels = new Map<number, Channel>();
  readonly #confirming: Channel[] = [];
  readonly #unwritten = new Unwritten();
  #waitingPublishes = 0;
  #waitingBytes = 0;
  /** What runs before the next frame is decoded: a login, a close. */
  #busy: Promise<void> | undefined;
  #held: Held | undefined;
  #resume: (() => void) | undefined;
  /** The client was told that it is blocked. */
  #blocked = false;
  #handshake: Timer | undefined;
  #closeTimer: Timer | undefined;
  #heartbeats: Heartbeats | undefined;
  #starved = false;
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
    private readonly arrival: { readonly address: string; readonly proved?: string },
  ) {
    const { host, clock } = context;
    this.host = host;
    this.declarations = context.declarations;
    this.publishing = context.publishing;
    this.maxMessageBytes = context.maxMessageBytes;
    this.maxUnacked = context.maxUnacked;
    this.address = arrival.address;
    this.#tuned = context.offer;
    const most = Math.max(LEAST_PARTIAL_BYTES, context.maxMessageBytes * LARGEST_CONTENTS_AT_ONCE);
    this.partial = { bytes: 0, most };
    this.#socket = new SocketWriter(link, clock, this);
    this.#decoder = new FrameDecoder(this);
    this.#handshake = host.timers.after(context.handshakeTimeoutMs, () => {
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
    while (!this.#ended) {
      if (this.publishing.saturated && this.#waitingPublishes > 0) {
        this.publishing.saturated = false;
        if (!provider.accepting) {
          provider.onceAccepting(() => this.#wake());
          await this.#paused();
        }
      } else if (this.#full) await this.#paused();
      else return;
    }
  }

  /** Not read until `#wake`: the peer's silence says nothing meanwhile. */
  async #paused(): Promise<void> {
    this.#heartbeats?.pause();
    await new Promise<void>((resolve) => this.#resume = resolve);
    this.#heartbeats?.heard();
  }

  get #full(): boolean {
    return this.#waitingPublishes >= this.context.publishBatch * WAITING_PUBLISHES_PER_BATCH ||
      this.#waitingBytes >= WAITING_BYTES;
  }

  #wake(): void {
    const resume = this.#resume;
    this.#resume = undefined;
    resume?.();
  }

  waits(publishes: number, bytes: number): void {
    this.#waitingPublishes += publishes;
    this.#waitingBytes += bytes;
    if (publishes < 0 && this.#held === undefined && !this.#full) this.#wake();
  }

  // --------------------------------------------------------------------------------------- frame sink

  greeted(): boolean {
    this.#state = "starting";
    this.#method("connection.start", {
      versionMajor: 0,
      versionMinor: 9,
      serverProperties: serverProperties(VERSION),
      mechanisms: encodeText(MECHANISM),
      locales: encodeText("en_US"),
    });
    return true;
  }

  #wrongProtocol(): void {
    this.#log("refused a peer that does not speak AMQP 0-9-1", "info");
    this.#socket.frames.protocolHeader();
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
      if (this.#state !== "running") this.#outOfOrder("content");
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

  #outOfOrder(what: string): never {
    throw new WireFault(Reply.ChannelError, `${what} in state ${this.#state} of the handshake`);
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
    if (this.#state !== "running") this.#outOfOrder(method.method);
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
    switch (method.method) {
      case "connection.start-ok":
        if (this.#state !== "starting") this.#outOfOrder(name);
        this.#busy = this.#logIn(method);
        return;
      case "connection.tune-ok":
        if (this.#state !== "tuning") this.#outOfOrder(name);
        return this.#tune(method);
      case "connection.open":
        if (this.#state !== "opening") this.#outOfOrder(name);
        return this.#open(method);
      case "connection.update-secret":
        return this.raise(
          refuse(Reply.NotImplemented, "connection.update-secret is not supported"),
          name,
        );
      default:
        this.#outOfOrder(name);
    }
  }

  async #logIn(method: MethodOf<"connection.start-ok">): Promise<void> {
    this.#capabilities = capabilitiesOf(method.clientProperties);
    this.#name = clientName(method.clientProperties);
    const credentials = credentialsOf(method);
    if (isRefusal(credentials)) return this.raise(credentials, method.method);
    const outcome = await this.context.access.login(
      { ...credentials, proved: this.arrival.proved },
      () => this.#ended,
    );
    if (this.#state !== "starting") return;
    if (outcome.admitted) {
      this.user = outcome.user;
      this.#state = "tuning";
      const { channelMax, frameMax, heartbeat } = this.context.offer;
      this.#method("connection.tune", { channelMax, frameMax, heartbeat });
      return;
    }
    this.host.log.warn("refused an AMQP login", {
      user: credentials.user,
      listener: this.context.listener,
      address: this.address,
      why: outcome.why,
    });
    if (outcome.why === "wrong" && !this.#capabilities.authenticationFailureClose) {
      this.host.counters.refused.add(Reply.AccessRefused);
      await new Promise<void>((resolve) => this.host.timers.after(WRONG_PASSWORD_MS, resolve));
      return this.cut();
    }
    const detail = outcome.why === "wrong"
      ? `login refused for user '${credentials.user}'`
      : outcome.why === "denied"
      ? `user '${credentials.user}' may not connect to AMQP`
      : "too many logins wait to be checked; try again";
    this.raise(refuse(Reply.AccessRefused, detail), method.method);
  }

  #tune(method: MethodOf<"connection.tune-ok">): void {
    const tuned = agree(this.context.offer, method);
    if (isRefusal(tuned)) return this.raise(tuned, method.method);
    this.#tuned = tuned;
    this.#decoder.maximumPayload = tuned.frameMax;
    this.#socket.frames.frameMax = tuned.frameMax;
    this.#state = "opening";
  }

  #open({ method, virtualHost }: MethodOf<"connection.open">): void {
    if (virtualHost !== this.host.name) {
      return this.raise(refuse(Reply.NotAllowed, `vhost ${virtualHost} not found`), method);
    }
    this.#handshake?.cancel();
    this.#handshake = undefined;
    this.#state = "running";
    this.#opened = true;
    this.#method("connection.open-ok", {});
    const { heartbeat } = this.#tuned;
    if (heartbeat > 0) {
      this.#heartbeats = new Heartbeats(heartbeat, this.context.clock, this.host.timers, {
        lastWriteAt: () => this.#socket.lastWriteAt,
        send: () => {
          this.#socket.frames.heartbeat();
          this.#socket.schedule();
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

  // -------------------------------------------------------------------------------------------- alarm

  alarmRaised(reason: string): void {
    if (this.#blocked || !this.#capabilities.connectionBlocked || !this.#running) return;
    this.#blocked = true;
    this.#method("connection.blocked", { reason });
  }

  alarmCleared(): void {
    if (this.#blocked && this.#running) this.#method("connection.unblocked", {});
    this.#blocked = false;
    if (this.#held !== undefined) this.#wake();
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
      this.#method("connection.close-ok", {});
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
    this.#method("connection.close-ok", {});
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
    this.#handshake?.cancel();
    this.host.alarm.remove(this);
    this.#held = undefined;
    this.#wake();
    this.#closeTimer = this.host.timers.after(CLOSE_OK_MS, () => this.cut());
    await Promise.all([...this.#channels.values()].map((channel) => channel.finished()));
    if (this.#ended) return;
    for (const channel of this.#channels.values()) channel.flushConfirms();
    this.#endChannels();
    this.#closeSent = true;
    const { classId, methodId } = method === undefined
      ? { classId: 0, methodId: 0 }
      : formOf(method);
    this.#method("connection.close", {
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
    this.#wake();
    const deadline = this.host.timers.after(CLOSE_OK_MS, () => this.link.close());
    void this.#socket.flushed().then(() => {
      deadline.cancel();
      this.link.close();
    });
  }

  /** Closes at once, without a word. */
  cut(): void {
    this.#state = "ended";
    this.#wake();
    this.#socket.stop();
    this.link.close();
  }

  writeFailed(): void {
    this.cut();
  }

  /** The reading is over. */
  #finish(): void {
    if (!this.#ended) this.#end();
    this.#handshake?.cancel();
    this.#closeTimer?.cancel();
    this.#heartbeats?.stop();
    this.host.alarm.remove(this);
    this.#endChannels();
    this.host.counters.channels -= this.#channels.size;
    this.#channels.clear();
    for (const item of this.#unwritten.all()) item.source.requeue([item]);
    this.host.counters.connections--;
    if (this.#opened) this.#log("an AMQP client disconnected", "info");
    this.#closed();
  }

  #log(message: string, level: "info" | "warn"): void {
    this.host.log[level](message, {
      user: this.user,
      listener: this.context.listener,
      address: this.address,
      name: this.#name === "" ? undefined : this.#name,
    });
  }

  // ------------------------------------------------------------------------------- what channels need

  get writer(): FrameWriter {
    return this.#socket.frames;
  }

  get cancelNotify(): boolean {
    return this.#capabilities.consumerCancelNotify;
  }

  get open(): boolean {
    return this.#state !== "ended" && !this.#closeSent;
  }

  get congested(): boolean {
    if (this.#state !== "running") return true;
    if (this.#socket.buffered < this.context.outboundHighWater) return false;
    this.#starved = true;
    return true;
  }

  schedule(): void {
    this.#socket.schedule();
  }

  confirmsWait(channel: Channel): void {
    this.#confirming.push(channel);
    this.#socket.schedule();
  }

  settleWhenWritten(item: QueueItem): void {
    this.#unwritten.add(item, this.#socket.position);
  }

  #method<N extends MethodName>(name: N, args: Arguments<N>): void {
    this.#socket.frames.method(0, name, args);
    this.#socket.schedule();
  }

  beforeWrite(): void {
    for (const channel of this.#confirming) channel.flushConfirms();
    this.#confirming.length = 0;
  }

  afterWrite(written: number): void {
    for (const item of this.#unwritten.upTo(written)) item.source.acknowledged(item);
    if (!this.#starved || this.#socket.buffered >= this.context.outboundHighWater) return;
    this.#starved = false;
    for (const channel of this.#channels.values()) channel.deliveries.wakeAll();
  }
}

/** connection.close-ok as the last frame of what was read: the answer of a peer we cannot follow. */
const CLOSE_OK = Uint8Array.of(1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 51, FRAME_END);

function endsWithCloseOk(bytes: Uint8Array, count: number): boolean {
  if (count < CLOSE_OK.length) return false;
  return CLOSE_OK.every((byte, i) => bytes[count - CLOSE_OK.length + i] === byte);
}
