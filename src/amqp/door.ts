import { refusalName } from "../broker/reason.ts";
import type { Context } from "../broker/context.ts";
import type { TcpDoor } from "../config/configuration.ts";
import { type Admission, ConnectRate, type Place } from "../doors/admission.ts";
import { drain } from "../doors/drain.ts";
import { Handshakes } from "../doors/handshakes.ts";
import type { Accepted } from "../doors/layers.ts";
import { Listener, type Renewal } from "../doors/listener.ts";
import type { Amqp } from "./amqp.ts";
import { AmqpConnection } from "./connection.ts";
import type { Access } from "./login.ts";

/** One AMQP listener, AMQPS where it has a `tls` block, and the connections that came in by it. */
export class AmqpDoor {
  readonly #listener: Listener;
  #handshakes: Handshakes | undefined;
  readonly #connections = new Set<AmqpConnection>();

  /** @throws Error with one sentence naming the door, the key and the file */
  constructor(readonly configuration: TcpDoor, private readonly access: Access) {
    this.#listener = new Listener(configuration);
  }

  /** Opens the address. @throws Error with one sentence naming the door and its address */
  bind(): void {
    this.#listener.bind();
  }

  /** As bound. */
  get address(): string {
    return this.#listener.address;
  }

  /** Reads the certificate files again. @throws as the listener's own */
  renew(): Renewal {
    return this.#listener.renew();
  }

  /** Accepts connections from now on; they count with all others against `max_connections` (C4). */
  serve(amqp: Amqp, context: Context, admission: Admission): void {
    const { limits, clock, log, timers, counters } = context;
    // The TLS handshake counts against the time the AMQP handshake has.
    const handshakes = this.#handshakes = new Handshakes(
      this.#listener.layers,
      {
        log,
        timers,
        listener: this.configuration.name,
        onRefused: (code) => counters.connectionsRefused.add(refusalName({ code })),
      },
      amqp.handshakeTimeoutMs,
    );
    const take = (accepted: Accepted) => {
      const place = admission.enter();
      if (place?.hasSlot) void this.#run(accepted, place, amqp, handshakes);
      else {
        counters.connectionsRefused.add("server busy");
        place?.leave();
        accepted.link.close();
      }
    };
    this.#listener.accept(take, log, new ConnectRate(limits.maxConnectRate, clock));
  }

  async #run(
    accepted: Accepted,
    place: Place,
    amqp: Amqp,
    handshakes: Handshakes,
  ): Promise<void> {
    try {
      const carried = await handshakes.carry(accepted);
      if (carried === undefined) return;
      if (this.#listener.closed) {
        carried.link.close();
        return;
      }
      const connection = new AmqpConnection(
        amqp.connectionContext(this.configuration.name, this.access),
        carried.link,
        carried,
      );
      this.#connections.add(connection);
      await connection.run();
      this.#connections.delete(connection);
    } finally {
      place.leave();
    }
  }

  /** No new connections from now on. Idempotent. */
  stopAccepting(): void {
    this.#listener.close();
    this.#handshakes?.cut();
  }

  /** Tells every client, waits for its answer a moment, then cuts (A16). */
  async drain(deadlineMs: number): Promise<void> {
    await this.#listener.ended();
    const connections = [...this.#connections];
    for (const connection of connections) connection.stop();
    await drain(this.#connections, deadlineMs);
    await Promise.all(connections.map(({ closed }) => closed));
  }
}
