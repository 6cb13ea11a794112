/** The database file itself at the points where a kill can tell one order from another (X28 to X30, X34). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { check } from "../storage/check/support.ts";
import { BrokerProcess, configurationText, type Place } from "../support/broker_process.ts";
import { encodePublish, join } from "../support/mqtt_bytes.ts";
import { freePort } from "../support/ports.ts";
import { seeded } from "../support/random.ts";
import { sleep } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { label, publishAll, resumed } from "./household.ts";
import { diesAt, killable, killableCommand, rows } from "./support/killable_broker.ts";

const CHANNELS = "events:\n  type: append";

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X28 killed ${at} the commit of the schema: the file is new or whole, and its owner's alone`, async () => {
    const elsewhere = (place: Place) => ({ ...place, database: `${place.directory}/first.db` });
    await using broker = await BrokerProcess.start(
      (place) => configurationText(elsewhere(place), { channels: CHANNELS }),
    );
    await broker.stop();
    broker.configure((place) => configurationText(place, { channels: CHANNELS, logLevel: "warn" }));
    broker.command = killableCommand(broker.directory);
    await diesAt(broker, { sql: "CREATE TABLE share_returned", at }, () => {
      broker.launch();
      return Promise.resolve();
    });
    const tables = rows(broker, "SELECT name FROM sqlite_schema WHERE type = 'table'").length;
    assert.equal(tables, at === "after" ? 11 : 0);
    assert.equal(Deno.statSync(broker.database).mode! & 0o777, 0o600);
    await broker.startAgain();
    await publishAll(broker.port, [{ topic: "events/a", payload: "1" }]);
    assert.deepEqual(rows(broker, "PRAGMA user_version"), [{ user_version: 20 }]);
    assert.deepEqual((await check(broker.database)).findings, []);
  });
}

const LARGE = "x".repeat(100_000);

async function count(broker: BrokerProcess): Promise<number> {
  assert.deepEqual((await check(broker.database)).findings, []);
  return Number(rows(broker, "SELECT count(*) AS n FROM records")[0].n);
}

for (const [what, mib] of [["PASSIVE", 17], ["RESTART", 66]] as const) {
  for (const at of ["before", "after"] as const) {
    Deno.test(`X29 killed ${at} a checkpoint (${what}): what was acknowledged is there, from log and file`, async () => {
      await using broker = await killable({ channels: CHANNELS });
      using client = await WireClient.connected(broker.port);
      const batch = Array.from(
        { length: 10 },
        (_, i) => encodePublish({ topic: "events/a", payload: LARGE, qos: 1, packetId: i + 1 }),
      );
      let acknowledged = 0;
      const point = { sql: `wal_checkpoint\\(${what}`, at, alone: true };
      await diesAt(broker, point, async () => {
        for (;;) {
          assert.ok(acknowledged < mib * 30, "no checkpoint came");
          await client.send(join(...batch));
          for (let i = 1; i <= batch.length; i++) {
            await client.expectPuback(i);
            acknowledged++;
          }
        }
      });
      assert.ok(acknowledged > mib * 5, `${acknowledged} before the checkpoint`);
      const stored = await count(broker);
      assert.ok(stored >= acknowledged && stored <= acknowledged + batch.length);
      await broker.startAgain();
      await publishAll(broker.port, [{ topic: "events/a", payload: "after" }]);
      assert.equal(await count(broker), stored + 1);
    });
  }
}

for (const at of ["before", "after"] as const) {
  Deno.test(`X29 killed ${at} the checkpoint of a stop: the log is replayed, and the stale lock is no lock`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    const records = Array.from({ length: 30 }, (_, i) => ({ topic: "events/a", payload: `${i}` }));
    await publishAll(broker.port, records);
    await diesAt(broker, { sql: "wal_checkpoint\\(TRUNCATE", at, alone: true }, () => {
      broker.signal("SIGTERM");
      return Promise.resolve();
    });
    assert.ok(Deno.statSync(`${broker.database}.lock`).size > 0);
    assert.equal(await count(broker), records.length);
    await broker.startAgain();
    assert.equal(await count(broker), records.length);
  });
}

Deno.test("X30 another broker's refused start, killed at any moment, leaves the running one alone", async () => {
  const random = seeded("refused start");
  await using broker = await BrokerProcess.start(
    (place) => configurationText(place, { channels: CHANNELS }),
  );
  const other = { ...broker.place, port: freePort() };
  const text = configurationText(other, { channels: CHANNELS });
  const path = `${broker.directory}/other.yaml`;
  Deno.writeTextFileSync(path, text);
  const [program, ...args] = killableCommand(broker.directory);
  for (let round = 0; round < 8; round++) {
    const child = new Deno.Command(program, {
      args: [...args, "--config", path],
      stdout: "null",
      stderr: "null",
    }).spawn();
    if (round > 0) {
      await sleep(random.below(1_200));
      try {
        child.kill("SIGKILL");
      } catch (error) {
        // It was refused before that.
        if (!(error instanceof TypeError)) throw error;
      }
    }
    const { success } = await child.status;
    assert.equal(success, false);
    await publishAll(broker.port, [{ topic: "events/a", payload: `${round}` }]);
    assert.equal(await count(broker), round + 1);
  }
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  await broker.startAgain();
  assert.equal(await count(broker), 8);
});

Deno.test("X34 two providers that went back to moments of their own agree with each other at the start", async () => {
  const two = (name: string) => (place: Place): string =>
    configurationText({ ...place, database: `${place.directory}/sessions-${name}.db` }, {
      channels: `${CHANNELS}\n  storage: records`,
    }).replace(
      "      store:\n",
      `      records: {type: sqlite, file_path: ${place.directory}/records-${name}.db}\n` +
        "      store:\n",
    );
  await using broker = await BrokerProcess.start(two("now"));
  const copy = (provider: string, name: string) => {
    const database = new DatabaseSync(`${broker.directory}/${provider}-now.db`, { readOnly: true });
    database.exec(`VACUUM INTO '${broker.directory}/${provider}-${name}.db'`);
    database.close();
  };
  await publishAll(broker.port, [{ topic: "events/a", payload: "1" }]);
  copy("sessions", "recordsOnly");
  copy("records", "sessionsOnly");
  const { client: reader } = await resumed(broker.port, "reader");
  await reader.subscribe({ subscriptions: [{ filter: "events/#", qos: 1 }] });
  await reader.expectSuback(1, [1]);
  const first = await reader.expectPublish("events/a", "1");
  await reader.puback(first.packetId);
  await reader.disconnect();
  const { client: sender } = await resumed(broker.port, "sender");
  await sender.publish({ topic: "events/b", payload: "held", qos: 2, packetId: 3 });
  await sender.expectPubrec(3);
  await sender.disconnect();
  copy("records", "recordsOnly");
  copy("sessions", "sessionsOnly");
  await broker.stop();

  // Records, positions and holds, and no session: the hold is dropped, the position waits for its expiry.
  broker.configure(two("recordsOnly"));
  await broker.startAgain();
  const database = new DatabaseSync(`${broker.directory}/records-recordsOnly.db`, {
    readOnly: true,
  });
  assert.equal(database.prepare("SELECT count(*) AS n FROM held_publishes").get()!.n, 0);
  database.close();
  await publishAll(broker.port, [{ topic: "events/a", payload: "2" }]);
  const again = await resumed(broker.port, "reader");
  assert.equal(again.present, false);
  await again.client.subscribe({ subscriptions: [{ filter: "events/#", qos: 1 }] });
  const packets = [await again.client.next(), await again.client.next()];
  const delivered = packets.find((packet) => packet.type === "publish")!;
  assert.equal(label(delivered, "saguin-offset"), "2");
  again.client.close();
  await broker.stop();

  // Sessions, and neither position nor hold: the session starts by `start`, the release finds nothing.
  broker.configure(two("sessionsOnly"));
  await broker.startAgain();
  const { client: kept, present } = await resumed(broker.port, "reader");
  assert.equal(present, true);
  assert.equal(label(await kept.expectPublish("events/a", "1"), "saguin-offset"), "1");
  kept.close();
  const { client: releasing } = await resumed(broker.port, "sender");
  using last = releasing;
  await last.pubrel(3);
  await last.expectPubcomp(3, 0x92);
  for (const provider of ["sessions", "records"]) {
    const path = `${broker.directory}/${provider}-sessionsOnly.db`;
    assert.deepEqual((await check(path)).findings, []);
  }
});
