/** The checker on directories of snapshots. */
import assert from "node:assert/strict";
import { BROADCAST_LOG, RETAINED } from "../../../src/storage/contract.ts";
import type { ChannelState, ProviderState } from "../../../src/storage/memory/state.ts";
import { FileDirectory } from "../../../src/storage/snapshot/directory.ts";
import { type Deliveries, Dice, draw } from "../conformance/random_steps.ts";
import { message } from "../conformance/subject.ts";
import { contents, inDirectory, STAMP, writeSnapshots } from "../migrate/support.ts";
import { flipped, session, World } from "../snapshot/world.ts";
import { check } from "./support.ts";

const STEPS = 300;

for (let seed = 1; seed <= 8; seed++) {
  Deno.test(`the checker finds nothing in what a stop wrote, seed ${seed}`, () =>
    inDirectory(async (path) => {
      const world = new World();
      const provider = await world.start(new FileDirectory(path));
      const dice = new Dice(seed);
      const deliveries: Deliveries = { leases: [] };
      for (let i = 0; i < STEPS; i++) await draw(dice)[1](provider, deliveries);
      await world.stop(provider);
      const said = await check(path);
      assert.deepEqual([said.findings, said.notes], [[], []]);
    }));
}

function records(...offsets: number[]) {
  return offsets.map((offset) => ({ offset, message: message(`t/${offset}`, "x") }));
}

function channel(name: string, fields: Partial<ChannelState> = {}): ChannelState {
  return {
    name,
    kind: "append",
    next: 4,
    floor: 1,
    records: records(1, 2, 3),
    jobs: [],
    positions: [],
    holds: [],
    ...fields,
  };
}

/** What the checker says of a provider that keeps this; the path of the directory left out. */
async function said(state: Partial<ProviderState>, change?: (path: string) => void) {
  const answer: { findings: string[]; notes: string[] } = { findings: [], notes: [] };
  await inDirectory(async (path) => {
    await writeSnapshots(path, { channels: [], sessions: [], groups: [], ...state });
    change?.(path);
    const before = contents(path);
    const { findings, notes } = await check(path);
    assert.deepEqual(contents(path), before, "a check writes nothing");
    answer.findings.push(...findings.map((text) => text.replaceAll(`${path}/`, "")));
    answer.notes.push(...notes.map((text) => text.replaceAll(`${path}/`, "")));
  });
  return answer;
}

async function findings(state: Partial<ProviderState>, change?: (path: string) => void) {
  return (await said(state, change)).findings;
}

Deno.test("S57 the checker names every contradiction of a channel", async () => {
  const position = { reader: "mqtt:a", expiry: 0, lastSeen: 0n };
  const contradicting = channel("events", {
    next: 3,
    records: records(1, 1, 3),
    positions: [{ ...position, offset: 4 }],
  });
  assert.deepEqual(await findings({ channels: [contradicting, channel("audit")] }), [
    "events.snapshot: channel events contradicts itself: has offset 1 after 1",
    "events.snapshot: channel events contradicts itself: has offset 3 at or past its next offset 3",
    "events.snapshot: channel events contradicts itself: has the position of mqtt:a at 4, past its end 3",
  ]);
  assert.deepEqual(await findings({ channels: [channel("events", { floor: 0 })] }), [
    "events.snapshot: channel events contradicts itself: has floor 0 and next offset 4",
    "events.snapshot: channel events misses records: 1 of those from 0 to 3",
  ]);
});

Deno.test("S29 S108 the checker finds holes in a channel, and not in the log", async () => {
  const [hole, gap] = [{ records: records(1, 3) }, { records: records(2) }];
  assert.deepEqual(await findings({ channels: [channel("events", hole)] }), [
    "events.snapshot: channel events misses records: 1 of those from 1 to 3",
  ]);
  assert.deepEqual(await findings({ channels: [channel(BROADCAST_LOG, hole)] }), []);
  assert.deepEqual(await findings({ channels: [channel(BROADCAST_LOG, gap)] }), [
    `saguin.broadcast: channel ${BROADCAST_LOG} has a floor that is not its lowest record: 1, not 2`,
  ]);
  const values = channel("state", { kind: "latest", records: records(1, 3) });
  assert.deepEqual(await findings({ channels: [values] }), []);
});

Deno.test("S143 D17 the checker finds jobs that are queued and dead, and empty retained values", async () => {
  const [{ message: letter }] = records(1);
  const dead = (offset: string) => ({
    ...letter,
    headers: [["saguin-dlq-offset", offset]] as const,
  });
  const jobs = records(2).map((job) => ({
    ...job,
    attempts: 0,
    firstDelivered: 0n,
    lastDelivered: 0n,
  }));
  const channels = [
    channel("jobs", { kind: "queue", next: 3, records: [], jobs }),
    channel("jobs__dlq", {
      next: 4,
      records: ["1", "2", "9"].map((of, i) => ({ offset: i + 1, message: dead(of) })),
    }),
    channel(RETAINED, { kind: "latest", records: [{ offset: 1, message: message("t", "") }] }),
  ];
  assert.deepEqual(await findings({ channels }), [
    `%24saguin%2Fretained.snapshot: channel ${RETAINED} holds a value that says nothing: of topic t`,
    "jobs.snapshot: channel jobs__dlq has letters of jobs that are still queued: 2 of 2",
    "jobs.snapshot: channel jobs__dlq has letters of jobs that never were: 3 of 9",
  ]);
});

Deno.test("S65 the checker holds sessions and groups against the log beside them", async () => {
  const sent = { packetId: 1, offset: 9, qos: 1, state: "sent", group: "" } as const;
  const log = channel(BROADCAST_LOG);
  const group = { name: "$share/g/a", cursor: 5, returned: [7] };
  const lost = { record: session("a"), cursor: 1, inFlight: [sent] };
  assert.deepEqual(await findings({ channels: [log], sessions: [lost] }), [
    "saguin.sessions does not belong to its log: session a has message 9 in flight, and the log's " +
    "next one is 4",
  ]);
  assert.deepEqual(await findings({ channels: [log], groups: [group] }), [
    "saguin.sessions: shared groups have a cursor past the broadcast log: $share/g/a at 5",
    "saguin.sessions: shared groups were returned what never was in the log: 7 to $share/g/a",
    "saguin.sessions: shared groups have no member: $share/g/a",
  ]);
  const alone = (path: string) => Deno.removeSync(`${path}/saguin.broadcast`);
  const without = await said({ channels: [log] }, alone);
  assert.deepEqual(without.findings, [
    "saguin.sessions has no saguin.broadcast beside it that can be read",
  ]);
  assert.deepEqual(without.notes, ["saguin.broadcast is missing: what it kept is lost"]);
});

Deno.test("Y12 Y13 the checker names every file that is damaged, foreign or out of place", async () => {
  const channels = ["a", "b", "c"].map((name) => channel(name));
  assert.deepEqual(
    await findings({ channels }, (path) => {
      const bytes = Deno.readFileSync(`${path}/a.snapshot`);
      Deno.writeFileSync(`${path}/a.snapshot`, flipped(bytes, 60));
      Deno.copyFileSync(`${path}/b.snapshot`, `${path}/d.snapshot`);
      Deno.writeFileSync(`${path}/c.snapshot`, bytes.subarray(0, 20));
      Deno.writeTextFileSync(`${path}/e.snapshot`, "x".repeat(60));
    }),
    [
      "a.snapshot is damaged: its checksum does not match its contents",
      "c.snapshot is damaged: it has 20 bytes, and a snapshot has 49 at least",
      "d.snapshot holds b, which belongs to a file of another name",
      "e.snapshot is no snapshot: it does not begin with SAGUSNAP",
    ],
  );
});

Deno.test("S77 what a start would warn of is a note", async () => {
  const channels = [channel("a"), channel("b")];
  const first = new Date(Number(STAMP.now / 1_000_000n)).toISOString();
  const { findings, notes } = await said({ channels }, (path) => {
    const old = Deno.readFileSync(`${path}/a.snapshot`);
    const manifest = Deno.readFileSync(`${path}/saguin.manifest`);
    Deno.removeSync(`${path}/b.snapshot`);
    Deno.writeTextFileSync(`${path}/b.tmp`, "half");
    Deno.writeFileSync(`${path}/a.snapshot`, old);
    Deno.writeFileSync(`${path}/saguin.manifest`, manifest);
  });
  assert.deepEqual([findings, notes], [[], [
    "b.tmp was never finished; the next start removes it",
    "b.snapshot is missing: what it kept is lost",
  ]]);
  const broken = await said({ channels }, (path) => {
    Deno.writeTextFileSync(`${path}/saguin.manifest`, "x".repeat(60));
  });
  assert.deepEqual(broken.findings, []);
  assert.deepEqual(broken.notes, [
    "saguin.manifest is no snapshot: it does not begin with SAGUSNAP",
  ]);
  const none = await said({ channels }, (path) => Deno.removeSync(`${path}/saguin.manifest`));
  assert.deepEqual(none.notes, ["saguin.manifest is missing: no stop can be told from another"]);
  await inDirectory(async (path) => {
    await writeSnapshots(path, { channels, sessions: [], groups: [] });
    const old = Deno.readFileSync(`${path}/a.snapshot`);
    const later = STAMP.now + 1_000_000_000n;
    await writeSnapshots(path, { channels, sessions: [], groups: [] }, later);
    Deno.writeFileSync(`${path}/a.snapshot`, old);
    const { findings, notes } = await check(path);
    assert.deepEqual(findings, []);
    assert.deepEqual(notes, [
      `${path}/a.snapshot is of ${first}, older than the last stop at ` +
      first.replace("00.000Z", "01.000Z"),
    ]);
  });
});
