import type { NewFile, SnapshotDirectory } from "../../../src/storage/snapshot/directory.ts";

/** Thrown by every call from the moment the process "dies". */
export class Death extends Error {}

interface Inode {
  written: Uint8Array;
  synced: Uint8Array;
}

/**
 * A directory that keeps apart what was written and what was synced, so that a power cut can forget the
 * difference. Every call is a named point: `sync events.tmp`, `rename events.snapshot`, `sync directory`.
 */
export class ForgetfulDirectory implements SnapshotDirectory {
  #names = new Map<string, Inode>();
  #durable = new Map<string, Inode>();
  readonly trace: string[] = [];
  /** The call at which the process dies, counted from `trace`; it and all after it do nothing. */
  diesAt = Infinity;
  /** The points that fail, each with a message, while the process lives on. */
  readonly failing = new Map<string, string>();
  /** Calls that were begun and have not ended, by kind. */
  readonly #open = new Set<string>();
  mostOpen = 0;

  constructor(readonly path: string) {}

  #point(point: string): void {
    if (this.trace.length >= this.diesAt) throw new Death(point);
    this.trace.push(point);
    const failure = this.failing.get(point);
    if (failure !== undefined) throw new Error(failure);
  }

  list(): Promise<readonly string[]> {
    return Promise.resolve([...this.#names.keys()]);
  }

  read(file: string): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.#names.get(file)?.written.slice());
  }

  // deno-lint-ignore require-await
  async create(file: string): Promise<NewFile> {
    this.#point(`create ${file}`);
    const inode: Inode = { written: new Uint8Array(0), synced: new Uint8Array(0) };
    this.#names.set(file, inode);
    this.#open.add(file);
    this.mostOpen = Math.max(this.mostOpen, this.#open.size);
    return {
      write: async (bytes) => {
        this.#point(`write ${file}`);
        const longer = new Uint8Array(inode.written.byteLength + bytes.byteLength);
        longer.set(inode.written);
        longer.set(bytes, inode.written.byteLength);
        await turn();
        inode.written = longer;
      },
      sync: async () => {
        this.#point(`sync ${file}`);
        await turn();
        inode.synced = inode.written;
      },
      close: () => {
        this.#open.delete(file);
      },
    };
  }

  // deno-lint-ignore require-await
  async rename(from: string, to: string): Promise<void> {
    this.#point(`rename ${to}`);
    const inode = this.#names.get(from);
    if (inode === undefined) throw new Deno.errors.NotFound(from);
    this.#names.delete(from);
    this.#names.set(to, inode);
  }

  // deno-lint-ignore require-await
  async remove(file: string): Promise<void> {
    if (this.trace.length >= this.diesAt) throw new Death(`remove ${file}`);
    this.#names.delete(file);
  }

  // deno-lint-ignore require-await
  async sync(): Promise<void> {
    this.#point("sync directory");
    const names = new Map(this.#names);
    this.#durable = names;
  }

  ignoresCase(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /** The process is gone, the machine is not: everything that was written is there. */
  killed(): void {
    this.#revive();
  }

  /**
   * The power is gone: files are as they were synced. The names are those that were synced, or, where the
   * filesystem was faster than it had to be (`namesToo`), the last ones.
   */
  powerCut(namesToo: boolean): void {
    if (!namesToo) this.#names = new Map(this.#durable);
    for (const inode of this.#names.values()) inode.written = inode.synced;
    this.#revive();
  }

  #revive(): void {
    this.diesAt = Infinity;
    this.failing.clear();
    this.trace.length = 0;
  }

  /** Another directory with the same files, all of them durable. */
  clone(): ForgetfulDirectory {
    const other = new ForgetfulDirectory(this.path);
    for (const [name, { written }] of this.#names) {
      other.put(name, written.slice());
    }
    return other;
  }

  put(name: string, bytes: Uint8Array): void {
    const inode = { written: bytes, synced: bytes };
    this.#names.set(name, inode);
    this.#durable.set(name, inode);
  }

  get(name: string): Uint8Array | undefined {
    return this.#names.get(name)?.written;
  }

  delete(name: string): void {
    this.#names.delete(name);
    this.#durable.delete(name);
  }

  names(): string[] {
    return [...this.#names.keys()].sort();
  }
}

function turn(): Promise<void> {
  return Promise.resolve();
}
