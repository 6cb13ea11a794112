/** The checker on databases: silent on what a broker keeps, and every rule says so when it is broken. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { BROADCAST_LOG, RETAINED } from "../../../src/storage/contract.ts";
import type { Message } from "../../../src/storage/record.ts";
import { type Deliveries, Dice, draw } from "../conformance/random_steps.ts";
import {
  appended,
  enqueued,
  held,
  message,
  retained,
  set,
  STORES,
  submit,
} from "../conformance/subject.ts";
import { inDirectory } from "../migrate/support.ts";
import { session } from "../snapshot/world.ts";
import { testProvider } from "../sqlite/support/provider.ts";
import { check } from "./support.ts";

const SEEDS = 8;
const STEPS = 300;

for (let seed = 1; seed <= SEEDS; seed++) {
  Deno.test(`the checker finds nothing in what a provider keeps, running or stopped, seed ${seed}`, () =>
    inDirectory(async (path) => {
      const opened = testProvider(`${path}/a.db`);
      await opened.provider.open(STORES);
      const dice = new Dice(seed);
      const deliveries: Deliveries = { leases: [] };
      for (let i = 0; i < STEPS; i++) {
        await draw(dice)[1](opened.provider, deliveries);
        if (i % 50 === 49) assert.deepEqual(await found(`${path}/a.db`), []);
      }
      await opened.stop();
      assert.deepEqual(await found(`${path}/a.db`), []);
      assert.deepEqual([...Deno.readDirSync(path)].map(({ name }) => name).sort(), [
        "a.db",
        "a.db.lock",
      ]);
    }));
}

/** Without what the steps do as no session would: they deliver a message twice, or move a cursor past it. */
async function found(path: string): Promise<string[]> {
  const { findings, notes } = await check(path);
  assert.deepEqual(notes, []);
  return findings.filter((says) =>
    !/in flight (twice|what (they acknowledged|the log no longer holds))/.test(says)
  );
}

const FILTER = "$share/g/a";

/** A provider with something in every table, stopped. */
async function filled(path: string): Promise<void> {
  const { provider, stop } = testProvider(path);
  await provider.open(STORES);
  const letter: Partial<Message> = { headers: [["saguin-dlq-offset", "1"]] };
  for (let i = 1; i <= 3; i++) {
    await submit(provider, [
      appended(provider.append("events"), message("t", `e${i}`, { headers: [["k", "v"]] })),
      appended(provider.append(BROADCAST_LOG), message("t", `b${i}`)),
      set(provider.latest("state"), message(`t/${i}`, "s")),
      retained(provider.latest(RETAINED), message(`t/${i}`, "r")),
      enqueued(provider.queue("jobs"), message("t", `j${i}`)),
    ]);
  }
  await provider.queue("jobs").deadLetter(
    1,
    undefined,
    message("t", "d", letter),
    provider.append("jobs__dlq"),
  );
  await submit(provider, [held(provider.append("events"), "c", 7, message("t", "h"))]);
  const position = { reader: "bridge:up", offset: 2, expiry: 0, lastSeen: 0n };
  await provider.append("events").savePosition(position, "connected");
  const subscriptions = [{
    filter: FILTER,
    qos: 1,
    noLocal: false,
    retainAsPublished: false,
    retainHandling: 0,
    logOffset: 1,
  }] as const;
  const sessions = provider.sessions();
  const group = { name: FILTER, cursor: 2, returned: [1] };
  await sessions.begin(session("c", { subscriptions, window: 2 }), 2, "answering", [group]);
  const sent = { packetId: 1, offset: 2, qos: 1, state: "sent", group: "" } as const;
  await sessions.change({ clientId: "c", put: [sent], drop: [] }, "connected");
  await stop();
}

/** What is done to the file by hand, and what the checker then says. */
const BROKEN: readonly (readonly [name: string, sql: string, ...findings: string[]])[] = [
  [
    "S29 records that went missing",
    "DELETE FROM records WHERE channel = 'events' AND offset = 2",
    "channel events misses records: 1 of those from 1 to 3",
    "channel events counts its bytes wrongly: 21, not 14",
  ],
  [
    "S31 a counter that stands behind its records",
    "UPDATE channels SET next = 3 WHERE name = 'events'",
    "channel events has entries past its next offset 3: 3",
  ],
  [
    "S28 a floor above a record",
    "UPDATE channels SET floor = 2 WHERE name = 'events'",
    "channel events has entries below its floor 2: 1",
  ],
  [
    "S28 a floor past the end",
    "UPDATE channels SET floor = 9 WHERE name = 'jobs__dlq'",
    "channel jobs__dlq has impossible counters: floor 9, next offset 2",
    "channel jobs__dlq has entries below its floor 9: 1",
  ],
  [
    "S108 a floor of the log that is not its lowest",
    `DELETE FROM records WHERE channel = '${BROADCAST_LOG}' AND offset = 1`,
    `channel ${BROADCAST_LOG} has a floor that is not its lowest record: 1, not 2`,
    `channel ${BROADCAST_LOG} counts its bytes wrongly: 15, not 10`,
  ],
  [
    "S175 bytes that do not add up",
    "UPDATE channels SET bytes = bytes + 1 WHERE name = 'events'",
    "channel events counts its bytes wrongly: 22, not 21",
  ],
  [
    "S38 a position that leads",
    "UPDATE positions SET offset = 5 WHERE channel = 'events'",
    "channel events has positions past its end 4: bridge:up at 5",
  ],
  [
    "S37 a reader of no scheme",
    "UPDATE positions SET reader = 'up' WHERE channel = 'events'",
    "channel events has a reader of no scheme: up",
  ],
  [
    "S143 a job that is queued and dead",
    "UPDATE records SET headers = '[[\"saguin-dlq-offset\",\"2\"]]' WHERE channel = 'jobs__dlq'",
    "channel jobs__dlq has letters of jobs that are still queued: 1 of 2",
  ],
  [
    "S143 a letter of no job",
    "UPDATE records SET headers = '[[\"saguin-dlq-offset\",\"9\"]]' WHERE channel = 'jobs__dlq'",
    "channel jobs__dlq has letters of jobs that never were: 1 of 9",
  ],
  [
    "S32 a job with a history that cannot be",
    "UPDATE queue_items SET attempts = 1 WHERE offset = 2",
    "channel jobs has jobs with an impossible history: offset 2, attempts 1",
  ],
  [
    "S94 headers that are no JSON",
    "UPDATE records SET headers = '[[' WHERE channel = 'events' AND offset = 1",
    "channel events has damaged headers or properties: at offset 1",
    "channel events counts its bytes wrongly: 21, not 14",
  ],
  [
    "a type that is none",
    "UPDATE channels SET kind = 'heap' WHERE name = 'state'",
    "channel state is of no known type: heap",
  ],
  [
    "S78 rows of another type",
    "UPDATE channels SET kind = 'latest', bytes = 0 WHERE name = 'events'",
    "channel events is of type latest and has rows elsewhere: records",
    "channel events is of type latest and has positions: 1",
  ],
  [
    "S30 rows without counters",
    "DELETE FROM channels WHERE name = 'events'",
    "table records has rows of a channel without counters: 3 of events",
    "table positions has rows of a channel without counters: 1 of events",
    "table held_publishes has rows of a channel without counters: 1 of events",
  ],
  [
    "S45 an offset out of range",
    "UPDATE channels SET next = 9007199254740993 WHERE name = 'audit'",
    "channel audit has an offset out of range: 9007199254740993",
  ],
  [
    "D17 a retained value without a payload",
    `UPDATE latest_values SET payload = x'' WHERE channel = '${RETAINED}' AND topic = 't/2'`,
    `channel ${RETAINED} holds a value that says nothing: of topic t/2`,
  ],
  [
    "D17 a QoS that is none",
    "UPDATE latest_values SET qos = 3 WHERE channel = 'state' AND topic = 't/1'",
    "channel state has a QoS that is none: 3",
  ],
  [
    "S42 a session without its cursor",
    `DELETE FROM positions WHERE channel = '${BROADCAST_LOG}'`,
    "sessions have no cursor in the broadcast log: c",
  ],
  [
    "S42 S101 what an ended session left",
    "DELETE FROM sessions",
    "sessions have left a cursor in the broadcast log: mqtt:c",
    "sessions have left messages in flight: 1 of c",
    `shared groups have no member: ${FILTER}`,
  ],
  [
    "S98 more in flight than the window",
    "INSERT INTO session_inflight VALUES ('c', 2, 3, 1, 'sent', NULL), " +
    "('c', 3, 1, 1, 'sent', '$share/g/a')",
    "sessions have more in flight than their window: c, 3 of 2",
  ],
  [
    "S65 in flight what was acknowledged",
    "UPDATE session_inflight SET offset = 1",
    "sessions have in flight what they acknowledged: packet 1 of c, offset 1, cursor 2",
  ],
  [
    "S98 in flight what the log never held",
    "UPDATE session_inflight SET offset = 4",
    "sessions have in flight what the log never held: packet 1 of c, offset 4, log's next 4",
  ],
  [
    "S98 a message in flight twice, in no state, at no QoS",
    "INSERT INTO session_inflight VALUES ('c', 2, 2, 0, 'lost', NULL)",
    "sessions have an impossible message in flight: packet 2 of c, offset 2, QoS 0",
    "sessions have a message in flight in no known state: packet 2 of c, offset 2, lost",
    "sessions have a message in flight twice: 2 of c",
  ],
  [
    "S97 a session that cannot be read",
    "UPDATE sessions SET subscriptions = '[', will = '{', window = 0",
    "sessions have damaged subscriptions: c",
    "sessions have a damaged Will: c",
    "sessions have an impossible window: c, 0",
    "sessions have more in flight than their window: c, 1 of 0",
    `shared groups have no member: ${FILTER}`,
  ],
  [
    "S99 S100 groups",
    "UPDATE share_groups SET cursor = 9; INSERT INTO share_returned VALUES ('$share/x/a', 9)",
    `shared groups have a cursor past the broadcast log: ${FILTER} at 9`,
    "shared groups were returned what never was in the log: 9 to $share/x/a",
    "shared groups that are gone were returned messages: 9 to $share/x/a",
  ],
  ["S88 a table that is gone", "DROP TABLE meta", "the file lacks a table: meta"],
];

for (const [name, sql, ...findings] of BROKEN) {
  Deno.test(`the checker finds ${name}`, () =>
    inDirectory(async (path) => {
      const file = `${path}/a.db`;
      await filled(file);
      assert.deepEqual((await check(file)).findings, []);
      const database = new DatabaseSync(file);
      database.exec(sql);
      database.close();
      const before = Deno.readFileSync(file);
      assert.deepEqual((await check(file)).findings, findings);
      assert.deepEqual(Deno.readFileSync(file), before, "a check writes nothing");
    }));
}

Deno.test("the checker names the first of many alike and counts the rest", () =>
  inDirectory(async (path) => {
    const file = `${path}/a.db`;
    await filled(file);
    const database = new DatabaseSync(file);
    database.exec(
      "INSERT INTO positions SELECT 'events', 'mqtt:' || value, 9, 0, 0 FROM " +
        "json_each('[11,12,13,14,15,16,17]')",
    );
    database.close();
    const { findings } = await check(file);
    assert.equal(findings.length, 6);
    assert.equal(findings[0], "channel events has positions past its end 4: mqtt:11 at 9");
    assert.equal(findings[5], "channel events has positions past its end 4: 2 more like these");
  }));

Deno.test("the checker finds a damaged page, another version and what is no database", () =>
  inDirectory(async (path) => {
    const file = `${path}/a.db`;
    await filled(file);
    const bytes = Deno.readFileSync(file);
    const damaged = bytes.slice();
    const at = new TextDecoder("latin1").decode(bytes).indexOf("audit");
    damaged.fill(0xff, at - 40, at + 40);
    Deno.writeFileSync(file, damaged);
    assert.ok((await check(file)).findings.length > 0);
    Deno.writeFileSync(file, bytes);
    const database = new DatabaseSync(file);
    database.exec("PRAGMA user_version = 19");
    database.close();
    const [version, ...more] = (await check(file)).findings;
    assert.match(
      version,
      /^\S+a\.db: schema version 19 \(created by saguin 0123456789ab at .*reads version 20$/,
    );
    assert.deepEqual(more, []);
    Deno.writeTextFileSync(file, "text".repeat(2_000));
    assert.deepEqual((await check(file)).findings, [`${file} is not a SQLite database`]);
    Deno.writeTextFileSync(file, "");
    assert.deepEqual((await check(file)).findings, []);
  }));

Deno.test("the checker leaves a log beside a database alone", () =>
  inDirectory(async (path) => {
    const { provider, stop } = testProvider(`${path}/a.db`);
    await provider.open(STORES);
    await submit(provider, [appended(provider.append("events"), message("t", "x"))]);
    Deno.mkdirSync(`${path}/copy`);
    for (const suffix of ["", "-wal"]) {
      Deno.copyFileSync(`${path}/a.db${suffix}`, `${path}/copy/a.db${suffix}`);
    }
    await stop();
    const before = ["", "-wal"].map((suffix) => Deno.readFileSync(`${path}/copy/a.db${suffix}`));
    assert.deepEqual((await check(`${path}/copy/a.db`)).findings, []);
    const after = ["", "-wal"].map((suffix) => Deno.readFileSync(`${path}/copy/a.db${suffix}`));
    assert.deepEqual(after, before);
  }));
