import type { Nanoseconds } from "../platform/clock.ts";

/** Clients that are remembered to have been refused (05 section 7.6). */
export const MOST_REFUSED = 1_000;

/** A client and how often it was refused. */
export interface RefusedClient {
  /** Empty where it was refused before its id was known. */
  readonly clientId: string;
  count: number;
  /** These three are of the latest refusal. */
  user: string;
  reason: string;
  lastSeen: Nanoseconds;
}

/**
 * Whose connections were refused or ended by a refusal, bounded: a newcomer to a full record takes the
 * place of a client refused exactly once, if there is one.
 */
export class RefusedClients {
  readonly #clients = new Map<string, RefusedClient>();
  /** Those refused exactly once. */
  readonly #once = new Set<string>();
  /** Refusals of clients that are not, or no more, among the rows. */
  beyond = 0;

  constructor(private readonly most = MOST_REFUSED) {}

  get size(): number {
    return this.#clients.size;
  }

  values(): IterableIterator<RefusedClient> {
    return this.#clients.values();
  }

  /** `longest`: bytes of a client id or a user name that are kept. */
  add(clientId: string, user: string, reason: string, at: Nanoseconds, longest: number): void {
    const id = cutToBytes(clientId, longest);
    const known = this.#clients.get(id);
    if (known !== undefined) {
      known.count++;
      known.user = cutToBytes(user, longest);
      known.reason = reason;
      known.lastSeen = at;
      this.#once.delete(id);
      return;
    }
    if (this.#clients.size >= this.most && !this.#makeRoom()) return;
    const row = { clientId: id, count: 1, user: cutToBytes(user, longest), reason, lastSeen: at };
    this.#clients.set(id, row);
    this.#once.add(id);
  }

  #makeRoom(): boolean {
    this.beyond++;
    for (const id of this.#once) {
      this.#once.delete(id);
      return this.#clients.delete(id);
    }
    return false;
  }
}

/** The beginning of `text` that takes at most `longest` bytes as UTF-8. */
export function cutToBytes(text: string, longest: number): string {
  if (text.length * 3 <= longest) return text;
  const bytes = new Uint8Array(longest);
  const { read } = new TextEncoder().encodeInto(text, bytes);
  return read === text.length ? text : text.slice(0, read);
}
