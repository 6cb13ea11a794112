import type { Broker } from "../../broker/broker.ts";
import type { MqttDoor } from "../../config/configuration.ts";
import { type Admission, ConnectRate } from "../../doors/admission.ts";
import { drain } from "../../doors/drain.ts";
import type { Accepted, Layer } from "../../doors/layers.ts";
import { Listener, type Renewal } from "../../doors/listener.ts";
import type { ConnectRules } from "../connect.ts";
import type { Identify, MqttConnection } from "../connection.ts";
import { Opening, type OpeningContext } from "./opening.ts";
import type { OriginRules } from "./origin.ts";
import { webSocketLayer } from "./web_socket_layer.ts";

/** One MQTT listener of whatever kind, and the connections that came in by it. */
export class Door {
  readonly #listener: Listener;
  readonly #layers: readonly Layer[];
  #origins: OriginRules | undefined;
  #admission: Admission | undefined;
  readonly #openings = new Set<Opening>();
  readonly #connections = new Set<MqttConnection>();

  /** @throws Error with one sentence naming the door, the key and the file */
  constructor(readonly configuration: MqttDoor) {
    this.#listener = new Listener(configuration);
    const layers = [...this.#listener.layers];
    if (configuration.kind === "ws") {
      this.#origins = configuration;
      layers.push(webSocketLayer(configuration.tls !== undefined, () => this.#origins!));
    }
    this.#layers = layers;
  }

  /** Opens the address. @throws Error with one sentence naming the door and its address */
  bind(): void {
    this.#listener.bind();
  }

  /** As bound. */
  get address(): string {
    return this.#listener.address;
  }

  /** Accepts connections from now on. `identify`: who they are; nobody is anybody without it. */
  serve(
    broker: Broker,
    rules: ConnectRules,
    admission: Admission,
    identify: Identify = onlyProved,
  ): void {
    this.#admission = admission;
    const { clock, limits, log, counters } = broker.context;
    const context: OpeningContext = {
      broker,
      rules,
      identify,
      listener: this.configuration.name,
      layers: this.#layers,
      answersBusy: this.configuration.kind !== "ws",
      onOver: (opening) => this.#openings.delete(opening),
    };
    const take = (accepted: Accepted) => {
      const place = admission.enter();
      if (place === undefined) {
        counters.connectionsRefused.add("server busy");
        accepted.link.close();
        return;
      }
      const opening = new Opening(context, accepted, place);
      this.#openings.add(opening);
      void this.#run(opening);
    };
    this.#listener.accept(take, log, new ConnectRate(limits.maxConnectRate, clock));
  }

  async #run(opening: Opening): Promise<void> {
    const connection = await opening.run();
    if (connection === undefined) return;
    this.#connections.add(connection);
    // Not awaited: a connection may idle for months, and all of this would wait with it.
    void connection.run().then(() => this.#connections.delete(connection));
  }

  /**
   * Reads the files of this door again, and takes over what may change of `now`, the same door in the
   * configuration as it stands in the file; undefined when it is no longer there.
   *
   * @throws Error with one sentence naming the door, the key and the file; nothing has changed then
   */
  renew(now: MqttDoor | undefined): Renewal {
    const certificates = this.#listener.renew();
    return {
      expires: certificates.expires,
      apply: () => {
        certificates.apply();
        if (this.configuration.kind === "ws" && now?.kind === "ws") this.#origins = now;
      },
    };
  }

  /** No new connections from now on; those that have sent no CONNECT are closed. Idempotent. */
  stopAccepting(): void {
    if (this.#listener.closed) return;
    this.#listener.close();
    this.#admission?.stop();
    for (const opening of this.#openings) opening.cut();
  }

  /** Resolves when every connection is gone; those that linger past `deadlineMs` are cut. */
  async drain(deadlineMs: number): Promise<void> {
    await this.#listener.ended();
    await drain(this.#connections, deadlineMs);
    this.#listener.release();
  }
}

/** Certificates and proxies alone tell who a client is. */
const onlyProved: Identify = ({ proved }) => Promise.resolve({ user: proved ?? "" });
