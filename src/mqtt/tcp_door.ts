import type { Broker } from "../broker/broker.ts";
import type { TcpDoor as TcpDoorConfiguration } from "../config/configuration.ts";
import { errorText } from "../platform/log.ts";
import { type Admission, ConnectRate } from "./admission.ts";
import { TcpLink } from "./byte_link.ts";
import type { ConnectRules } from "./connect.ts";
import { MqttConnection } from "./connection.ts";

/** Connections the kernel keeps while they wait to be accepted. */
const BACKLOG = 1_024;

/** How long accepting rests when the process is out of descriptors. */
const EXHAUSTED_MS = 100;

/**
 * A plain TCP listener. It is bound before storage is touched, so that a port in use changes nothing,
 * and accepts only once the broker runs.
 */
export class TcpDoor {
  readonly #connections = new Set<MqttConnection>();
  #closing = false;
  #accepting: Promise<void> | undefined;

  private constructor(
    readonly configuration: TcpDoorConfiguration,
    private readonly listener: Deno.TcpListener,
  ) {}

  /** @throws Error with one sentence naming the door and its address */
  static bind(configuration: TcpDoorConfiguration): TcpDoor {
    const { host, port, text } = configuration.address;
    try {
      const listener = Deno.listen({
        hostname: host === "" ? "0.0.0.0" : host,
        port,
        tcpBacklog: BACKLOG,
      });
      return new TcpDoor(configuration, listener);
    } catch (error) {
      throw new Error(`${configuration.path}: cannot listen on ${text}: ${errorText(error)}`);
    }
  }

  /** `host:port` as bound; the port the system chose when 0 was asked. */
  get address(): string {
    const { hostname, port } = this.listener.addr;
    return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
  }

  serve(broker: Broker, rules: ConnectRules, admission: Admission): void {
    this.#accepting = this.#accept(broker, rules, admission);
  }

  async #accept(broker: Broker, rules: ConnectRules, admission: Admission): Promise<void> {
    const { clock, limits, log } = broker.context;
    const rate = new ConnectRate(limits.maxConnectRate, clock);
    const context = { broker, rules, listener: this.configuration.name };
    while (!this.#closing) {
      const wait = rate.next();
      if (wait > 0) {
        await pause(wait);
        continue;
      }
      let conn: Deno.TcpConn;
      try {
        conn = await this.listener.accept();
      } catch (error) {
        if (this.#closing) return;
        // A client gone between its handshake and the accept, or no descriptor left.
        log.warn("cannot accept a connection", {
          listener: this.configuration.name,
          error: errorText(error),
        });
        await pause(EXHAUSTED_MS);
        continue;
      }
      if (!admission.take()) {
        broker.context.counters.connectionsRefused.add("max_connections");
        conn.close();
        continue;
      }
      const connection = new MqttConnection(context, new TcpLink(conn));
      this.#connections.add(connection);
      void connection.run().finally(() => {
        this.#connections.delete(connection);
        admission.release();
      });
    }
  }

  /** No new connections from now on. */
  stopAccepting(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.listener.close();
  }

  /** Resolves when every connection is gone; those that linger past `deadlineMs` are cut. */
  async drain(deadlineMs: number): Promise<void> {
    await this.#accepting;
    const ends = [...this.#connections].map(({ closed }) => closed);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const deadline = new Promise<void>((resolve) => timer = setTimeout(resolve, deadlineMs));
    await Promise.race([Promise.all(ends), deadline]);
    clearTimeout(timer);
    for (const connection of this.#connections) connection.cut();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
