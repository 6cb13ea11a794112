import { StorageFailure } from "../storage/contract.ts";
import { Reason } from "../broker/reason.ts";
import { Confirms } from "./confirms.ts";
import { type Content, IncomingContent, type PartialBytes } from "./content.ts";
import type { Declarations } from "./declarations.ts";
import { Deliveries, type DeliveryLink } from "./deliveries.ts";
import { ChannelMethods } from "./channel_methods.ts";
import type { AmqpMessage } from "./message.ts";
import { Publication } from "./publication.ts";
import type { Outbound } from "./outbound.ts";
import type { Publishing } from "./publishing.ts";
import type { QueueItem } from "./queues/source.ts";
import { endsChannelOnly, isRefusal, type Refusal, refuse, Reply, replyText } from "./reply.ts";
import { type PublishStep, Steps } from "./steps.ts";
import type { VirtualHost } from "./virtual_host.ts";
import { WireFault } from "./wire/fault.ts";
import {
  type Arguments,
  formOf,
  type Method,
  type MethodName,
  type MethodOf,
} from "./wire/methods.ts";
import type { Reader } from "./wire/reader.ts";

/** What a connection is to its channels. */
export interface ChannelLink {
  readonly host: VirtualHost;
  readonly declarations: Declarations;
  readonly publishing: Publishing;
  readonly outbound: Outbound;
  readonly partial: PartialBytes;
  readonly consumers: { count: number };
  readonly maxMessageBytes: number;
  readonly maxUnacked: number;
  /** The login; empty for none. */
  readonly user: string;
  /** The client understands a basic.cancel of ours. */
  readonly cancelNotify: boolean;
  /** The socket has enough to take, or nothing is delivered any more (A18). */
  readonly congested: boolean;
  /** False once the connection is closing, in whatever way. */
  readonly open: boolean;
  /** Publishes and methods that were read and are not done, and their bytes. */
  waits(steps: number, bytes: number): void;
  /** Ends the connection with an exception (A21). */
  raise(refusal: Refusal, method: MethodName | undefined): void;
  /** Its number is free again. */
  channelClosed(channel: Channel): void;
  internalError(error: unknown): void;
}

/**
 * - `open`: what is asked for is done
 * - `failing`: a publish was refused; what is before it is finished, what is behind it is not begun
 * - `closing`: channel.close was sent, its answer is waited for
 * - `leaving`: the client closes it
 * - `closed`: its number is free, or its connection is gone
 */
type State = "open" | "failing" | "closing" | "leaving" | "closed";

/**
 * One AMQP channel: its order of work, what it publishes and what it is delivered. Methods other than
 * basic.publish are in `channel_methods.ts`.
 */
export class Channel implements DeliveryLink {
  #state: State = "open";
  /** False once something was refused: what arrives is discarded (A20). */
  #accepting = true;
  /** The client closed it before it heard of an exception. */
  #left = false;
  /** `Removals.added` behind the last message this channel settled. */
  #settled = 0;
  readonly deliveries: Deliveries;
  readonly #content: IncomingContent;
  readonly #steps: Steps;
  readonly #methods: ChannelMethods;
  #confirms: Confirms | undefined;

  constructor(readonly number: number, readonly link: ChannelLink) {
    this.deliveries = new Deliveries(this, link.maxUnacked);
    this.#content = new IncomingContent(link.maxMessageBytes, link.partial);
    this.#steps = new Steps((error) => link.internalError(error));
    this.#methods = new ChannelMethods(this);
  }

  // --------------------------------------------------------------------------------------- frames in

  /** A content is under way on it. */
  get takesContent(): boolean {
    return this.#content.expected !== "nothing";
  }

  /** A method frame with a payload of `bytes`. @throws WireFault */
  method(method: Method, bytes: number): void {
    if (!this.#accepting) return this.#discarded(method);
    if (this.#content.expected !== "nothing") {
      throw new WireFault(
        Reply.UnexpectedFrame,
        `${method.method} where a content ${this.#content.expected} was expected`,
      );
    }
    if (method.method === "basic.publish") return this.#begin(method);
    if (this.#steps.idle && method.method === "basic.ack") {
      // What workers send most often runs without being added anywhere.
      return this.#methods.acknowledge(method);
    }
    const waits = !this.#steps.idle;
    if (waits) this.link.waits(1, bytes);
    this.#steps.add({
      kind: "method",
      run: () => {
        if (waits) this.link.waits(-1, -bytes);
        if (this.#state !== "open") return;
        // What was published before is confirmed before this is answered (A45).
        this.flushConfirms();
        return this.#methods.run(method);
      },
    });
  }

  #discarded(method: Method): void {
    if (method.method === "channel.close-ok" && this.#state === "closing") this.#free();
    else if (method.method === "channel.close") {
      // Both sides close at once (A20): answered now, or instead of the exception that waits.
      if (this.#state === "closing") this.#closeOk();
      else this.#left = true;
    }
  }

  #closeOk(): void {
    this.write("channel.close-ok", {});
    this.#free();
  }

  #begin(publish: MethodOf<"basic.publish">): void {
    if (publish.immediate) {
      return this.#refuseInput(
        refuse(Reply.NotImplemented, "the immediate flag of basic.publish is not supported"),
      );
    }
    this.#content.begin(publish);
  }

  /** A header frame. @throws WireFault */
  header(reader: Reader): void {
    if (!this.#accepting) return;
    if (this.#content.expected !== "header") this.#unexpected("header");
    const content = this.#content.header(reader);
    if (content === undefined) return;
    if (isRefusal(content)) this.#refuseInput(content);
    else this.#publish(content);
  }

  /** A body frame. @throws WireFault */
  body(bytes: Uint8Array, start: number, end: number): void {
    if (!this.#accepting) return;
    if (this.#content.expected !== "body") this.#unexpected("body");
    const content = this.#content.body(bytes, start, end);
    if (content !== undefined) this.#publish(content);
  }

  #unexpected(frame: string): never {
    const { expected } = this.#content;
    throw new WireFault(
      Reply.UnexpectedFrame,
      expected === "nothing"
        ? `a content ${frame} without a method that carries content`
        : `a content ${frame} where a content ${expected} was expected`,
    );
  }

  // -------------------------------------------------------------------------------------- publishing

  /** From now on completed publishes are counted and confirmed; idempotent (A44). */
  selectConfirms(): void {
    this.#confirms ??= new Confirms(
      (stored, deliveryTag, multiple) => {
        if (stored) this.write("basic.ack", { deliveryTag, multiple });
        else this.write("basic.nack", { deliveryTag, multiple, requeue: false });
      },
      () => this.link.outbound.confirmsWait(this),
    );
  }

  flushConfirms(): void {
    this.#confirms?.flush();
  }

  #publish(content: Content): void {
    const { host } = this.link;
    host.counters.published++;
    const step = new Publish(content, this);
    if (!this.#steps.idle) {
      step.waits();
      return this.#steps.add(step);
    }
    step.start();
    if (step.ready) step.finish();
    else {
      step.waits();
      this.#steps.addStarted(step);
    }
  }

  /** Routes a publish in its turn, or says why not; undefined when one before it was refused. */
  startPublish(content: Content, decided: () => void): Publication | Refusal | undefined {
    // A connection that is lost has published what it sent whole (A46); a failed channel has not.
    if (this.#state === "failing" || this.#state === "closing") return undefined;
    const { publishing, user } = this.link;
    const started = publishing.start(content.message, content.persistent, user, decided);
    if (isRefusal(started)) {
      this.#accepting = false;
      if (this.#state === "open") this.#state = "failing";
    }
    return started;
  }

  nextConfirm(): number {
    return this.#confirms?.next() ?? 0;
  }

  decided(): void {
    this.#steps.proceed();
  }

  /** In publish order: into the queues, then the return, then the confirm (A45, A46). */
  finishPublish(
    publication: Publication,
    { publish, message, persistent }: Content,
    tag: number,
  ): void {
    const { outcome } = publication;
    if (outcome !== "stored") {
      publication.withdraw();
      return this.#notStored(outcome!, persistent, tag);
    }
    publication.enqueue();
    if (!this.link.open) return;
    const { counters } = this.link.host;
    if (publish.mandatory && !publication.routed) {
      counters.returned++;
      this.link.outbound.frames.return(this.number, Reply.NoRoute, "NO_ROUTE", message);
      this.link.outbound.schedule();
    }
    if (tag === 0) return;
    counters.confirmed++;
    this.#confirms!.acknowledge(tag);
  }

  #notStored(
    outcome: Exclude<Publication["outcome"], "stored" | undefined>,
    persistent: boolean,
    tag: number,
  ): void {
    const { host } = this.link;
    if (outcome instanceof StorageFailure) {
      host.alarm.raise(outcome);
      if (tag > 0) return this.#confirms!.refuse(tag);
      if (!persistent) return;
      const code = outcome.kind === "full" ? Reply.ResourceError : Reply.InternalError;
      return this.link.raise(refuse(code, outcome.message), "basic.publish");
    }
    if (outcome.code === Reason.NotAuthorized) {
      return this.fail(refuse(Reply.AccessRefused, outcome.reason), "basic.publish");
    }
    if (tag > 0) this.#confirms!.refuse(tag);
    else host.counters.skippedToMqtt.add("refused");
  }

  // --------------------------------------------------------------------------------------- deliveries

  get user(): string {
    return this.link.user;
  }

  get consumers(): { count: number } {
    return this.link.consumers;
  }

  /** Something may still be delivered on it. */
  get canDeliver(): boolean {
    return this.#state === "open" && this.link.open;
  }

  get congested(): boolean {
    return this.#state !== "open" || this.link.congested;
  }

  deliver(tag: string, deliveryTag: number, redelivered: boolean, message: AmqpMessage): void {
    this.link.outbound.frames.deliver(this.number, tag, deliveryTag, redelivered, message);
    this.link.outbound.schedule();
  }

  settleWhenWritten(item: QueueItem): void {
    this.link.outbound.settleWhenWritten(item);
  }

  cancelled(consumerTag: string): void {
    if (this.#state !== "open" || !this.link.cancelNotify) return;
    this.write("basic.cancel", { consumerTag, noWait: true });
  }

  // ------------------------------------------------------------------------------------------- ending

  /** An exception that input raises before its turn: what was asked for before it is done first. */
  #refuseInput(refusal: Refusal): void {
    this.#accepting = false;
    this.#content.drop();
    this.#steps.add({ kind: "method", run: () => this.fail(refusal, "basic.publish") });
  }

  /** An exception in its turn: of this channel, or of the connection where its code says so. */
  fail(refusal: Refusal, method: MethodName): void {
    if (this.#state !== "open" && this.#state !== "failing" || !this.link.open) return;
    if (!endsChannelOnly(refusal.code)) return this.link.raise(refusal, method);
    this.#state = "closing";
    this.#accepting = false;
    this.#content.drop();
    this.deliveries.end();
    this.flushConfirms();
    const { classId, methodId } = formOf(method);
    const text = replyText(refusal);
    if (this.#left) this.#closeOk();
    else {
      const { code: replyCode } = refusal;
      this.write("channel.close", { replyCode, replyText: text, classId, methodId });
    }
    const { host, user } = this.link;
    host.counters.refused.add(refusal.code);
    host.log.warn("closed an AMQP channel", {
      user,
      channel: this.number,
      code: refusal.code,
      reason: text,
    });
  }

  /** channel.close of the client, in its turn: answered once what is settled is stored (T6). */
  async leave(): Promise<void> {
    this.#state = "leaving";
    this.#accepting = false;
    this.deliveries.end();
    await this.link.host.everythingSettled();
    if (!this.link.open) return;
    this.flushConfirms();
    this.#closeOk();
  }

  #free(): void {
    this.#state = "closed";
    this.link.channelClosed(this);
  }

  /**
   * The connection ends: consumers leave and what is out goes back; publishes that were read whole go
   * on (A46).
   */
  end(): void {
    this.deliveries.end();
    if (this.#state === "open") this.#state = "closed";
    this.#content.drop();
  }

  /** Resolves when every publish so far is settled and every method so far was run. */
  finished(): Promise<void> {
    if (this.#steps.idle) return Promise.resolve();
    return new Promise((resolve) => this.#steps.add({ kind: "method", run: resolve }));
  }

  // ------------------------------------------------------------------------------------------ writing

  write<N extends MethodName>(name: N, args: Arguments<N>): void {
    this.link.outbound.frames.method(this.number, name, args);
    this.link.outbound.schedule();
  }

  // ----------------------------------------------------------------------------------- what is settled

  /** A message of this channel was settled. */
  settledSome(): void {
    this.#settled = this.link.host.removals.added;
  }

  /** What its synchronous replies wait for (T6); undefined when that is stored. */
  get settledStored(): Promise<void> | undefined {
    return this.link.host.settledUpTo(this.#settled);
  }
}

/** One publish of a channel, from its last byte to its confirm. */
class Publish implements PublishStep {
  readonly kind = "publish";
  #started = false;
  #publication: Publication | undefined;
  #refusal: Refusal | undefined;
  #tag = 0;
  #waits = false;

  constructor(private readonly content: Content, private readonly channel: Channel) {}

  get ready(): boolean {
    return this.#started &&
      (this.#publication === undefined || this.#publication.outcome !== undefined);
  }

  /** It is read and not settled: it counts against what the connection may have waiting. */
  waits(): void {
    this.#waits = true;
    this.channel.link.waits(1, this.content.message.content.length);
  }

  start(): void {
    const { content, channel } = this;
    const started = channel.startPublish(content, () => {
      // Before this returned, whoever called looks at the outcome itself.
      if (this.#started) channel.decided();
    });
    this.#started = true;
    if (isRefusal(started)) this.#refusal = started;
    else if (started !== undefined) {
      this.#publication = started;
      this.#tag = channel.nextConfirm();
    }
  }

  finish(): void {
    const { content, channel } = this;
    if (this.#waits) channel.link.waits(-1, -content.message.content.length);
    if (this.#refusal !== undefined) channel.fail(this.#refusal, "basic.publish");
    if (this.#publication !== undefined) {
      channel.finishPublish(this.#publication, content, this.#tag);
    }
  }
}
