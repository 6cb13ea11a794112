/**
 * What a PUBACK is worth: the broker is killed under load again and again, and every acknowledgement
 * it ever gave is held against its database (invariants 9 and 18, D11.10 to D11.15).
 */
import assert from "node:assert/strict";
import { check } from "../storage/check/support.ts";
import { BrokerProcess, configurationText, type Place } from "../support/broker_process.ts";
import { type Random, seeded } from "../support/random.ts";
import { sleep, until } from "../support/wait.ts";
import { DurableReader, type Manner } from "./durable_reader.ts";
import { Ledger } from "./ledger.ts";
import { Publisher } from "./publisher.ts";
import { CAMPAIGN } from "../support/campaign.ts";

const PUBLISHERS = 8;
const KILLS = 50 * CAMPAIGN;
/**
 * The moment of the kill: so long after every publisher has its first PUBACK, or, in some rounds, after
 * they began to connect.
 */
const LONGEST_LOAD_MS = 350;
const EARLY_KILLS = 0.2;
/** Every so many rounds the reader falls silent before the kill, and must then be resumed exactly. */
const SETTLED_EVERY = 5;
/** Every so many rounds the restart itself is killed too. */
const INTERRUPTED_EVERY = 7;
const LONGEST_INTERRUPTED_START_MS = 400;
/** Every so many rounds everything in the file is held against everything else in it. */
const CHECKED_EVERY = 10;

function configuration(random: Random): (place: Place) => string {
  const acknowledge = random.pick(["committed", "synced"] as const);
  return (place) =>
    configurationText(place, {
      acknowledge,
      logLevel: "warn",
      broker: "session:\n  ack_commit_interval: 50ms",
      channels: "crash:\n  type: append",
    });
}

Deno.test("X3 X17 every acknowledged publish survives kill -9, once, in order, and the durable consumer resumes without a gap", async () => {
  const random = seeded("crash");
  await using broker = await BrokerProcess.start(configuration(random));
  const ledger = new Ledger(broker.database, "crash");
  const publishers = Array.from({ length: PUBLISHERS }, (_, i) => new Publisher(i));
  const reader = new DurableReader("archive", "crash/#");
  /** Where the reader must be resumed; undefined: wherever its stored position says. */
  let exactly: number | undefined;
  let stored = 1;

  for (let round = 1; round <= KILLS; round++) {
    await reader.connect(broker.port, round > 1);
    reader.read(stored, random.pick<Manner>(["all", "all", "all but one", "nothing"]));

    const window = random.pick([1, 8, 64]);
    const runs = Promise.all(publishers.map((each) => each.run(broker.port, window)));
    runs.catch(() => {}); // Heard of after the kill.
    if (!random.chance(EARLY_KILLS)) {
      await until("every publisher's first PUBACK", () => {
        return publishers.every((publisher) => publisher.acknowledged > publisher.first);
      }, 20_000);
    }
    await sleep(random.below(LONGEST_LOAD_MS));

    if (round % SETTLED_EVERY === 0) {
      reader.halt();
      await reader.done();
      exactly = reader.lowestUnacknowledged;
      const position = () => ledger.position(reader.clientId) ?? 1;
      try {
        await until("the reader's position to be stored", () => position() === exactly);
      } catch (error) {
        assert.equal(position(), exactly, `round ${round}: ${(error as Error).message}`);
      }
    } else exactly = undefined;

    await broker.kill();
    await runs;
    await reader.done();
    reader.close();

    broker.configure(configuration(random));
    if (round % INTERRUPTED_EVERY === 0) {
      broker.launch();
      await sleep(random.below(LONGEST_INTERRUPTED_START_MS));
      await broker.kill();
    }
    await broker.startAgain();

    ledger.check(publishers);
    if (round % CHECKED_EVERY === 0) assert.deepEqual((await check(broker.database)).findings, []);
    checkDeliveries(reader, ledger);
    const position = ledger.position(reader.clientId) ?? 1;
    assert.ok(position >= stored, `the stored position went back from ${stored} to ${position}`);
    assert.ok(
      position <= reader.lowestUnacknowledged,
      `the stored position ${position} is past ${reader.lowestUnacknowledged}, not acknowledged`,
    );
    if (exactly !== undefined) assert.equal(position, exactly, "the settled position");
    stored = position;
  }

  const acknowledged = publishers.reduce((sum, publisher) => sum + publisher.total, 0);
  console.log(`crash: ${KILLS} kills, ${acknowledged} acknowledged, ${ledger.last} stored`);
  assert.ok(ledger.last > KILLS * PUBLISHERS, "the load was too small to show anything");

  // A graceful stop keeps the same promises, and the reader can be served to the end.
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  await broker.startAgain();
  for (const publisher of publishers) publisher.first = publisher.acknowledged = publisher.sent;
  ledger.check(publishers);
  await reader.connect(broker.port, true);
  reader.read(stored, "all", ledger.last);
  await reader.done();
  reader.close();
  assert.equal(reader.lowestUnacknowledged, ledger.last + 1);
  checkDeliveries(reader, ledger);
  ledger.checkWhole();
  assert.deepEqual((await check(broker.database)).findings, []);
});

/** Whatever reached the reader was stored, and is what is stored. */
function checkDeliveries(reader: DurableReader, ledger: Ledger): void {
  for (const [offset, record] of reader.delivered) {
    assert.deepEqual(record, ledger.seen[offset - 1], `the delivery of record ${offset}`);
  }
  reader.forget();
}
