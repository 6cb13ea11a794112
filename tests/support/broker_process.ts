/**
 * A broker as its users run it: the executable, a configuration file, a port, files on a real disk.
 * SAGUIN_BIN names the executable; without it bin/saguin of this clone is used.
 */
import { encodeConnect, encodeDisconnect } from "./mqtt_bytes.ts";
import { freePort } from "./ports.ts";
import { ANSWER_MS, patient, sleep, until, within } from "./wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** How long a broker may take to open its port. CI machines are slow at the first start. */
const START_MS = patient(30_000);
/** How long a graceful stop may take on such a machine. */
const STOP_MS = patient(30_000);

/** Where one broker lives: what a configuration text needs to know. */
export interface Place {
  /** Absolute, empty at first, on a real disk. */
  readonly directory: string;
  /** Free on every interface when it was picked. */
  readonly port: number;
  /** A path inside `directory`; nothing is there yet. */
  readonly database: string;
}

/** The parts of a configuration that tests vary; the rest is the least that loads. */
export interface Parts {
  /** Of the default provider. */
  readonly provider?: "sqlite" | "memory";
  /** Of a memory provider; absent, nothing outlives the process. */
  readonly snapshotDir?: string;
  readonly acknowledge?: "committed" | "synced";
  readonly logLevel?: "debug" | "info" | "warn" | "error";
  /**
   * The lines below `broker.mqtt.listen:`, not indented, in place of one plain TCP door; there has to be
   * such a door on the place's port all the same.
   */
  readonly listen?: string;
  /** Further keys of the default provider, one `key: value` a line. */
  readonly providerKeys?: string;
  /** The lines below `broker.limits:`, not indented. */
  readonly limits?: string;
  /** Further blocks below `broker:`, not indented, such as `session:` with its keys. */
  readonly broker?: string;
  /** The lines below `channels:`, not indented; absent leaves every topic to broadcast. */
  readonly channels?: string;
  /** The lines below `ingest:`, not indented. */
  readonly ingest?: string;
}

/** A configuration file's text: one TCP door on loopback, one provider, keep everything. */
export function configurationText(place: Place, parts: Parts = {}): string {
  const provider = parts.provider ?? "sqlite";
  const lines = [
    "broker:",
    "  id: test",
    `  log_level: ${parts.logLevel ?? "info"}`,
    "  mqtt:",
    "    listen:",
    indented(parts.listen ?? `tcp:\n  address: 127.0.0.1:${place.port}`, 6),
    "  storage:",
    "    default: store",
    "    default_retention_period: none",
    "    default_retention_bytes: none",
    "    providers:",
    "      store:",
    `        type: ${provider}`,
    provider === "sqlite"
      ? `        file_path: ${place.database}`
      : `        snapshot_dir: ${parts.snapshotDir ?? "none"}`,
  ];
  if (parts.acknowledge !== undefined) lines.push(`        acknowledge: ${parts.acknowledge}`);
  if (parts.providerKeys !== undefined) lines.push(indented(parts.providerKeys, 8));
  if (parts.limits !== undefined) lines.push("  limits:", indented(parts.limits, 4));
  if (parts.broker !== undefined) lines.push(indented(parts.broker, 2));
  if (parts.channels !== undefined) lines.push("channels:", indented(parts.channels, 2));
  if (parts.ingest !== undefined) lines.push("ingest:", indented(parts.ingest, 2));
  return lines.join("\n") + "\n";
}

function indented(text: string, spaces: number): string {
  return text.trim().split("\n").map((line) => " ".repeat(spaces) + line).join("\n");
}

/** How a process ended: its exit code, or the signal that killed it. */
export interface Ended {
  readonly code: number;
  readonly signal: string | null;
}

/** A process that ran to its end, with everything it wrote. */
export interface Outcome extends Ended {
  readonly stdout: string;
  readonly stderr: string;
}

/** The executable under test. */
export function executable(): string {
  const path = Deno.env.get("SAGUIN_BIN") ?? ROOT + "bin/saguin";
  try {
    Deno.statSync(path);
  } catch {
    throw new Error(`there is no ${path}: run "make bin/saguin" first, or set SAGUIN_BIN`);
  }
  return path;
}

/** A fresh directory below run/, which lies on the disk of the clone and not on a memory disk. */
export function temporaryPlace(): Place {
  const parent = ROOT + "run/tests/";
  Deno.mkdirSync(parent, { recursive: true });
  const directory = Deno.makeTempDirSync({ dir: parent });
  return { directory, port: freePort(), database: directory + "/broker.db" };
}

/** Runs the executable with `args` to its end; for command lines and for starts that are refused. */
export async function runToEnd(args: readonly string[], timeoutMs = START_MS): Promise<Outcome> {
  const child = new Deno.Command(executable(), {
    args: [...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const decoder = new TextDecoder();
  try {
    const output = await within(`the end of ${args.join(" ")}`, child.output(), timeoutMs);
    return {
      code: output.code,
      signal: output.signal,
      stdout: decoder.decode(output.stdout),
      stderr: decoder.decode(output.stderr),
    };
  } catch (error) {
    try {
      child.kill("SIGKILL");
    } catch {
      // It ended between the deadline and here.
    }
    throw error;
  }
}

/**
 * One broker, over any number of starts on the same files.
 *
 * ```ts
 * await using broker = await BrokerProcess.start((place) => configurationText(place));
 * const client = await WireClient.open(broker.port);
 * ```
 * Leaving the scope kills it and removes its directory.
 */
export class BrokerProcess {
  /** Lines of standard output of every start so far, oldest first. */
  readonly lines: string[] = [];
  #child: Deno.ChildProcess | undefined;
  #ended: Promise<Ended> = Promise.resolve({ code: 0, signal: null });
  #alive = false;

  /** What the next start runs, before `--config`; undefined: the executable under test. */
  command: readonly string[] | undefined;

  /** When a start is over, for a broker whose port is no plain TCP door. */
  ready: (port: number) => Promise<boolean> = answers;

  private constructor(readonly place: Place, readonly configurationPath: string) {}

  /**
   * Writes the configuration and starts. Returns when it answers.
   * @param command what `BrokerProcess.command` is to be, of the broker's directory
   * @param ready what `BrokerProcess.ready` is to be
   * @throws Error with the broker's output when it exits or stays deaf
   */
  static async start(
    text: (place: Place) => string,
    place = temporaryPlace(),
    command?: (directory: string) => readonly string[],
    ready = answers,
  ) {
    const path = place.directory + "/saguin.yaml";
    const broker = new BrokerProcess(place, path);
    broker.command = command?.(place.directory);
    broker.ready = ready;
    broker.configure(text);
    try {
      await broker.startAgain();
    } catch (error) {
      await broker[Symbol.asyncDispose]();
      throw error;
    }
    return broker;
  }

  /** Replaces the configuration that the next start reads. */
  configure(text: (place: Place) => string): void {
    Deno.writeTextFileSync(this.configurationPath, text(this.place));
  }

  get port(): number {
    return this.place.port;
  }

  get database(): string {
    return this.place.database;
  }

  get directory(): string {
    return this.place.directory;
  }

  /** Of the running process. */
  get pid(): number {
    if (this.#child === undefined) throw new Error("the broker is not running");
    return this.#child.pid;
  }

  get running(): boolean {
    return this.#alive;
  }

  /** How the process of the last start ended, once it has. */
  get ended(): Promise<Ended> {
    return this.#ended;
  }

  /** Starts on the files that are there; returns when the broker answers. */
  async startAgain(): Promise<void> {
    const from = this.lines.length;
    this.launch();
    try {
      await until(`the broker on port ${this.port} to answer`, () => {
        if (!this.#alive) throw new Error("the broker exited");
        return this.ready(this.port);
      }, START_MS);
      // Its output comes another way than its answers: what it wrote before them is read too.
      for (let read = -1; read !== this.lines.length; await sleep(1)) read = this.lines.length;
    } catch (error) {
      await this.kill();
      const { code, signal } = await this.#ended;
      const output = this.lines.slice(from).join("\n");
      throw new Error(
        `${(error as Error).message}; it ended with ${signal ?? code} and wrote:\n${output}`,
      );
    }
  }

  /** Starts the process and waits for nothing: for tests that disturb the start itself. */
  launch(): void {
    if (this.#alive) throw new Error("the broker is already running");
    const [program, ...args] = this.command ?? [executable()];
    const child = new Deno.Command(program, {
      args: [...args, "--config", this.configurationPath],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#child = child;
    this.#alive = true;
    const read = Promise.all([this.#collect(child.stdout), this.#collect(child.stderr)]);
    this.#ended = child.status.then(async ({ code, signal }) => {
      await read;
      this.#alive = false;
      return { code, signal };
    });
  }

  /** SIGKILL, and the wait until the process is gone. A no-op when it does not run. */
  async kill(): Promise<void> {
    this.#send("SIGKILL");
    await this.#ended;
  }

  signal(signal: Deno.Signal): void {
    if (!this.#send(signal)) throw new Error("the broker is not running");
  }

  /** SIGTERM; answers how the broker ended. */
  async stop(): Promise<Ended> {
    this.signal("SIGTERM");
    return await within("the broker's end after SIGTERM", this.#ended, STOP_MS);
  }

  /** The first line so far or from now on that `pattern` matches. */
  line(pattern: RegExp, timeoutMs = ANSWER_MS): Promise<string> {
    return until(
      `a line like ${pattern}`,
      () => this.lines.find((line) => pattern.test(line)),
      timeoutMs,
    );
  }

  /** Resident memory of the process, bytes. Linux. */
  residentBytes(): number {
    return statusKiB(this.pid, "VmRSS") * 1024;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await Deno.remove(this.place.directory, { recursive: true });
  }

  #send(signal: Deno.Signal): boolean {
    if (this.#child === undefined || !this.#alive) return false;
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      return false;
    }
    return true;
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    let rest = "";
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + text).split("\n");
      rest = parts.pop()!;
      this.lines.push(...parts);
    }
    if (rest !== "") this.lines.push(rest);
  }
}

/**
 * Whether a CONNECT is answered, with whatever code: an open port is not enough, since doors are bound
 * before storage is.
 */
async function answers(port: number): Promise<boolean> {
  let socket: Deno.TcpConn;
  try {
    socket = await Deno.connect({ hostname: "127.0.0.1", port });
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return false;
    throw error;
  }
  try {
    await socket.write(encodeConnect({ level: 4, clientId: "is-it-ready" }));
    if (await socket.read(new Uint8Array(64)) === null) return false;
    await socket.write(encodeDisconnect());
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionReset) return false;
    if (error instanceof Deno.errors.BrokenPipe) return false;
    throw error;
  } finally {
    socket.close();
  }
}

/** A figure of /proc/<pid>/status, in KiB as the kernel writes it. */
function statusKiB(pid: number, field: string): number {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(
    Deno.readTextFileSync(`/proc/${pid}/status`),
  );
  if (found === null) throw new Error(`/proc/${pid}/status has no ${field}`);
  return Number(found[1]);
}
