import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { Publisher } from "./publisher.ts";

/** What a record of the channel was when it was first seen. */
interface Seen {
  readonly messageId: string;
  readonly publisher: number;
  readonly sequence: number;
}

/**
 * Every record that was ever seen in the database, compared with what the publishers know. Reads the
 * file of the running broker, read-only, as an operator would.
 */
export class Ledger {
  /** By offset; the record of offset n stands at n - 1. */
  readonly seen: Seen[] = [];
  readonly #messageIds = new Set<string>();

  constructor(private readonly path: string, private readonly channel: string) {}

  /** Highest offset seen. */
  get last(): number {
    return this.seen.length;
  }

  /**
   * Takes up what is new and holds it against one connection of each publisher: a stretch from the
   * first number on without a gap, in order, once each, up to the last acknowledged one at least.
   */
  check(publishers: readonly Publisher[]): void {
    const next = publishers.map((publisher) => publisher.first);
    this.#read((database) => {
      const rows = database.prepare(
        `SELECT "offset", message_id, topic, payload FROM records
         WHERE channel = ? AND "offset" > ? ORDER BY "offset"`,
      ).all(this.channel, this.last);
      for (const row of rows) this.#take(row, publishers, next);

      const counters = database.prepare(`SELECT "next", floor FROM channels WHERE name = ?`)
        .get(this.channel);
      if (this.last > 0) {
        assert.deepEqual({ ...counters }, { next: this.last + 1, floor: 1 }, "the channel's row");
      }
    });
    for (const [i, publisher] of publishers.entries()) {
      assert.ok(
        next[i] >= publisher.acknowledged,
        `publisher ${i}: ${publisher.acknowledged - next[i]} acknowledged publishes are missing, ` +
          `from number ${next[i]} on`,
      );
      assert.ok(next[i] <= publisher.sent, `publisher ${i}: a record nobody published`);
    }
  }

  /** Every record ever seen is still what it was, and nothing else is there. */
  checkWhole(): void {
    this.#read((database) => {
      const rows = database.prepare(
        `SELECT "offset", message_id, payload FROM records WHERE channel = ? ORDER BY "offset"`,
      ).all(this.channel);
      assert.equal(rows.length, this.seen.length, "records in the channel");
      for (const [i, row] of rows.entries()) {
        const { publisher, sequence } = Publisher.read(text(row.payload));
        assert.deepEqual(
          { offset: row.offset, messageId: row.message_id, publisher, sequence },
          { offset: i + 1, ...this.seen[i] },
        );
      }
    });
  }

  /** The stored position of a session; undefined when there is none. */
  position(clientId: string): number | undefined {
    return this.#read((database) => {
      const row = database.prepare(
        `SELECT "offset" FROM positions WHERE channel = ? AND reader = ?`,
      ).get(this.channel, `mqtt:${clientId}`);
      return row === undefined ? undefined : Number(row.offset);
    });
  }

  #take(
    row: Record<string, unknown>,
    publishers: readonly Publisher[],
    next: number[],
  ): void {
    const { publisher, sequence } = Publisher.read(text(row.payload));
    const offset = Number(row.offset);
    const messageId = String(row.message_id);
    assert.equal(offset, this.last + 1, "offsets rise by one");
    assert.ok(publisher < publishers.length, `record ${offset}: payload "${text(row.payload)}"`);
    assert.equal(row.topic, publishers[publisher].topic, `record ${offset}: topic`);
    assert.equal(sequence, next[publisher], `record ${offset} of publisher ${publisher}: number`);
    assert.ok(
      !this.#messageIds.has(messageId),
      `record ${offset}: its Message ID was there before`,
    );
    next[publisher]++;
    this.#messageIds.add(messageId);
    this.seen.push({ messageId, publisher, sequence });
  }

  #read<T>(use: (database: DatabaseSync) => T): T {
    const database = new DatabaseSync(this.path, { readOnly: true });
    try {
      return use(database);
    } finally {
      database.close();
    }
  }
}

function text(payload: unknown): string {
  assert.ok(payload instanceof Uint8Array, "a payload is a BLOB");
  return new TextDecoder().decode(payload);
}
