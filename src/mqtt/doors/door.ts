import type { Broker } from "../../broker/broker.ts";
import type { Address, MqttDoor, TlsConfiguration } from "../../config/configuration.ts";
import { errorText } from "../../platform/log.ts";
import type { ConnectRules } from "../connect.ts";
import type { Identify, MqttConnection } from "../connection.ts";
import { type Admission, ConnectRate } from "./admission.ts";
import { ConnLink } from "./conn_link.ts";
import { type Layer, proxyLayer, tlsLayer, webSocketLayer } from "./layers.ts";
import { Opening, type OpeningContext } from "./opening.ts";
import type { OriginRules } from "./origin.ts";
import { readTlsFiles, type TlsMaterial } from "./tls_files.ts";
import { TlsTerminator } from "./tls_terminator.ts";
import { UnixSocket } from "./unix_socket.ts";

/** Connections the kernel keeps while they wait to be accepted. */
const BACKLOG = 1_024;

/** How long accepting rests when the process is out of descriptors. */
const EXHAUSTED_MS = 100;

/** What a reload has read for one door and not yet put into force. */
export interface DoorRenewal {
  /** When the door's certificate ends; undefined for a door without TLS. */
  readonly expires: Date | undefined;
  /** Cannot fail. Later connections are served by what was read; open ones keep what they have. */
  apply(): void;
}

/**
 * One MQTT listener of whatever kind, and the connections that came in by it. Its files are read when it
 * is made and its address is opened by `bind`, both before storage is touched, so that a bad certificate
 * or a port in use changes nothing; it accepts only once the broker runs.
 */
export class Door {
  readonly #layers: readonly Layer[];
  readonly #terminator: TlsTerminator | undefined;
  #origins: OriginRules | undefined;
  #listener: Deno.Listener | undefined;
  #socket: UnixSocket | undefined;
  #admission: Admission | undefined;
  #accepting: Promise<void> | undefined;
  #closing = false;
  readonly #openings = new Set<Opening>();
  readonly #connections = new Set<MqttConnection>();

  /** @throws Error with one sentence naming the door, the key and the file */
  constructor(readonly configuration: MqttDoor) {
    const layers: Layer[] = [];
    const tls = tlsOf(configuration);
    if (tls !== undefined) {
      this.#terminator = new TlsTerminator(tls, readTlsFiles(tls, configuration.path));
      layers.push(tlsLayer(this.#terminator));
    }
    if (configuration.kind === "unix" && configuration.proxyProtocol) layers.push(proxyLayer);
    if (configuration.kind === "ws") {
      this.#origins = configuration;
      layers.push(webSocketLayer(tls !== undefined, () => this.#origins!));
    }
    this.#layers = layers;
  }

  /** Opens the address. @throws Error with one sentence naming the door and its address */
  bind(): void {
    const { configuration } = this;
    const where = configuration.kind === "unix" ? configuration.socket : configuration.address.text;
    try {
      if (configuration.kind === "unix") {
        this.#socket = UnixSocket.bind(configuration.socket, configuration.mode);
        this.#listener = this.#socket.listener;
      } else this.#listener = listen(configuration.address);
    } catch (error) {
      throw new Error(`${configuration.path}: cannot listen on ${where}: ${errorText(error)}`);
    }
  }

  /** As bound: `host:port`, with the port the system chose when 0 was asked, or the socket's path. */
  get address(): string {
    if (this.configuration.kind === "unix") return this.configuration.socket;
    return hostPort(this.#listener!.addr as Deno.NetAddr);
  }

  /** Accepts connections from now on. `identify`: who they are; nobody is anybody without it. */
  serve(
    broker: Broker,
    rules: ConnectRules,
    admission: Admission,
    identify: Identify = onlyProved,
  ): void {
    this.#admission = admission;
    this.#accepting = this.#accept(this.#listener!, admission, {
      broker,
      rules,
      identify,
      listener: this.configuration.name,
      layers: this.#layers,
      answersBusy: this.configuration.kind !== "ws",
      onOver: (opening) => this.#openings.delete(opening),
    });
  }

  async #accept(
    listener: Deno.Listener,
    admission: Admission,
    context: OpeningContext,
  ): Promise<void> {
    const { clock, limits, log, counters } = context.broker.context;
    const rate = new ConnectRate(limits.maxConnectRate, clock);
    let failing = false;
    while (!this.#closing) {
      const wait = rate.next();
      if (wait > 0) {
        await pause(wait);
        continue;
      }
      let conn: Deno.Conn;
      try {
        conn = await listener.accept();
      } catch (error) {
        if (this.#closing) return;
        // A client gone between its handshake and the accept, or no descriptor left.
        if (!failing) {
          log.warn("cannot accept a connection", {
            listener: context.listener,
            error: errorText(error),
          });
        }
        failing = true;
        await pause(EXHAUSTED_MS);
        continue;
      }
      failing = false;
      if (this.#closing) return conn.close();
      const place = admission.enter();
      if (place === undefined) {
        counters.connectionsRefused.add("server busy");
        conn.close();
        continue;
      }
      const opening = new Opening(context, new ConnLink(conn), this.#peer(conn), place);
      this.#openings.add(opening);
      void this.#run(opening);
    }
  }

  /** Peer address as logs print it. */
  #peer(conn: Deno.Conn): string {
    if (this.configuration.kind === "unix") return this.configuration.socket;
    (conn as Deno.TcpConn).setNoDelay(true);
    return hostPort(conn.remoteAddr as Deno.NetAddr);
  }

  async #run(opening: Opening): Promise<void> {
    const connection = await opening.run();
    if (connection === undefined) return;
    this.#connections.add(connection);
    await connection.run();
    this.#connections.delete(connection);
  }

  /**
   * Reads the files of this door again, and takes over what may change of `now`, the same door in the
   * configuration as it stands in the file; undefined when it is no longer there.
   *
   * @throws Error with one sentence naming the door, the key and the file; nothing has changed then
   */
  renew(now: MqttDoor | undefined): DoorRenewal {
    const tls = tlsOf(this.configuration);
    const material: TlsMaterial | undefined = tls === undefined
      ? undefined
      : readTlsFiles(tls, this.configuration.path);
    return {
      expires: material?.expires,
      apply: () => {
        if (material !== undefined) this.#terminator!.renew(material);
        if (this.configuration.kind === "ws" && now?.kind === "ws") this.#origins = now;
      },
    };
  }

  /** No new connections from now on; those that have sent no CONNECT are closed. Idempotent. */
  stopAccepting(): void {
    if (this.#closing || this.#listener === undefined) return;
    this.#closing = true;
    this.#admission?.stop();
    if (this.#socket === undefined) this.#listener.close();
    else {
      this.#socket.close();
      if (this.#accepting === undefined) this.#socket.abandon();
    }
    for (const opening of this.#openings) opening.cut();
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
    this.#socket?.release();
  }
}

function tlsOf(door: MqttDoor): TlsConfiguration | undefined {
  return door.kind === "unix" ? undefined : door.tls;
}

function listen({ host, port }: Address): Deno.TcpListener {
  return Deno.listen({ hostname: host === "" ? "0.0.0.0" : host, port, tcpBacklog: BACKLOG });
}

function hostPort({ hostname, port }: Deno.NetAddr): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Certificates and proxies alone tell who a client is. */
const onlyProved: Identify = ({ proved }) => Promise.resolve({ user: proved ?? "" });
