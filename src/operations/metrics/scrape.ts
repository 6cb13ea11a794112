import { gzip } from "node:zlib";
import type { Configuration } from "../../config/configuration.ts";
import type { Clock } from "../../platform/clock.ts";
import type { HttpResponse } from "../http/message.ts";
import { Pace } from "../pace.ts";
import type { Surveyor } from "../survey.ts";
import { CATALOGUE } from "./catalogue.ts";
import { CONTENT_TYPE, familyText } from "./exposition.ts";
import { readRuntime } from "./runtime.ts";

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
    const body = await this.#text(began);
    const response = { status: 200, contentType: CONTENT_TYPE, body, gzipped: await zipped(body) };
    this.#latest = response;
    this.#computedAt = began;
    return response;
  }

  async #text(began: number): Promise<Uint8Array> {
    const { clock, surveyor, version, configuration, startedAt, timers, turn } = this.on;
    await turn();
    const runtime = readRuntime(clock.monotonic() - began, timers);
    const pace = new Pace(clock);
    const survey = await surveyor.survey(pace);
    const uptimeSeconds = Math.round(survey.takenAt - startedAt) / 1_000;
    const scrape = { version, configuration, uptimeSeconds, survey, runtime };
    const pieces: Uint8Array[] = [];
    const encoder = new TextEncoder();
    for (const family of CATALOGUE) {
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

function zipped(body: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) =>
    gzip(body, (error, bytes) => error === null ? resolve(bytes) : reject(error))
  );
}
