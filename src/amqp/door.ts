import type { Context } from "../broker/context.ts";
import type { TcpDoor } from "../config/configuration.ts";
import { type Admission, ConnectRate, type Place } from "../mqtt/doors/admission.ts";
import { ConnLink } from "../mqtt/doors/conn_link.ts";
import { type Carried, type Layer, tlsLayer } from "../mqtt/doors/layers.ts";
import { readTlsFiles, type TlsMaterial } from "../mqtt/doors/tls_files.ts";
import { TlsTerminator } from "../mqtt/doors/tls_terminator.ts";
import { errorText } from "../platform/log.ts";
import type { Amqp } from "./amqp.ts";
import { AmqpConnection } from "./connection.ts";
import type { Access } from "./login.ts";

/** Connections the kernel keeps while they wait to be accepted. */
const BACKLOG = 1_024;

/** How long accepting rests when the process is out of descriptors. */
const EXHAUSTED_MS = 100;

/**
 * One AMQP listener, AMQPS where it has a `tls` block. Its files are read when it is made and its
 * address is opened by `bind`, both before storage is touched; it accepts only once the broker runs.
 */
export class AmqpDoor {
  readonly #terminator: TlsTerminator | undefined;
  #listener: Deno.TcpListener | undefined;
  #accepting: Promise<void> | undefined;
  #closing = false;
  readonly #connections = new Set<AmqpConnection>();
  /** Sockets whose TLS handshake is under way. */
  readonly #opening = new Set<ConnLink>();

  /** @throws Error with one sentence naming the door, the key and the file */
  constructor(readonly configuration: TcpDoor, private readonly access: Access) {
    const { tls, path } = configuration;
    if (tls !== undefined) this.#terminator = new TlsTerminator(tls, readTlsFiles(tls, path));
  }

  /** Opens the address. @throws Error with one sentence naming the door and its address */
  bind(): void {
    const { address: { host, port, text }, path } = this.configuration;
    try {
      const hostname = host === "" ? "0.0.0.0" : host;
      this.#listener = Deno.listen({ hostname, port, tcpBacklog: BACKLOG });
    } catch (error) {
      throw new Error(`${path}: cannot listen on ${text}: ${errorText(error)}`);
    }
  }

  /** As bound: `host:port`, with the port the system chose when 0 was asked. */
  get address(): string {
    return hostPort(this.#listener!.addr);
  }

  /** Reads the certificate files again; what is returned puts them in force and cannot fail. */
  renew(): { readonly expires: Date | undefined; apply(): void } {
    const { tls, path } = this.configuration;
    const material: TlsMaterial | undefined = tls === undefined
      ? undefined
      : readTlsFiles(tls, path);
    return {
      expires: material?.expires,
      apply: () => {
        if (material !== undefined) this.#terminator!.renew(material);
      },
    };
  }

  /** Accepts connections from now on; they count with all others against `max_connections` (C4). */
  serve(amqp: Amqp, context: Context, admission: Admission): void {
    this.#accepting = this.#accept(this.#listener!, amqp, context, admission);
  }

  async #accept(
    listener: Deno.TcpListener,
    amqp: Amqp,
    context: Context,
    admission: Admission,
  ): Promise<void> {
    const { limits, clock, log, counters } = context;
    const rate = new ConnectRate(limits.maxConnectRate, clock);
    let failing = false;
    while (!this.#closing) {
      const wait = rate.next();
      if (wait > 0) {
        await pause(wait);
        continue;
      }
      let conn: Deno.TcpConn;
      try {
        conn = await listener.accept();
      } catch (error) {
        if (this.#closing) return;
        // A client gone between its handshake and the accept, or no descriptor left.
        if (!failing) {
          const listener = this.configuration.name;
          log.warn("cannot accept a connection", { listener, error: errorText(error) });
        }
        failing = true;
        await pause(EXHAUSTED_MS);
        continue;
      }
      failing = false;
      const place = this.#closing ? undefined : admission.enter();
      if (place === undefined || !place.hasSlot) {
        if (!this.#closing) counters.connectionsRefused.add("server busy");
        place?.leave();
        conn.close();
        continue;
      }
      void this.#run(conn, place, amqp, context);
    }
  }

  async #run(conn: Deno.TcpConn, place: Place, amqp: Amqp, context: Context): Promise<void> {
    try {
      const carried = await this.#carry(conn, amqp, context);
      if (carried === undefined || this.#closing) return;
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

  /** The TLS handshake counts against the time the AMQP handshake has. */
  async #carry(
    conn: Deno.TcpConn,
    amqp: Amqp,
    { log, timers }: Context,
  ): Promise<Carried | undefined> {
    conn.setNoDelay(true);
    const link = new ConnLink(conn);
    const below: Carried = { link, address: hostPort(conn.remoteAddr), proved: undefined };
    if (this.#terminator === undefined) return below;
    const layer: Layer = tlsLayer(this.#terminator);
    this.#opening.add(link);
    const deadline = timers.after(amqp.handshakeTimeoutMs, () => link.close());
    try {
      const listener = this.configuration.name;
      return await layer(below, { log, timers, listener, ending: () => {} });
    } finally {
      deadline.cancel();
      this.#opening.delete(link);
    }
  }

  /** No new connections from now on. Idempotent. */
  stopAccepting(): void {
    if (this.#closing || this.#listener === undefined) return;
    this.#closing = true;
    this.#listener.close();
    for (const link of this.#opening) link.close();
  }

  /** Tells every client, waits for its answer a moment, then cuts (A16). */
  async drain(deadlineMs: number): Promise<void> {
    await this.#accepting;
    const connections = [...this.#connections];
    for (const connection of connections) connection.stop();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const deadline = new Promise<void>((resolve) => timer = setTimeout(resolve, deadlineMs));
    await Promise.race([Promise.all(connections.map(({ closed }) => closed)), deadline]);
    clearTimeout(timer);
    for (const connection of connections) connection.cut();
    await Promise.all(connections.map(({ closed }) => closed));
  }
}

function hostPort({ hostname, port }: Deno.NetAddr): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
