/**
 * The executable under a schedule: real sockets, real files, `kill -9`. Time is real, so what a schedule
 * waits is cut short, and what is timed has slack.
 */
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { sleep } from "../support/wait.ts";
import type { StorageKind } from "./schedule.ts";
import { type ClientWire, CONFIGURATION, type WireEvents, type World } from "./world.ts";

/** Nothing came for so long: everything has come. */
const QUIET_MS = 60;
const LONGEST_QUIET_MS = 5_000;
const LONGEST_PASS_MS = 2_500;

class Socket implements ClientWire {
  #writing: Promise<unknown> = Promise.resolve();
  /** Resolves when the broker's end is closed. */
  readonly ended: Promise<void>;
  #events: WireEvents | undefined;

  constructor(
    private readonly conn: Deno.TcpConn,
    events: WireEvents,
    private readonly moved: () => void,
  ) {
    this.#events = events;
    this.ended = this.#read();
  }

  async #read(): Promise<void> {
    const buffer = new Uint8Array(64 * 1024);
    for (;;) {
      const count = await this.conn.read(buffer).catch(() => null);
      if (count === null) break;
      this.moved();
      this.#events?.data(buffer.slice(0, count));
    }
    this.#events?.closed();
    this.#events = undefined;
    await this.#writing;
    this.conn.close();
  }

  send(bytes: Uint8Array): void {
    this.#writing = this.#writing.then(async () => {
      for (let sent = 0; sent < bytes.length;) sent += await this.conn.write(bytes.subarray(sent));
      // The broker may be dead, or done with the connection: what became of the bytes is then unknown.
    }).catch(() => undefined);
  }

  /** What was sent is still read; the broker closes its end when it finds out. */
  close(): void {
    this.#events = undefined;
    this.#writing = this.#writing.then(() => this.conn.closeWrite()).catch(() => undefined);
  }
}

export class ProcessWorld implements World {
  readonly slackMs = 1_500;
  readonly deafness = false;
  #sockets = new Set<Socket>();
  #movedAt = 0;

  private constructor(private readonly broker: BrokerProcess) {}

  static async open(storage: StorageKind): Promise<ProcessWorld> {
    const broker = await BrokerProcess.start((place) =>
      configurationText(place, {
        provider: storage,
        logLevel: "error",
        ...(storage === "memory" && { snapshotDir: place.directory }),
        ...CONFIGURATION,
      })
    );
    return new ProcessWorld(broker);
  }

  get now(): number {
    return performance.now();
  }

  async open(events: WireEvents): Promise<ClientWire> {
    const conn = await Deno.connect({ hostname: "127.0.0.1", port: this.broker.port });
    const socket = new Socket(conn, events, () => this.#movedAt = this.now);
    this.#sockets.add(socket);
    void socket.ended.then(() => this.#sockets.delete(socket));
    return socket;
  }

  async turns(count: number): Promise<void> {
    await sleep(count);
  }

  async settle(): Promise<void> {
    const began = this.now;
    this.#movedAt = began;
    while (this.now - this.#movedAt < QUIET_MS && this.now - began < LONGEST_QUIET_MS) {
      await sleep(QUIET_MS / 4);
    }
  }

  async pass(ms: number): Promise<void> {
    await sleep(Math.min(ms, LONGEST_PASS_MS));
  }

  async crash(): Promise<void> {
    await this.broker.kill();
    await this.#begin();
  }

  async restart(): Promise<void> {
    const { code } = await this.broker.stop();
    if (code !== 0) throw new Error(`the broker stopped with ${code}`);
    await this.#begin();
  }

  /** What the dead one wrote is read to its end before the next one is there. */
  async #begin(): Promise<void> {
    await Promise.all([...this.#sockets].map(({ ended }) => ended));
    await this.broker.startAgain();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.broker[Symbol.asyncDispose]();
    await Promise.all([...this.#sockets].map(({ ended }) => ended));
  }
}
