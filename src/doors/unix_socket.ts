import { errorText } from "../platform/log.ts";

/** A socket that another process may not connect to before it has its own permissions. */
const PRIVATE_MASK = 0o177;

/**
 * A Unix socket that this process listens on, and the claim that says so (02b 4.2): `<path>.lock` is
 * held as long as the socket is served, so that what a killed broker left behind is told from a socket
 * in use. A name that begins with `@` is abstract: no file, no lock.
 */
export class UnixSocket {
  private constructor(
    readonly path: string,
    readonly listener: Deno.UnixListener,
    private readonly lock: LockFile | undefined,
  ) {}

  /**
   * @param mode permission bits
   * @throws Error, the end of a sentence, when the path is taken or cannot be used; nothing is changed
   */
  static bind(path: string, mode: number): UnixSocket {
    if (path.startsWith("@")) {
      return new UnixSocket(path, listen("\0" + path.slice(1)), undefined);
    }
    const lock = LockFile.take(path + ".lock");
    try {
      removeStale(path);
      const mask = Deno.umask(PRIVATE_MASK);
      let listener: Deno.UnixListener;
      try {
        listener = listen(path);
      } finally {
        Deno.umask(mask);
      }
      Deno.chmodSync(path, mode);
      return new UnixSocket(path, listener, lock);
    } catch (error) {
      lock.abandon();
      throw error;
    }
  }

  /** Takes the socket away: nobody new gets in. The path stays claimed until `release`. */
  close(): void {
    this.listener.close();
    if (this.lock === undefined) return;
    try {
      Deno.removeSync(this.path);
    } catch (error) {
      // Closing the listener has removed it.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  /** Gives the claim back, after `close`; the lock file stays for the next start. */
  release(): void {
    this.lock?.release();
  }

  /** In place of `release`, by a start that was refused: leaves nothing that it created. */
  abandon(): void {
    this.lock?.abandon();
  }
}

function listen(path: string): Deno.UnixListener {
  return Deno.listen({ transport: "unix", path });
}

/** Makes room at `path` for a socket, where a stale one lies. The lock is held. */
function removeStale(path: string): void {
  let found: Deno.FileInfo;
  try {
    found = Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  if (!found.isSocket) {
    throw new Error("there is something that is not a socket; it was left alone");
  }
  Deno.removeSync(path);
}

/** A file with an exclusive lock that the system gives back when the process ends, however it ends. */
class LockFile {
  #file: Deno.FsFile | undefined;

  private constructor(
    readonly path: string,
    file: Deno.FsFile,
    private readonly created: boolean,
  ) {
    this.#file = file;
  }

  /** @throws Error, the end of a sentence, when somebody holds it or it cannot be written */
  static take(path: string): LockFile {
    const { file, created } = LockFile.#open(path);
    try {
      if (!file.tryLockSync(true)) throw new Error(`${path} is held by another broker`);
      // Whoever holds a file that is no longer at this path holds nothing: a refused start takes its
      // own lock file away again.
      if (Deno.statSync(path).ino !== file.statSync().ino) {
        throw new Error(`${path} was replaced while it was being taken; start again`);
      }
      return new LockFile(path, file, created);
    } catch (error) {
      file.close();
      throw error;
    }
  }

  static #open(path: string): { readonly file: Deno.FsFile; readonly created: boolean } {
    const options = { read: true, write: true, mode: 0o600 };
    try {
      try {
        return { file: Deno.openSync(path, { ...options, createNew: true }), created: true };
      } catch (error) {
        if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
        return { file: Deno.openSync(path, options), created: false };
      }
    } catch (error) {
      throw new Error(`${path} cannot be opened: ${errorText(error)}`);
    }
  }

  release(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  abandon(): void {
    if (this.created && this.#file !== undefined) Deno.removeSync(this.path);
    this.release();
  }
}
