import type { ByteLink } from "../../doors/byte_link.ts";
import {
  type BadRequest,
  headEnd,
  parseRequestHead,
  type RequestHead,
} from "../../doors/request_head.ts";
import type { Clock } from "../../platform/clock.ts";
import { toMilliseconds } from "../../platform/clock.ts";
import type { Timer, Timers } from "../../platform/timers.ts";
import { type HttpRequest, type HttpResponse, textResponse } from "./message.ts";
import { encodeResponse, hasBody, readRequest, staysOpen } from "./wire.ts";

/** The longest head that is read; scrapers send a few hundred bytes, browsers some thousand. */
export const LONGEST_HEAD_BYTES = 16 * 1024;
const FIRST_HEAD_BYTES = 1_024;

/** How long a connection may stay open without a request. */
export const IDLE_MS = 75_000;
/** How long a head may take from its first byte on. */
export const HEAD_MS = 10_000;
/** How long an answer may take to be made, and again to be taken by the client. */
export const ANSWER_MS = 30_000;

/** What of a body nobody asked for is read, so that the answer is not lost in a reset. */
const UNREAD_BODY_BYTES = 64 * 1024;
const UNREAD_BODY_MS = 1_000;

export interface HttpSurroundings {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly answer: (request: HttpRequest) => Promise<HttpResponse>;
  /** `answer` threw: the client gets a 500 and no more. */
  readonly failed: (error: unknown) => void;
}

/**
 * One HTTP/1.1 connection: a request, its answer, the next request. Every length and every wait has a
 * bound; nothing of a request's body is looked at.
 */
export class HttpConnection {
  #buffer = new Uint8Array(FIRST_HEAD_BYTES);
  #have = 0;
  #deadline: Timer | undefined;
  #idle = true;

  constructor(private readonly link: ByteLink, private readonly on: HttpSurroundings) {}

  /** No request is being read or answered. */
  get idle(): boolean {
    return this.#idle;
  }

  /** Closes at once; `run` then ends. */
  cut(): void {
    this.link.close();
  }

  /** Serves the connection until it ends. Never rejects. */
  async run(): Promise<void> {
    try {
      while (await this.#serveOne());
    } catch {
      // The peer went while it was being answered.
    } finally {
      this.#deadline?.cancel();
      this.link.close();
    }
  }

  /** False: the connection is over. */
  async #serveOne(): Promise<boolean> {
    this.#idle = this.#have === 0;
    this.#within(this.#idle ? IDLE_MS : HEAD_MS);
    const head = await this.#readHead();
    if (head === undefined) return false;
    this.#idle = false;
    this.#within(ANSWER_MS);
    const request = "status" in head ? head : readRequest(head);
    if ("status" in request) {
      await this.#write(textResponse(request.status, `${request.reason}\n`), undefined, false);
      await this.#passOver();
      return false;
    }
    const open = staysOpen(request.head);
    const response = await this.#answer(request);
    await this.#write(response, request.head, open);
    if (hasBody(request.head)) await this.#passOver();
    return open;
  }

  async #answer(request: HttpRequest): Promise<HttpResponse> {
    try {
      return await this.on.answer(request);
    } catch (error) {
      this.on.failed(error);
      return textResponse(500, "internal error; the log says more\n");
    }
  }

  /** Undefined when the stream ended first. */
  async #readHead(): Promise<RequestHead | BadRequest | undefined> {
    for (let looked = 0;;) {
      const end = headEnd(this.#buffer.subarray(0, this.#have), looked);
      if (end >= 0) return this.#takeHead(end);
      looked = this.#have;
      if (this.#have === this.#buffer.length && !this.#grow()) {
        return { status: 431, reason: `a head may have ${LONGEST_HEAD_BYTES} bytes` };
      }
      const count = await this.link.read(this.#buffer.subarray(this.#have));
      if (count === null) return undefined;
      if (this.#idle) {
        this.#idle = false;
        this.#within(HEAD_MS);
      }
      this.#have += count;
    }
  }

  #takeHead(end: number): RequestHead | BadRequest {
    const head = parseRequestHead(this.#buffer.subarray(0, end));
    this.#buffer.copyWithin(0, end, this.#have);
    this.#have -= end;
    if (this.#have === 0 && this.#buffer.length > FIRST_HEAD_BYTES) {
      this.#buffer = new Uint8Array(FIRST_HEAD_BYTES);
    }
    return head;
  }

  #grow(): boolean {
    if (this.#buffer.length >= LONGEST_HEAD_BYTES) return false;
    const grown = new Uint8Array(Math.min(this.#buffer.length * 4, LONGEST_HEAD_BYTES));
    grown.set(this.#buffer);
    this.#buffer = grown;
    return true;
  }

  async #write(
    response: HttpResponse,
    request: RequestHead | undefined,
    open: boolean,
  ): Promise<void> {
    this.#within(ANSWER_MS);
    const now = new Date(toMilliseconds(this.on.clock.wall()));
    await this.link.write(encodeResponse(response, request, open, now));
  }

  /** Reads some of what still comes: closing on unread bytes would take the answer back. */
  async #passOver(): Promise<void> {
    this.#within(UNREAD_BODY_MS);
    for (let left = UNREAD_BODY_BYTES; left > 0;) {
      const count = await this.link.read(this.#buffer);
      if (count === null) return;
      left -= count;
    }
  }

  /** The connection ends unless it gets further within `ms`. */
  #within(ms: number): void {
    this.#deadline?.cancel();
    this.#deadline = this.on.timers.after(ms, () => this.link.close());
  }
}
