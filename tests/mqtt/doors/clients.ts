/** Clients of every kind of door, each a `WireClient` once its connection stands. */
import { join } from "../../support/mqtt_bytes.ts";
import { clientFrame, Opcode, parseServerFrame } from "../../support/web_socket_bytes.ts";
import { within } from "../../support/wait.ts";
import { type Carriage, WireClient } from "../../support/wire.ts";
import type { Certified } from "../../support/certificates.ts";

export interface TlsOptions {
  /** Who signs the broker's certificate. */
  readonly trust: Certified;
  /** The client's own. */
  readonly certified?: Certified;
}

/** A TLS connection whose handshake is over, as far as the client can tell. */
export async function tlsConnection(port: number, options: TlsOptions): Promise<Deno.TlsConn> {
  const conn = await Deno.connectTls({
    hostname: "localhost",
    port,
    caCerts: [options.trust.cert],
    ...options.certified === undefined
      ? {}
      : { cert: options.certified.cert, key: options.certified.key },
  });
  try {
    await conn.handshake();
    return conn;
  } catch (error) {
    conn.close();
    throw error;
  }
}

export async function tlsClient(port: number, options: TlsOptions): Promise<WireClient> {
  return WireClient.over(await tlsConnection(port, options));
}

/** The head of a request that a ws door upgrades. */
export function upgradeRequest(fields: Readonly<Record<string, string>> = {}): Uint8Array {
  const all = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "mqtt",
    ...fields,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return new TextEncoder().encode(`GET /mqtt HTTP/1.1\r\n${lines.join("")}\r\n`);
}

export async function sendAll(conn: Pick<Deno.Conn, "write">, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await conn.write(bytes.subarray(sent));
}

/** How long a test waits for the broker to close, where nothing else is said. */
const CLOSE_MS = 20_000;

/** Everything until the peer closes; a reset counts as that. @throws Error when it stays open */
export function readToEnd(conn: Pick<Deno.Conn, "read">): Promise<Uint8Array> {
  return within("the connection to be closed", readAll(conn), CLOSE_MS);
}

async function readAll(conn: Pick<Deno.Conn, "read">): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (;;) {
    const buffer = new Uint8Array(4_096);
    let count: number | null;
    try {
      count = await conn.read(buffer);
    } catch {
      count = null;
    }
    if (count === null) return join(...parts);
    parts.push(buffer.slice(0, count));
  }
}

/** The answer to a request, and what followed it. */
export async function request(
  conn: Pick<Deno.Conn, "read" | "write">,
  bytes: Uint8Array,
): Promise<{ head: string; rest: Uint8Array }> {
  await sendAll(conn, bytes);
  let have = new Uint8Array(0);
  for (;;) {
    const text = new TextDecoder("latin1").decode(have);
    const end = text.indexOf("\r\n\r\n");
    if (end >= 0) return { head: text.slice(0, end), rest: have.slice(end + 4) };
    const buffer = new Uint8Array(4_096);
    const count = await conn.read(buffer);
    if (count === null) throw new Error(`the stream ended after ${JSON.stringify(text)}`);
    have = join(have, buffer.subarray(0, count));
  }
}

/** An open WebSocket: every write is one binary message, control frames are kept aside. */
export class WebSocketCarriage implements Carriage {
  #unread: Uint8Array = new Uint8Array(0);
  #payload: Uint8Array = new Uint8Array(0);
  /** Of the close frame that came. */
  closeCode: number | undefined;
  readonly pongs: Uint8Array[] = [];

  private constructor(readonly conn: Pick<Deno.Conn, "read" | "write" | "close">) {}

  /** @throws Error with the answer's head when it is not an upgrade */
  static async open(
    conn: Pick<Deno.Conn, "read" | "write" | "close">,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<WebSocketCarriage> {
    const { head, rest } = await request(conn, upgradeRequest(fields));
    if (!head.startsWith("HTTP/1.1 101 ")) throw new Error(head);
    const carriage = new WebSocketCarriage(conn);
    carriage.#unread = rest;
    return carriage;
  }

  async write(bytes: Uint8Array): Promise<number> {
    await sendAll(this.conn, clientFrame({ payload: bytes }));
    return bytes.length;
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    while (this.#payload.length === 0) {
      const frame = parseServerFrame(this.#unread);
      if (frame !== undefined) {
        this.#unread = this.#unread.slice(frame.size);
        if (frame.opcode === Opcode.Binary) this.#payload = frame.payload;
        else if (frame.opcode === Opcode.Pong) this.pongs.push(frame.payload);
        else if (frame.opcode === Opcode.Close) {
          this.closeCode = frame.payload[0] << 8 | frame.payload[1];
        } else throw new Error(`a server's frame has the opcode ${frame.opcode}`);
        continue;
      }
      const more = new Uint8Array(64 * 1024);
      const count = await this.conn.read(more);
      if (count === null) return null;
      this.#unread = join(this.#unread, more.subarray(0, count));
    }
    const count = Math.min(buffer.length, this.#payload.length);
    buffer.set(this.#payload.subarray(0, count));
    this.#payload = this.#payload.slice(count);
    return count;
  }

  close(): void {
    this.conn.close();
  }
}

export async function tcpConnection(port: number): Promise<Deno.TcpConn> {
  const conn = await Deno.connect({ hostname: "127.0.0.1", port });
  conn.setNoDelay(true);
  return conn;
}

export async function webSocketClient(port: number): Promise<WireClient> {
  return WireClient.over(await WebSocketCarriage.open(await tcpConnection(port)));
}
