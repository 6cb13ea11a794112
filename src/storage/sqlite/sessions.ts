import type { Clock } from "../../platform/clock.ts";
import {
  type GroupImage,
  type SessionImage,
  sessionReader,
  type SessionRecord,
  type SessionStore,
  type Urgency,
  type WindowChange,
} from "../contract.ts";
import type { Offset } from "../record.ts";
import type { SqliteAppend } from "./append.ts";
import type { LoadedSessions } from "./session_writes.ts";
import type { WriteQueue } from "./write_queue.ts";

/** The sessions kept in a sqlite file (S97 to S101). */
export class SqliteSessions implements SessionStore {
  /** @param broadcastLog where the sessions' log cursors are; undefined when it is kept elsewhere */
  constructor(
    private readonly writes: WriteQueue,
    private readonly clock: Clock,
    private readonly broadcastLog: SqliteAppend | undefined,
  ) {}

  async load(): Promise<
    { readonly sessions: readonly SessionImage[]; readonly groups: readonly GroupImage[] }
  > {
    const loaded = await this.writes.write<LoadedSessions>("maintenance", {
      op: "loadSessions",
      now: this.clock.wall(),
    });
    const cursors = this.broadcastLog?.positions;
    cursors?.clear();
    for (const { record, cursor } of loaded.sessions) {
      cursors?.set(sessionReader(record.clientId), cursor);
    }
    return loaded;
  }

  async begin(
    record: SessionRecord,
    cursor: Offset,
    urgency: Urgency,
    groups: readonly GroupImage[] = [],
  ): Promise<void> {
    const { clientId } = record;
    await this.writes.write(
      urgency,
      { op: "beginSession", record, cursor, groups, now: this.clock.wall() },
      clientId,
    );
    this.broadcastLog?.positions.set(sessionReader(clientId), cursor);
  }

  save(
    record: SessionRecord,
    urgency: Urgency,
    groups?: { readonly found: readonly GroupImage[]; readonly end: readonly string[] },
  ): Promise<void> {
    const { found = [], end = [] } = groups ?? {};
    return this.writes.write(
      urgency,
      { op: "saveSession", record, found, end },
      record.clientId,
    );
  }

  async end(
    clientId: string,
    urgency: Urgency,
    groups?: {
      readonly end: readonly string[];
      readonly returned: readonly { readonly group: string; readonly offset: Offset }[];
    },
  ): Promise<void> {
    const { end = [], returned = [] } = groups ?? {};
    await this.writes.write(urgency, { op: "endSession", clientId, end, returned }, clientId);
    this.broadcastLog?.positions.delete(sessionReader(clientId));
  }

  async change(change: WindowChange, urgency: Urgency): Promise<void> {
    const { clientId, cursor } = change;
    await this.writes.write(
      urgency,
      { op: "changeWindow", change, now: this.clock.wall() },
      clientId,
    );
    if (cursor !== undefined) this.broadcastLog?.positions.set(sessionReader(clientId), cursor);
  }

  mark(clientId: string): void {
    this.writes.sessions.mark(clientId);
  }

  unmark(clientId: string): void {
    this.writes.sessions.unmark(clientId);
  }
}
