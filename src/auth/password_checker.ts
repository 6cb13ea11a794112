/**
 * Checks passwords off the event loop, a few at a time and in the order in which they were offered, so
 * that a storm of logins delays no publisher: hashing that many at once stalls the loop.
 */
import { isPassword, NEW_ITERATIONS, type PasswordHash, readHash } from "./hash.ts";
import type { PasswordFile } from "./password_file.ts";

/** Hashes under way at any time. */
export const CHECKS_AT_ONCE = 2;

/**
 * Checks that may wait: under a second of work for hashes of 1,000 iterations, twice the storm that the
 * broker is to take.
 */
export const WAITING_CHECKS = 4_096;

/** Bytes of the passwords that wait; one may be nearly as long as `limits.max_connect_size`. */
export const WAITING_BYTES = 8 * 1024 * 1024;

export type Verdict =
  | "right"
  | "wrong"
  /** No line of the file has the name. To a client the same as `wrong`. */
  | "unknown"
  /** Nothing was checked: as many checks wait as may. */
  | "busy"
  /** Nothing was checked: whoever offered the password has gone. */
  | "gone";

interface Check {
  /** Of the user, or the decoy where there is no such user. */
  readonly hash: PasswordHash;
  readonly known: boolean;
  /** A copy: the packet that it came in is gone by the time it is its turn. */
  readonly password: Uint8Array;
  readonly gone: () => boolean;
  readonly resolve: (verdict: Verdict) => void;
  readonly reject: (error: unknown) => void;
}

/** One for the whole process. */
export class PasswordChecker {
  readonly #waiting: Check[] = [];
  #waitingBytes = 0;
  #atWork = 0;

  readonly #most: { readonly checks: number; readonly bytes: number };

  /** `most` and `isRight` differ from these in tests only. */
  constructor(
    most: { readonly checks?: number; readonly bytes?: number } = {},
    private readonly isRight: typeof isPassword = isPassword,
  ) {
    this.#most = { checks: most.checks ?? WAITING_CHECKS, bytes: most.bytes ?? WAITING_BYTES };
  }

  /** Checks not yet decided. */
  get outstanding(): number {
    return this.#waiting.length + this.#atWork;
  }

  /**
   * Whether `user` has that password in `file`. An unknown name takes as long as a known one, so that
   * nobody finds out names by the clock. `gone` is asked when the turn comes.
   */
  check(
    file: PasswordFile,
    user: string,
    password: Uint8Array,
    gone: () => boolean = () => false,
  ): Promise<Verdict> {
    if (!this.#hasRoom(password.length)) return Promise.resolve("busy");
    const credential = file.credentials.get(user);
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        hash: credential === undefined ? decoy(file) : decoded(credential.hash),
        known: credential !== undefined,
        password: password.slice(),
        gone,
        resolve,
        reject,
      });
      this.#waitingBytes += password.length;
      this.#next();
    });
  }

  #hasRoom(bytes: number): boolean {
    return this.#waiting.length < this.#most.checks &&
      this.#waitingBytes + bytes <= this.#most.bytes;
  }

  #next(): void {
    while (this.#atWork < CHECKS_AT_ONCE) {
      const check = this.#waiting.shift();
      if (check === undefined) return;
      this.#waitingBytes -= check.password.length;
      if (check.gone()) check.resolve("gone");
      else void this.#work(check);
    }
  }

  async #work(check: Check): Promise<void> {
    this.#atWork++;
    try {
      const right = await this.isRight(check.hash, check.password);
      check.resolve(check.known ? right ? "right" : "wrong" : "unknown");
    } catch (error) {
      check.reject(error);
    } finally {
      check.password.fill(0);
      this.#atWork--;
      this.#next();
    }
  }
}

/** A hash of nobody's password that is as much work as the file's first. */
function decoy(file: PasswordFile): PasswordHash {
  const [first] = file.credentials.values();
  const { form, iterations, salt, digest } = first === undefined ? NO_HASH : decoded(first.hash);
  return { form, iterations, salt, digest: new Uint8Array(digest.length) };
}

const NO_HASH: PasswordHash = {
  form: "pbkdf2",
  iterations: NEW_ITERATIONS,
  salt: new Uint8Array(12),
  digest: new Uint8Array(64),
};

function decoded(text: string): PasswordHash {
  const hash = readHash(text);
  if ("fault" in hash) throw new Error("a password file holds a hash that was not checked");
  return hash;
}
