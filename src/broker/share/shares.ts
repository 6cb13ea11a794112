import type { GroupImage, StoredSubscription } from "../../storage/contract.ts";
import { isFault, splitShared } from "../../topics/filter.ts";
import { SubscriptionTree } from "../../topics/tree.ts";
import type { Context } from "../context.ts";
import { KeyedLocks } from "../locks.ts";
import type { BroadcastLog } from "../log.ts";
import type { Session } from "../session.ts";
import { ShareGroup } from "./group.ts";

/** Topics whose groups are remembered between two changes of any membership. */
const CACHED_TOPICS = 8_192;

const NO_GROUPS: readonly ShareGroup[] = [];

/** The filter inside a shared subscription; undefined for any other filter. */
export function sharedInner(filter: string): string | undefined {
  if (!filter.startsWith("$share/")) return undefined;
  const shared = splitShared(filter);
  return shared === undefined || isFault(shared) ? undefined : shared.filter;
}

/** Every shared group, and which of them a topic reaches. */
export class Shares {
  readonly #groups = new Map<string, ShareGroup>();
  readonly #tree = new SubscriptionTree<ShareGroup, ShareGroup>();
  readonly #matching = new Map<string, readonly ShareGroup[]>();
  /** Per group: its cursor is not founded while it is being ended, nor the other way round (D9.9). */
  readonly #locks = new KeyedLocks();

  constructor(
    private readonly log: BroadcastLog,
    private readonly context: Context,
    /** `broker.share.expires_after`. */
    private readonly expiresAfterMs: number | undefined,
  ) {}

  get isEmpty(): boolean {
    return this.#groups.size === 0;
  }

  get size(): number {
    return this.#groups.size;
  }

  get(name: string): ShareGroup | undefined {
    return this.#groups.get(name);
  }

  values(): IterableIterator<ShareGroup> {
    return this.#groups.values();
  }

  /** The groups that a publish to `topic` goes to one member each of. */
  matching(topic: string): readonly ShareGroup[] {
    if (this.#groups.size === 0) return NO_GROUPS;
    let groups = this.#matching.get(topic);
    if (groups === undefined) {
      const found: ShareGroup[] = [];
      this.#tree.match(topic, (group) => found.push(group));
      groups = found.length === 0 ? NO_GROUPS : found;
      if (this.#matching.size >= CACHED_TOPICS) this.#matching.clear();
      this.#matching.set(topic, groups);
    }
    return groups;
  }

  /** Holds the groups named against every other founding and ending of them. */
  async lock(names: readonly string[]): Promise<() => void> {
    const releases: (() => void)[] = [];
    // One order for everybody, or two that want the same two would wait for each other.
    for (const name of [...new Set(names)].sort()) releases.push(await this.#locks.acquire(name));
    return () => {
      for (const release of releases) release();
    };
  }

  // ------------------------------------------------------------------------- founding and ending

  /** The cursors that have to be stored with a session that holds `names` (D9.8, D9.10). */
  missing(names: readonly string[]): GroupImage[] {
    return names.filter((name) => !this.#groups.get(name)?.kept)
      .map((name) => ({ name, cursor: this.log.end, returned: [] }));
  }

  /** The cursors were stored. Its session joins in this turn. */
  founded(images: readonly GroupImage[]): void {
    for (const { name, cursor } of images) {
      const group = this.#make(name);
      group.kept = true;
      group.backlog.begin(cursor);
    }
  }

  /** Groups among `names` of which `session` is the last member that outlives its connection. */
  lastOf(session: Session, names: readonly string[]): string[] {
    return names.filter((name) => {
      const group = this.#groups.get(name);
      return group !== undefined && group.kept && !group.otherKept(session);
    });
  }

  /** The cursors were removed: what waited is lost, and counted (D9.6). */
  ended(names: readonly string[]): void {
    for (const name of names) {
      const group = this.#groups.get(name);
      if (group === undefined) continue;
      group.kept = false;
      group.backlog.clear();
      this.#forgetIfEmpty(group);
    }
  }

  // --------------------------------------------------------------------------------------- members

  join(session: Session, subscription: StoredSubscription): void {
    this.#make(subscription.filter).join(session, subscription);
  }

  /** The session has the filter no more. A group nobody is in goes, once its cursor is removed. */
  leave(session: Session, name: string): void {
    const group = this.#groups.get(name);
    if (group === undefined) return;
    group.leave(session);
    this.#forgetIfEmpty(group);
  }

  #make(name: string): ShareGroup {
    let group = this.#groups.get(name);
    if (group === undefined) {
      const inner = sharedInner(name);
      if (inner === undefined) throw new Error(`${name} is no shared subscription`);
      group = new ShareGroup(name, inner, this.log, this.context, this.expiresAfterMs);
      this.#groups.set(name, group);
      this.#tree.add(inner, group, group);
      this.#matching.clear();
    }
    return group;
  }

  #forgetIfEmpty(group: ShareGroup): void {
    if (group.size > 0 || group.kept) return;
    this.#groups.delete(group.name);
    this.#tree.remove(group.filter, group);
    this.#matching.clear();
  }

  // ----------------------------------------------------------------------------------------- start

  /** Brings back the cursors of the store; members join as their sessions are restored. */
  restore(images: readonly GroupImage[]): void {
    this.founded(images.filter(({ name }) => sharedInner(name) !== undefined));
  }

  /** The group that handed over what a restored session has on its wire, though it be gone since. */
  heir(name: string): ShareGroup | undefined {
    if (sharedInner(name) === undefined) return undefined;
    return this.#groups.get(name) ?? new ShareGroup(
      name,
      sharedInner(name)!,
      this.log,
      this.context,
      this.expiresAfterMs,
    );
  }

  /** Names of groups that came back without a member (D6.22). */
  memberless(): string[] {
    return [...this.#groups.values()].filter(({ kept, someKept }) => kept && !someKept)
      .map(({ name }) => name);
  }

  /** What the store keeps of a group. */
  image(name: string): GroupImage {
    const backlog = this.#groups.get(name)?.backlog;
    return {
      name,
      cursor: backlog?.cursorWith(undefined) ?? this.log.end,
      returned: backlog?.rows ?? [],
    };
  }
}
