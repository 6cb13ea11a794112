import type { Context } from "./context.ts";
import { LiveQueue } from "./live_queue.ts";
import { KeyedLocks } from "./locks.ts";
import { Session } from "./session.ts";

/** Every session, connected or away, by client id, and the order of what is done to one of them. */
export class SessionRegistry {
  readonly #held = new Map<string, Session>();
  readonly #locks = new KeyedLocks();

  constructor(private readonly context: Context) {}

  get(clientId: string): Session | undefined {
    return this.#held.get(clientId);
  }

  values(): IterableIterator<Session> {
    return this.#held.values();
  }

  get size(): number {
    return this.#held.size;
  }

  /** A session that nobody holds yet. */
  make(clientId: string, user: string): Session {
    const session = new Session({
      clientId,
      user,
      queueBytes: this.context.limits.sessionQueueBytes,
    });
    session.live = new LiveQueue(session, this.context);
    return session;
  }

  hold(session: Session): void {
    this.#held.set(session.clientId, session);
  }

  release(session: Session): void {
    if (this.#held.get(session.clientId) === session) this.#held.delete(session.clientId);
  }

  /** Resolves, in order of calls, to the function that lets the next one of the client id in (S26). */
  acquire(clientId: string): Promise<() => void> {
    return this.#locks.acquire(clientId);
  }

  /** Runs `work` in turn with every other change of the client's session (S26). */
  async inTurn<T>(clientId: string, work: () => Promise<T>): Promise<T> {
    const release = await this.#locks.acquire(clientId);
    try {
      return await work();
    } finally {
      release();
    }
  }
}
