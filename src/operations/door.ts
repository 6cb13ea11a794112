import type { OperationsDoor } from "../config/configuration.ts";
import { Handshakes } from "../doors/handshakes.ts";
import type { Accepted } from "../doors/layers.ts";
import { Listener, type Renewal } from "../doors/listener.ts";
import type { Clock } from "../platform/clock.ts";
import type { Log } from "../platform/log.ts";
import type { Timers } from "../platform/timers.ts";
import type { Peer } from "./access.ts";
import { HttpConnection } from "./http/connection.ts";
import type { HttpRequest, HttpResponse } from "./http/message.ts";

/**
 * Connections of one door at a time: a browser opens six, a scraper one. Past it the one that has been
 * without a request for longest goes; with every one at work, the newcomer does.
 */
export const MOST_CONNECTIONS = 64;

/** How long a TLS handshake may take. */
const HANDSHAKE_MS = 10_000;

/** A request, and what its connection says of whoever sent it. */
export type Answer = (request: HttpRequest, peer: Peer) => Promise<HttpResponse>;

export interface DoorSurroundings {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
}

/** One operations listener, and the connections that came in by it. */
export class Door {
  readonly #listener: Listener;
  readonly #handshakes: Handshakes;
  /** In the order in which they came. */
  readonly #connections = new Set<HttpConnection>();

  /** @throws Error with one sentence naming the door, the key and the file */
  constructor(
    readonly configuration: OperationsDoor,
    private readonly on: DoorSurroundings,
  ) {
    this.#listener = new Listener(configuration);
    const { log, timers } = on;
    const context = { log, timers, listener: configuration.name };
    this.#handshakes = new Handshakes(this.#listener.layers, context, HANDSHAKE_MS);
  }

  /** Opens the address. @throws Error with one sentence naming the door and its address */
  bind(): void {
    this.#listener.bind();
  }

  /** As bound. */
  get address(): string {
    return this.#listener.address;
  }

  /** Accepts connections from now on. */
  serve(answer: Answer): void {
    const take = (accepted: Accepted) => {
      if (this.#makeRoom()) void this.#serve(accepted, answer);
      else accepted.link.close();
    };
    this.#listener.accept(take, this.on.log);
  }

  #makeRoom(): boolean {
    if (this.#connections.size + this.#handshakes.size < MOST_CONNECTIONS) return true;
    for (const connection of this.#connections) {
      if (!connection.idle) continue;
      this.#connections.delete(connection);
      connection.cut();
      return true;
    }
    return false;
  }

  async #serve(accepted: Accepted, answer: Answer): Promise<void> {
    const { clock, timers, log } = this.on;
    const carried = await this.#handshakes.carry(accepted);
    if (carried === undefined) return;
    if (this.#listener.closed) {
      carried.link.close();
      return;
    }
    const peer: Peer = {
      kind: this.configuration.kind,
      certificate: carried.certified ? { name: carried.proved } : undefined,
    };
    const connection = new HttpConnection(carried.link, {
      clock,
      timers,
      answer: (request) => answer(request, peer),
      failed: (error) =>
        log.error("a request of the operations listener failed on an internal error", {
          listener: this.configuration.name,
          error: error instanceof Error ? error.stack ?? error.message : String(error),
        }),
    });
    this.#connections.add(connection);
    await connection.run();
    this.#connections.delete(connection);
  }

  /** Reads the certificate files again. @throws as the listener's own */
  renew(): Renewal {
    return this.#listener.renew();
  }

  /** No new connections from now on, and no further requests. Idempotent. */
  stop(): void {
    this.#listener.close();
    this.#listener.release();
    this.#handshakes.cut();
    for (const connection of this.#connections) connection.cut();
  }
}
