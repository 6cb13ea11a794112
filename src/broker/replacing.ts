import { type GroupImage, type SessionStore, StorageFailure } from "../storage/contract.ts";
import type { Parts } from "./parts.ts";
import type { Session } from "./session.ts";
import { handedAtEnd, type Returning } from "./share/group.ts";

/** A client id that nobody has: what is written under it concerns no session. */
const NO_SESSION = "";

/**
 * A session whose successor is being stored and has no CONNACK yet: nothing of it is written, and
 * everything that the store forgets with it is known here, to be written back (D6.3, D6.4).
 */
export class Replacing {
  private constructor(
    private readonly old: Session,
    private readonly store: SessionStore,
    private readonly parts: Parts,
    /** Deliveries of shared groups that were stored as returned before the record goes (D9.12). */
    readonly rows: readonly Returning[],
    /** Groups that end with it, as they are. */
    private readonly groups: readonly GroupImage[],
    private readonly unlock: () => void,
  ) {}

  /** @throws StorageFailure; the session is then as it was */
  static async begin(old: Session, store: SessionStore, parts: Parts): Promise<Replacing> {
    const { shares } = parts;
    const names = [...old.subscriptions.keys()].filter((filter) => filter.startsWith("$share/"));
    const unlock = await shares.lock(names);
    const ending = old.stored ? shares.lastOf(old, names) : [];
    try {
      const rows = await storeReturns(old, store, ending);
      const groups = ending.map((name) => shares.image(name));
      old.frozen = true;
      return new Replacing(old, store, parts, rows, groups, unlock);
    } catch (error) {
      unlock();
      throw error;
    }
  }

  /** Groups whose last member that outlives its connection it is: they end with its record (D9.6). */
  get ends(): readonly string[] {
    return this.groups.map(({ name }) => name);
  }

  /** The successor owns the client id. */
  done(): void {
    this.unlock();
  }

  /** The successor came to nothing: the session goes on. */
  undo(): Promise<void> {
    this.old.frozen = false;
    for (const { group, offset } of this.rows) group.rowStale(offset);
    this.unlock();
    return Promise.resolve();
  }

  /** Writes the session back whole: record, cursor, window, the cursors of its groups. */
  async restore(): Promise<void> {
    const { old, store } = this;
    const { clientId } = old;
    const image = old.log?.window.image() ?? { cursor: this.parts.log.end, inFlight: [] };
    await store.begin(old.record(), image.cursor, "answering", this.groups);
    if (image.inFlight.length > 0) {
      await store.change({ clientId, put: image.inFlight, drop: [] }, "answering");
    }
  }
}

/** QoS 1 deliveries of groups that go on: theirs again, should the broker be killed in between. */
async function storeReturns(
  old: Session,
  store: SessionStore,
  ending: readonly string[],
): Promise<readonly Returning[]> {
  if (!old.stored || old.log === undefined) return [];
  const rows = handedAtEnd(old.log.window).returning
    .filter(({ group }) => group.kept && !ending.includes(group.name));
  if (rows.length === 0) return rows;
  const returned = rows.map(({ group, offset }) => ({ group: group.name, offset }));
  try {
    await store.end(NO_SESSION, "answering", { end: [], returned });
    return rows;
  } catch (error) {
    // No room even in the reserve: they are dropped with the session, and counted.
    if (error instanceof StorageFailure && error.kind === "full") return [];
    throw error;
  }
}
