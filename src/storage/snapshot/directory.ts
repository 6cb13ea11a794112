/**
 * What snapshots ask of a directory. Between the two halves of it stands everything a power cut can tell
 * apart (S69); tests put a disk in its place that fails, or forgets what was not synced.
 */
export interface SnapshotDirectory {
  readonly path: string;
  /** Names of the files in it. */
  list(): Promise<readonly string[]>;
  /** Undefined when there is no such file. */
  read(file: string): Promise<Uint8Array | undefined>;
  /** A new, empty file for this user only, in the place of one of that name. */
  create(file: string): Promise<NewFile>;
  rename(from: string, to: string): Promise<void>;
  remove(file: string): Promise<void>;
  /** Makes the names of the files durable. */
  sync(): Promise<void>;
  /** Whether two names that differ in letter case alone are one file here. */
  ignoresCase(file: string): Promise<boolean>;
}

export interface NewFile {
  write(bytes: Uint8Array): Promise<void>;
  /** Makes the bytes durable; on Darwin with the drive's own cache (S73). */
  sync(): Promise<void>;
  close(): void;
}

const OWNER_ONLY = 0o600;
const READ_BYTES = 16 * 1024 * 1024;
/** Bytes written between two flushes that run beside the writing: the last sync then finds little left. */
const FLUSH_BYTES = 16 * 1024 * 1024;

/** A directory of the filesystem. It has to exist. */
export class FileDirectory implements SnapshotDirectory {
  constructor(readonly path: string) {}

  async list(): Promise<readonly string[]> {
    const names: string[] = [];
    for await (const entry of Deno.readDir(this.path)) if (entry.isFile) names.push(entry.name);
    return names;
  }

  async read(file: string): Promise<Uint8Array | undefined> {
    let opened: Deno.FsFile;
    try {
      opened = await Deno.open(this.#at(file));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
    // Into one buffer of its size: twice as fast as a buffer that grows, and never larger.
    using closing = opened;
    const bytes = new Uint8Array((await closing.stat()).size);
    let length = 0;
    while (length < bytes.byteLength) {
      const piece = bytes.subarray(length, length + READ_BYTES);
      const read = await closing.read(piece);
      if (read === null) break;
      length += read;
    }
    return bytes.subarray(0, length);
  }

  async create(file: string): Promise<NewFile> {
    const path = this.#at(file);
    const opened = await Deno.open(path, {
      write: true,
      create: true,
      truncate: true,
      mode: OWNER_ONLY,
    });
    return new SystemFile(opened, path);
  }

  rename(from: string, to: string): Promise<void> {
    return Deno.rename(this.#at(from), this.#at(to));
  }

  remove(file: string): Promise<void> {
    return Deno.remove(this.#at(file));
  }

  async sync(): Promise<void> {
    using directory = await Deno.open(this.path, { read: true });
    await directory.sync();
  }

  async ignoresCase(file: string): Promise<boolean> {
    try {
      const [one, other] = await Promise.all([
        Deno.stat(this.#at(file)),
        Deno.stat(this.#at(file.toUpperCase())),
      ]);
      return one.ino === other.ino && one.dev === other.dev;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      throw error;
    }
  }

  #at(file: string): string {
    return `${this.path}/${file}`;
  }
}

/** A file being written, which the disk takes in while the rest of it is made. */
class SystemFile implements NewFile {
  #unflushed = 0;
  /** Resolves with the error of a flush, if it has one. */
  #flushing: Promise<unknown> | undefined;

  constructor(private readonly opened: Deno.FsFile, private readonly path: string) {}

  async write(bytes: Uint8Array): Promise<void> {
    for (let written = 0; written < bytes.byteLength;) {
      written += await this.opened.write(bytes.subarray(written));
    }
    this.#unflushed += bytes.byteLength;
    if (this.#unflushed < FLUSH_BYTES) return;
    this.#unflushed = 0;
    const before = this.#flushing;
    this.#flushing = this.#flush().then(() => before, (error) => error);
  }

  async sync(): Promise<void> {
    const error = await this.#flushing;
    if (error !== undefined) throw error;
    await this.opened.sync();
  }

  close(): void {
    this.opened.close();
  }

  /** Through a descriptor of its own: the runtime does one thing at a time with each. */
  async #flush(): Promise<void> {
    using other = await Deno.open(this.path, { write: true });
    await other.syncData();
  }
}

/** One sync of the directory for all renames that wait for one. */
export class DirectorySync {
  #next: Promise<void> | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(private readonly directory: SnapshotDirectory) {}

  /** Resolves after a sync that began after this call. */
  sync(): Promise<void> {
    return this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      const sync = this.directory.sync();
      this.#running = sync.then(nothing, nothing);
      return sync;
    });
  }
}

function nothing(): void {}
