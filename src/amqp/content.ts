import type { AmqpMessage } from "./message.ts";
import { NO_DIRECT_REPLY, type Refusal, refuse, Reply } from "./reply.ts";
import { WireFault } from "./wire/fault.ts";
import type { MethodOf } from "./wire/methods.ts";
import { type PropertyNotes, readProperties } from "./wire/properties.ts";
import type { Reader } from "./wire/reader.ts";

/** The class of every content of the standard. */
const BASIC = 60;

/** Up to this a declared body is allocated at once; a larger one grows with what arrives. */
const TRUSTED_BYTES = 16 * 1024;

export interface Content {
  readonly publish: MethodOf<"basic.publish">;
  readonly message: AmqpMessage;
  readonly persistent: boolean;
}

/** Memory of unfinished contents, all channels of a connection together. */
export interface PartialBytes {
  bytes: number;
  /** What they may come to. */
  readonly most: number;
}

/**
 * The content that one channel is being sent (A3):
 *
 * ```
 * idle --basic.publish--> header --header frame--> body --all bytes--> idle
 *                            '------ body size 0 -----------------------^
 * ```
 */
export class IncomingContent {
  #publish: MethodOf<"basic.publish"> | undefined;
  #notes: PropertyNotes | undefined;
  #size = 0;
  #propertyBytes = 0;
  #content: Uint8Array = NOTHING;
  #filled = 0;

  constructor(private readonly maxBytes: number, private readonly partial: PartialBytes) {}

  get expected(): "nothing" | "header" | "body" {
    if (this.#publish === undefined) return "nothing";
    return this.#notes === undefined ? "header" : "body";
  }

  begin(publish: MethodOf<"basic.publish">): void {
    this.#publish = publish;
  }

  /**
   * The header frame that `reader` stands at: the content if it has no body, undefined if one follows,
   * or why the message is not taken. @throws WireFault
   */
  header(reader: Reader): Content | Refusal | undefined {
    const classId = reader.short();
    if (classId !== BASIC) {
      throw new WireFault(Reply.UnexpectedFrame, `a content header of class ${classId}`);
    }
    if (reader.short() !== 0) reader.fail("the weight of a content header is not 0");
    const size = reader.longlong();
    const start = reader.at;
    const notes = readProperties(reader);
    const refusal = this.#refusal(size, notes);
    if (refusal !== undefined) return refusal;
    this.#size = size;
    this.#propertyBytes = reader.end - start;
    this.#notes = notes;
    const total = this.#propertyBytes + size;
    this.#allocate(Math.min(total, Math.max(this.#propertyBytes, TRUSTED_BYTES)));
    this.#fill(reader.bytes, start, reader.end);
    return size === 0 ? this.#finish() : undefined;
  }

  #refusal(size: number, notes: PropertyNotes): Refusal | undefined {
    if (size > this.maxBytes) {
      return refuse(
        Reply.PreconditionFailed,
        `message size ${size} is larger than limits.max_message_size (${this.maxBytes})`,
      );
    }
    if (notes.expiration) {
      return refuse(
        Reply.NotImplemented,
        "the expiration property is not supported; messages do not expire",
      );
    }
    return notes.directReply ? NO_DIRECT_REPLY : undefined;
  }

  /** A body frame's payload. @throws WireFault */
  body(bytes: Uint8Array, start: number, end: number): Content | undefined {
    const needed = this.#filled + end - start;
    const total = this.#propertyBytes + this.#size;
    if (needed > total) {
      throw new WireFault(
        Reply.FrameError,
        `a body is longer than the ${this.#size} bytes its header says`,
      );
    }
    if (needed > this.#content.length) {
      this.#allocate(Math.min(total, Math.max(needed, this.#content.length * 2)));
    }
    this.#fill(bytes, start, end);
    return this.#filled === total ? this.#finish() : undefined;
  }

  #allocate(size: number): void {
    const { partial } = this;
    const grows = size - this.#content.length;
    if (partial.bytes + grows > partial.most) {
      throw new WireFault(
        Reply.ResourceError,
        `the unfinished contents of this connection are larger than ${partial.most} bytes`,
      );
    }
    partial.bytes += grows;
    const grown = new Uint8Array(size);
    if (this.#filled > 0) grown.set(this.#content.subarray(0, this.#filled));
    this.#content = grown;
  }

  #fill(bytes: Uint8Array, start: number, end: number): void {
    this.#content.set(bytes.subarray(start, end), this.#filled);
    this.#filled += end - start;
  }

  #finish(): Content {
    const publish = this.#publish!;
    const { exchange, routingKey } = publish;
    const { persistent } = this.#notes!;
    const content = this.#content;
    const propertyBytes = this.#propertyBytes;
    this.drop();
    return { publish, message: { exchange, routingKey, content, propertyBytes }, persistent };
  }

  /** Forgets what there is of an unfinished content. */
  drop(): void {
    this.partial.bytes -= this.#content.length;
    this.#publish = undefined;
    this.#notes = undefined;
    this.#content = NOTHING;
    this.#filled = 0;
  }
}

const NOTHING = new Uint8Array(0);
