import type { Address, TlsConfiguration } from "../config/configuration.ts";
import { errorText, type Log } from "../platform/log.ts";
import type { ConnectRate } from "./admission.ts";
import { ConnLink } from "./conn_link.ts";
import { type Accepted, type Layer, proxyLayer, tlsLayer } from "./layers.ts";
import { readTlsFiles } from "./tls_files.ts";
import { TlsTerminator } from "./tls_terminator.ts";
import { UnixSocket } from "./unix_socket.ts";

/** Connections the kernel keeps while they wait to be accepted. */
const BACKLOG = 1_024;

/** How long accepting rests when the process is out of descriptors. */
const EXHAUSTED_MS = 100;

/** What a listener needs of its door's configuration, whatever protocol is spoken there. */
export type ListenerConfiguration = PortConfiguration | SocketConfiguration;

interface Named {
  /** The listener id of logs and routes. */
  readonly name: string;
  /** How errors call the door: `broker.mqtt.listen.tcp`. */
  readonly path: string;
}

interface PortConfiguration extends Named {
  readonly kind: "tcp" | "ws";
  readonly address: Address;
  readonly tls: TlsConfiguration | undefined;
}

interface SocketConfiguration extends Named {
  readonly kind: "unix";
  /** Absolute, or `@name` for an abstract one. */
  readonly socket: string;
  /** Permission bits. */
  readonly mode: number;
  readonly proxyProtocol: boolean;
}

/** What a reload has read for one door and not yet put into force. */
export interface Renewal {
  /** When the door's certificate ends; undefined for a door without TLS. */
  readonly expires: Date | undefined;
  /** Cannot fail. Later connections are served by what was read; open ones keep what they have. */
  apply(): void;
}

/**
 * One address that connections come in by, whatever is spoken over them:
 *
 *     made (files read) -> bound -> accepting -> closed -> released
 *                              \-> abandoned (never accepted: as if it had not been bound)
 *
 * Its files are read when it is made and its address is opened by `bind`, both before storage is touched,
 * so that a bad certificate or a port in use changes nothing. It does not own the connections.
 */
export class Listener {
  /** Between the socket and the protocol: TLS, or the PROXY header. */
  readonly layers: readonly Layer[];
  readonly #terminator: TlsTerminator | undefined;
  #listener: Deno.Listener | undefined;
  #socket: UnixSocket | undefined;
  #closed = false;
  #accepting: Promise<void> | undefined;

  /** @throws Error with one sentence naming the door, the key and the file */
  constructor(private readonly configuration: ListenerConfiguration) {
    const layers: Layer[] = [];
    if (configuration.kind === "unix") {
      if (configuration.proxyProtocol) layers.push(proxyLayer);
    } else if (configuration.tls !== undefined) {
      const { tls, path } = configuration;
      this.#terminator = new TlsTerminator(tls, readTlsFiles(tls, path));
      layers.push(tlsLayer(this.#terminator));
    }
    this.layers = layers;
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
      const help = error instanceof Deno.errors.AddrInUse
        ? "; stop what listens there, or write another address"
        : "";
      throw new Error(
        `${configuration.path}: cannot listen on ${where}: ${errorText(error)}${help}`,
      );
    }
  }

  /** As bound: `host:port`, with the port the system chose when 0 was asked, or the socket's path. */
  get address(): string {
    if (this.configuration.kind === "unix") return this.configuration.socket;
    return hostPort(this.#listener!.addr as Deno.NetAddr);
  }

  /** Nobody new gets in any more. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Hands every connection from now on to `take`, which owns it and does not throw.
   *
   * @param rate how fast they are taken from the kernel's queue; as fast as they come without it
   */
  accept(take: (accepted: Accepted) => void, log: Log, rate?: ConnectRate): void {
    this.#accepting = this.#accept(this.#listener!, take, log, rate);
  }

  async #accept(
    listener: Deno.Listener,
    take: (accepted: Accepted) => void,
    log: Log,
    rate: ConnectRate | undefined,
  ): Promise<void> {
    let failing = false;
    while (!this.#closed) {
      const wait = rate?.next() ?? 0;
      if (wait > 0) {
        await pause(wait);
        continue;
      }
      let accepted: Accepted;
      try {
        accepted = this.#accepted(await listener.accept());
      } catch (error) {
        if (this.#closed) return;
        // A client gone between its handshake and the accept, or no descriptor left.
        if (!failing) {
          log.warn("cannot accept a connection", {
            listener: this.configuration.name,
            error: errorText(error),
          });
        }
        failing = true;
        await pause(EXHAUSTED_MS);
        continue;
      }
      failing = false;
      if (this.#closed) accepted.link.close();
      else take(accepted);
    }
  }

  /** @throws Error when the peer is gone already, where the system says so; the connection is closed */
  #accepted(conn: Deno.Conn): Accepted {
    const link = new ConnLink(conn);
    if (this.configuration.kind === "unix") return { link, address: this.configuration.socket };
    try {
      (conn as Deno.TcpConn).setNoDelay(true);
      return { link, address: hostPort(conn.remoteAddr as Deno.NetAddr) };
    } catch (error) {
      link.close();
      throw error;
    }
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

  /** No new connections from now on; one that has never accepted leaves nothing behind. Idempotent. */
  close(): void {
    if (this.#closed || this.#listener === undefined) return;
    this.#closed = true;
    if (this.#socket === undefined) this.#listener.close();
    else {
      this.#socket.close();
      if (this.#accepting === undefined) this.#socket.abandon();
    }
  }

  /** Resolves, after `close`, when nothing more will be handed to `take`. */
  async ended(): Promise<void> {
    await this.#accepting;
  }

  /** Gives the claim on a socket's path back, after `close`. */
  release(): void {
    this.#socket?.release();
  }
}

const NOTHING_TO_RENEW: Renewal = { expires: undefined, apply: () => {} };

/** No host is every address of the machine, of IPv6 too where it has that. */
function listen({ host, port }: Address): Deno.TcpListener {
  const at = (hostname: string, port: number) =>
    Deno.listen({ hostname, port, tcpBacklog: BACKLOG });
  if (host !== "") return at(host, port);
  let both: Deno.TcpListener;
  try {
    both = at("::", port);
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) throw error;
    return at("0.0.0.0", port);
  }
  try {
    // Where the system keeps the two apart, `::` is IPv6 alone and this is free: then IPv4 it is.
    const four = at("0.0.0.0", both.addr.port);
    both.close();
    return four;
  } catch {
    return both;
  }
}

/** An IPv4 peer of a socket for both is written as what it is. */
function hostPort({ hostname: written, port }: Deno.NetAddr): string {
  const hostname = written.replace(/^::ffff:(?=\d+\.)/, "");
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
