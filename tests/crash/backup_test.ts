/** A copy taken while publishers run is a whole provider, and a broker goes on from it (04-storage.md section 18). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { check } from "../storage/check/support.ts";
import { BrokerProcess, configurationText, temporaryPlace } from "../support/broker_process.ts";
import { until } from "../support/wait.ts";
import { CHANNELS, checkChannels, checkSessions, live, said } from "./household.ts";
import { Publisher } from "./publisher.ts";

const PUBLISHERS = 2;

async function program(name: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(name, { args, stderr: "piped" }).output();
  assert.ok(success, `${name}: ${new TextDecoder().decode(stderr)}`);
}

/** Whether the machine has a program; Debian's sqlite3 of today has no sqlite3_rsync. */
function has(name: string): boolean {
  const path = Deno.env.get("PATH") ?? "";
  return path.split(":").some((directory) => {
    try {
      return Deno.statSync(`${directory}/${name}`).isFile;
    } catch {
      return false;
    }
  });
}

const WAYS: Record<string, (from: string, into: string) => Promise<void>> = {
  "VACUUM INTO": (from, into) => {
    const database = new DatabaseSync(from, { readOnly: true });
    database.exec(`VACUUM INTO '${into}'`);
    database.close();
    return Promise.resolve();
  },
  ".backup": (from, into) => program("sqlite3", from, ".timeout 10000", `.backup '${into}'`),
  ...(has("sqlite3_rsync") && {
    sqlite3_rsync: (from: string, into: string) => program("sqlite3_rsync", from, into),
  }),
};

for (const [way, copy] of Object.entries(WAYS)) {
  Deno.test(`S168 S169 S170 a copy by ${way} while publishers run is restored whole, positions and attempts with it`, async () => {
    const channels = `${CHANNELS}\ncrash:\n  type: append`;
    await using broker = await BrokerProcess.start((place) =>
      configurationText(place, { channels, ingest: "routes: ['crash/#:readings']" })
    );
    await live(broker.port);
    const publishers = Array.from({ length: PUBLISHERS }, (_, i) => new Publisher(i));
    const runs = publishers.map((publisher) => publisher.run(broker.port, 16));
    await until("publishers to be under way", () => publishers.every(({ total }) => total > 100));
    const before = publishers.reduce((sum, { total }) => sum + total, 0);

    const place = temporaryPlace();
    await copy(broker.database, place.database);
    const after = publishers.reduce((sum, { sent }) => sum + sent, 0);
    await broker.kill();
    await Promise.all(runs);
    assert.deepEqual((await check(place.database)).findings, []);

    await using restored = await BrokerProcess.start(
      (place) => configurationText(place, { channels, ingest: "routes: ['crash/#:readings']" }),
      place,
    );
    const database = new DatabaseSync(place.database, { readOnly: true });
    const stored = database.prepare("SELECT count(*) AS n FROM records WHERE channel = 'crash'")
      .get()!.n as number;
    // A publish and its row are one transaction in the copy too.
    const { rows } = database.prepare("SELECT count(*) AS rows FROM readings").get()!;
    assert.equal(rows, stored);
    database.close();
    // What was answered before the copy began is in it, and nothing that came after it ended.
    assert.ok(stored >= before && stored <= after, `${stored} of ${before} to ${after}`);
    await checkChannels(restored.port);
    await checkSessions(restored.port);
    assert.deepEqual(said(restored), []);
  });
}
