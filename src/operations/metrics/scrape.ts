import { createGzip } from "node:zlib";
import type { Configuration } from "../../config/configuration.ts";
import type { Clock } from "../../platform/clock.ts";
import type { HttpResponse } from "../http/message.ts";
import { Pace } from "../pace.ts";
import type { Surveyor } from "../survey.ts";
import { CATALOGUE } from "./catalogue.ts";
import { CONTENT_TYPE, type Family, familyText } from "./exposition.ts";
import type { Scrape } from "./family.ts";
import { readRuntime } from "./runtime.ts";

/** Bytes that are compressed in one go: half a millisecond of work. */
const ZIPPED_AT_ONCE = 64 * 1024;

export interface ScrapeSurroundings {
  readonly surveyor: Surveyor;
  readonly configuration: Configuration;
  readonly version: string;
  readonly clock: Clock;
  /** Monotonic ms at which the process began. */
  readonly startedAt: number;
  /** What the broker's timers have done. */
  readonly timers: { readonly fired: number; readonly lateMs: number };
  /** A turn of the event loop, waited for. */
  readonly turn: () => Promise<void>;
  /** What follows the catalogue. */
  readonly extensions?: readonly Family<Scrape>[];
}

/**
 * `/metrics`: computed when somebody asks, at most once an interval, for everybody (05 section 8.2).
 * Those who ask meanwhile get what is there, or wait for the computation under way.
 */
export class Scrapes {
  #latest: HttpResponse | undefined;
  #computedAt = -Infinity;
  #computing: Promise<HttpResponse> | undefined;

  constructor(
    private readonly on: ScrapeSurroundings,
    private readonly intervalMs: number,
  ) {}

  answer(): Promise<HttpResponse> {
    const { clock } = this.on;
    if (this.#latest !== undefined && clock.monotonic() - this.#computedAt < this.intervalMs) {
      return Promise.resolve(this.#latest);
    }
    this.#computing ??= this.#compute().finally(() => this.#computing = undefined);
    return this.#computing;
  }

  async #compute(): Promise<HttpResponse> {
    const began = this.on.clock.monotonic();
    const pace = new Pace(this.on.clock);
    const body = await this.#text(began, pace);
    const gzipped = await zipped(body, pace);
    const response = { status: 200, contentType: CONTENT_TYPE, body, gzipped };
    this.#latest = response;
    this.#computedAt = began;
    return response;
  }

  async #text(began: number, pace: Pace): Promise<Uint8Array> {
    const { clock, surveyor, version, configuration, startedAt, timers, turn } = this.on;
    await turn();
    const runtime = readRuntime(clock.monotonic() - began, timers);
    const survey = await surveyor.survey(pace);
    const uptimeSeconds = Math.round(survey.takenAt - startedAt) / 1_000;
    const scrape = { version, configuration, uptimeSeconds, survey, runtime };
    const pieces: Uint8Array[] = [];
    const encoder = new TextEncoder();
    for (const family of [...CATALOGUE, ...this.on.extensions ?? []]) {
      await pace.breathe();
      pieces.push(encoder.encode(familyText(family, scrape)));
    }
    return joined(pieces);
  }
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** The runtime compresses on the thread that asks: piece by piece, so that others have their turn. */
async function zipped(body: Uint8Array, pace: Pace): Promise<Uint8Array> {
  const stream = createGzip();
  const pieces: Uint8Array[] = [];
  stream.on("data", (piece: Uint8Array) => pieces.push(piece));
  const ended = new Promise<void>((resolve, reject) => {
    stream.on("end", resolve);
    stream.on("error", reject);
  });
  for (let at = 0; at < body.length; at += ZIPPED_AT_ONCE) {
    await pace.breathe();
    const piece = body.subarray(at, at + ZIPPED_AT_ONCE);
    await new Promise<void>((resolve) => stream.write(piece, () => resolve()));
  }
  stream.end();
  await ended;
  return joined(pieces);
}
