/** HTTP as bytes: what a client writes, and what stands on the wire after it. */
import { ANSWER_MS, within } from "./wait.ts";

export interface RawAnswer {
  readonly status: number;
  /** By lower-case name; of several the last. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  readonly bytes: Uint8Array;
}

export type Where = Deno.ConnectOptions | Deno.UnixConnectOptions;

/** One connection on which requests are written as text. */
export class RawHttp {
  #bytes = new Uint8Array(0);

  private constructor(private readonly conn: Deno.Conn) {}

  static async open(where: Where): Promise<RawHttp> {
    return new RawHttp(
      "path" in where
        ? await Deno.connect({ transport: "unix", path: where.path })
        : await Deno.connect(where),
    );
  }

  async write(text: string | Uint8Array): Promise<void> {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    for (let written = 0; written < bytes.length;) {
      written += await this.conn.write(bytes.subarray(written));
    }
  }

  /** The next answer; `bodiless` for one to HEAD. */
  async answer(bodiless = false): Promise<RawAnswer> {
    const head = await this.#until("\r\n\r\n");
    const [line, ...fields] = head.slice(0, -4).split("\r\n");
    const headers = new Map<string, string>();
    for (const field of fields) {
      const colon = field.indexOf(":");
      headers.set(field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim());
    }
    const length = bodiless ? 0 : Number(headers.get("content-length") ?? 0);
    while (this.#bytes.length < length) await this.#more();
    const bytes = this.#bytes.slice(0, length);
    this.#bytes = this.#bytes.slice(length);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1]);
    return { status, headers, body: new TextDecoder().decode(bytes), bytes };
  }

  /** Resolves when the other side has closed; answers what came before. */
  async closed(ms = ANSWER_MS): Promise<string> {
    return await within("the end of the connection", this.#rest(), ms);
  }

  async #rest(): Promise<string> {
    try {
      while (await this.#read());
    } catch {
      // A reset is an end too.
    }
    return new TextDecoder().decode(this.#bytes);
  }

  async #until(mark: string): Promise<string> {
    for (;;) {
      const text = new TextDecoder("latin1").decode(this.#bytes);
      const at = text.indexOf(mark);
      if (at >= 0) {
        this.#bytes = this.#bytes.slice(at + mark.length);
        return text.slice(0, at + mark.length);
      }
      await this.#more();
    }
  }

  async #more(): Promise<void> {
    if (!await within("an answer", this.#read())) {
      throw new Error("the connection ended before its answer");
    }
  }

  async #read(): Promise<boolean> {
    const bytes = new Uint8Array(64 * 1024);
    const count = await this.conn.read(bytes);
    if (count === null) return false;
    const grown = new Uint8Array(this.#bytes.length + count);
    grown.set(this.#bytes);
    grown.set(bytes.subarray(0, count), this.#bytes.length);
    this.#bytes = grown;
    return true;
  }

  [Symbol.dispose](): void {
    try {
      this.conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

/** One request of its own connection. */
export async function ask(
  where: Where,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  method = "GET",
): Promise<RawAnswer> {
  using http = await RawHttp.open(where);
  const all = { Host: "127.0.0.1", Connection: "close", ...headers };
  const fields = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  await http.write(`${method} ${path} HTTP/1.1\r\n${fields}\r\n`);
  return await http.answer(method === "HEAD");
}

/** The Authorization field of a user. */
export function basic(user: string, password: string): Readonly<Record<string, string>> {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  return { Authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` };
}
