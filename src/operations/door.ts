import type { Address, OperationsDoor } from "../config/configuration.ts";
import type { ByteLink } from "../mqtt/doors/byte_link.ts";
import { ConnLink } from "../mqtt/doors/conn_link.ts";
import { proxyLayer } from "../mqtt/doors/layers.ts";
import { readTlsFiles } from "../mqtt/doors/tls_files.ts";
import { TlsTerminator } from "../mqtt/doors/tls_terminator.ts";
import { UnixSocket } from "../mqtt/doors/unix_socket.ts";
import type { Clock } from "../platform/clock.ts";
import { errorText, type Log } from "../platform/log.ts";
import type { Timers } from "../platform/timers.ts";
import type { Peer } from "./access.ts";
import { HttpConnection } from "./http/connection.ts";
import type { HttpRequest, HttpResponse } from "./http/message.ts";

/** Connections the kernel keeps while they wait to be accepted. */
const BACKLOG = 128;

/** How long accepting rests when the process is out of descriptors. */
const EXHAUSTED_MS = 100;

/**
 * Connections of one door at a time: a browser opens six, a scraper one. Past it the one that has been
 * without a request for longest goes; with every one at work, the newcomer does.
 */
export const MOST_CONNECTIONS = 64;

/** How long a TLS handshake may take. */
const HANDSHAKE_MS = 10_000;

/** A request, and what its connection says of whoever sent it. */
export type Answer = (request: HttpRequest, peer: Peer) => Promise<HttpResponse>;

/** What a reload has read for one door and not yet put into force. */
export interface Renewal {
  /** When the door's certificate ends; undefined for a door without TLS. */
  readonly expires: Date | undefined;
  /** Cannot fail. Later connections are served by what was read. */
  apply(): void;
}

const NOTHING_TO_RENEW: Renewal = { expires: undefined, apply: () => {} };

export interface DoorSurroundings {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
}

/**
 * One operations listener. Its files are read when it is made and its address is opened by `bind`, both
 * before storage is touched; it accepts only once the broker runs.
 */
export class Door {
  readonly #terminator: TlsTerminator | undefined;
  #listener: Deno.Listener | undefined;
  #socket: UnixSocket | undefined;
  #closing = false;
  /** In the order in which they came. */
  readonly #connections = new Set<HttpConnection>();
  /** Connections that are not served yet: a handshake, a PROXY header. */
  readonly #opening = new Set<ByteLink>();

  /** @throws Error with one sentence naming the door, the key and the file */
  constructor(
    readonly configuration: OperationsDoor,
    private readonly on: DoorSurroundings,
  ) {
    if (configuration.kind === "tcp" && configuration.tls !== undefined) {
      const material = readTlsFiles(configuration.tls, configuration.path);
      this.#terminator = new TlsTerminator(configuration.tls, material);
    }
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

  /** As bound: `host:port`, or the socket's path. */
  get address(): string {
    if (this.configuration.kind === "unix") return this.configuration.socket;
    return hostPort(this.#listener!.addr as Deno.NetAddr);
  }

  /** Accepts connections from now on. */
  serve(answer: Answer): void {
    void this.#accept(this.#listener!, answer);
  }

  async #accept(listener: Deno.Listener, answer: Answer): Promise<void> {
    let failing = false;
    while (!this.#closing) {
      let conn: Deno.Conn;
      try {
        conn = await listener.accept();
      } catch (error) {
        if (this.#closing) return;
        if (!failing) {
          this.on.log.warn("cannot accept a connection", {
            listener: this.configuration.name,
            error: errorText(error),
          });
        }
        failing = true;
        await pause(EXHAUSTED_MS);
        continue;
      }
      failing = false;
      if (this.#closing || !this.#makeRoom()) conn.close();
      else void this.#serve(conn, answer);
    }
  }

  #makeRoom(): boolean {
    if (this.#connections.size + this.#opening.size < MOST_CONNECTIONS) return true;
    for (const connection of this.#connections) {
      if (!connection.idle) continue;
      this.#connections.delete(connection);
      connection.cut();
      return true;
    }
    return false;
  }

  async #serve(conn: Deno.Conn, answer: Answer): Promise<void> {
    const { clock, timers, log } = this.on;
    const link = new ConnLink(conn);
    this.#opening.add(link);
    const deadline = timers.after(HANDSHAKE_MS, () => link.close());
    const opened = await this.#open(link, this.#peerAddress(conn));
    deadline.cancel();
    this.#opening.delete(link);
    if (opened === undefined || this.#closing) {
      link.close();
      return;
    }
    const { peer } = opened;
    const connection = new HttpConnection(opened.link, {
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

  #peerAddress(conn: Deno.Conn): string {
    if (this.configuration.kind === "unix") return this.configuration.socket;
    (conn as Deno.TcpConn).setNoDelay(true);
    return hostPort(conn.remoteAddr as Deno.NetAddr);
  }

  /** Undefined when the connection is not to be served; the reason is logged. */
  async #open(
    link: ByteLink,
    address: string,
  ): Promise<{ readonly link: ByteLink; readonly peer: Peer } | undefined> {
    const { kind, name: listener } = this.configuration;
    const { log, timers } = this.on;
    if (this.#terminator !== undefined) {
      const secured = await this.#terminator.secure(link);
      if ("refused" in secured) {
        log.warn("refused a connection in its TLS handshake", {
          listener,
          address,
          reason: secured.refused,
        });
        return undefined;
      }
      const certificate = secured.certificate ? { name: secured.name } : undefined;
      return { link: secured.link, peer: { kind, certificate } };
    }
    if (this.configuration.kind === "unix" && this.configuration.proxyProtocol) {
      const carried = await proxyLayer({ link, address, proved: undefined }, {
        log,
        timers,
        listener,
        ending: () => {},
      });
      if (carried === undefined) return undefined;
      const { proved } = carried;
      const certificate = proved === undefined ? undefined : { name: proved };
      return { link: carried.link, peer: { kind, certificate } };
    }
    return { link, peer: { kind, certificate: undefined } };
  }

  /**
   * Reads the certificate files again.
   * @throws Error with one sentence naming the door, the key and the file; nothing has changed then
   */
  renew(): Renewal {
    const { configuration } = this;
    if (configuration.kind === "unix" || configuration.tls === undefined) return NOTHING_TO_RENEW;
    const material = readTlsFiles(configuration.tls, configuration.path);
    return { expires: material.expires, apply: () => this.#terminator!.renew(material) };
  }

  /** No new connections from now on, and no further requests. Idempotent. */
  stop(): void {
    if (this.#closing || this.#listener === undefined) return;
    this.#closing = true;
    if (this.#socket === undefined) this.#listener.close();
    else {
      this.#socket.close();
      this.#socket.release();
    }
    for (const link of this.#opening) link.close();
    for (const connection of this.#connections) connection.cut();
  }
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
