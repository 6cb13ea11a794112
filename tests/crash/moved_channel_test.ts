/** What a channel's name is worth in one provider and in another. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import {
  BrokerProcess,
  configurationText,
  type Place,
  runToEnd,
  temporaryPlace,
} from "../support/broker_process.ts";
import { WireClient } from "../support/wire.ts";

function twoProviders(storage: "store" | "other"): (place: Place) => string {
  return (place) =>
    configurationText(place, {
      channels: `plant:\n  type: append\n  storage: ${storage}\nkept:\n  type: append`,
    }).replace(
      "      store:\n",
      `      other:\n        type: sqlite\n        file_path: ${place.directory}/other.db\n      store:\n`,
    );
}

/** Publishes and answers the offset each record took, as a subscriber is told it. */
async function publish(broker: BrokerProcess, ...payloads: string[]): Promise<void> {
  using client = await WireClient.connected(broker.port, { clientId: "sensor" });
  for (const [i, payload] of payloads.entries()) {
    for (const topic of ["plant/a", "kept/a"]) {
      const packetId = 10 * (i + 1) + Number(topic === "kept/a");
      await client.publish({ topic, payload, qos: 1, packetId });
      assert.equal((await client.expect("puback")).reasonCode, 0);
    }
  }
}

/** The channels of a database, and the payloads of `plant` by offset. */
function stored(path: string): { readonly channels: string[]; readonly plant: string[] } {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const channels = database.prepare("SELECT name FROM channels WHERE next > 1 ORDER BY name");
    const records = database.prepare(
      "SELECT offset, payload FROM records WHERE channel = 'plant' ORDER BY offset",
    );
    return {
      channels: channels.all().map(({ name }) => String(name)).filter((name) => name !== ""),
      plant: records.all().map(({ offset, payload }) =>
        `${offset}:${new TextDecoder().decode(payload as Uint8Array)}`
      ),
    };
  } finally {
    database.close();
  }
}

Deno.test("S1 S4 S117 S159 a channel lives in one provider: pointed at another it begins anew, pointed back it goes on", async () => {
  await using broker = await BrokerProcess.start(twoProviders("store"));
  const other = `${broker.directory}/other.db`;
  await publish(broker, "a", "b");
  assert.throws(() => Deno.statSync(other), Deno.errors.NotFound);
  await broker.stop();

  broker.configure(twoProviders("other"));
  await broker.startAgain();
  await publish(broker, "c");
  assert.equal((await broker.stop()).code, 0);
  assert.deepEqual(stored(other), { channels: ["plant"], plant: ["1:c"] });
  assert.deepEqual(stored(broker.database).plant, ["1:a", "2:b"]);

  broker.configure(twoProviders("store"));
  await broker.startAgain();
  await publish(broker, "d");
  assert.equal((await broker.stop()).code, 0);
  assert.deepEqual(stored(broker.database).plant, ["1:a", "2:b", "3:d"]);
  assert.deepEqual(stored(other).plant, ["1:c"]);
});

Deno.test("S82 S90 a configuration is judged without its databases, and has no say in how they sync", async () => {
  const place = temporaryPlace();
  try {
    const checked = async (providerKeys?: string) => {
      const path = place.directory + "/saguin.yaml";
      const parts = { channels: "plant:\n  type: append", ...(providerKeys && { providerKeys }) };
      Deno.writeTextFileSync(path, configurationText(place, parts));
      return await runToEnd(["--check-config", path]);
    };
    const database = new DatabaseSync(place.database);
    database.exec("PRAGMA user_version=19; CREATE TABLE t (n INTEGER)");
    database.close();
    assert.equal((await checked()).code, 0);
    const { code, stdout, stderr } = await checked("synchronous: FULL");
    assert.equal(code, 1);
    assert.match(stdout + stderr, /synchronous/);
  } finally {
    await Deno.remove(place.directory, { recursive: true });
  }
});
