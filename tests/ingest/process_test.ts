/** Ingest in the executable: what the start says, what a reload leaves alone, a table in the way (07 C5, N2). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { BrokerProcess, configurationText, temporaryPlace } from "../support/broker_process.ts";
import { freePort } from "../support/ports.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

async function publish(broker: BrokerProcess, topic: string): Promise<void> {
  using client = await WireClient.connected(broker.port);
  await client.publish({ topic, payload: '{"value":1}', qos: 1, packetId: 1 });
  await client.expectPuback(1);
}

Deno.test("C5, C6, N12 the start says its routes, the scrape its rows, and a reload changes none of it", async () => {
  const port = freePort();
  const text = (routes: string) => (place: Parameters<typeof configurationText>[0]) =>
    configurationText(place, {
      broker: `operations: {listen: {tcp: {address: 127.0.0.1:${port}}}}`,
      ingest: `routes:\n${routes}`,
    });
  await using broker = await BrokerProcess.start(
    text("  - {filter: plant/#, table: readings, columns: {value: REAL}, index: [value]}\n"),
  );
  await broker.line(
    /publishes become rows of a table.*filter=.?plant\/#.? table=readings storage=store/,
  );
  await publish(broker, "plant/a");
  broker.configure(text("  - other/#:others\n"));
  broker.signal("SIGHUP");
  await broker.line(/reloaded; .*routes.* change with a restart only/);
  await publish(broker, "plant/b");
  await publish(broker, "other/c");
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`);
    return { status: response.status, body: await response.text() };
  };
  const { body } = await get("/v1/operations/ingest/readings?value.gte=1");
  assert.deepEqual(
    JSON.parse(body).rows.map(({ topic }: { topic: string }) => topic),
    ["plant/b", "plant/a"],
  );
  assert.equal((await get("/v1/operations/ingest/others")).status, 404);
  const scrape = (await get("/metrics")).body.split("\n");
  assert.deepEqual(scrape.filter((line) => line.startsWith("saguin_ingest")), [
    'saguin_ingest_rows_total{table="readings"} 2',
  ]);
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  await broker.startAgain();
  await publish(broker, "other/c");
  using database = new DatabaseSync(broker.database, { readOnly: true });
  assert.equal(database.prepare("SELECT count(*) AS n FROM others").get()!.n, 1);
  assert.equal(database.prepare("SELECT count(*) AS n FROM readings").get()!.n, 2);
});

Deno.test("N2 a start over somebody else's table ends with one sentence that names file and table", async () => {
  const place = temporaryPlace();
  await using broker = await BrokerProcess.start((at) => configurationText(at), place);
  await broker.stop();
  {
    using database = new DatabaseSync(place.database);
    database.exec("CREATE TABLE readings (a)");
  }
  broker.configure((at) => configurationText(at, { ingest: "routes: ['plant/#:readings']" }));
  broker.launch();
  assert.deepEqual(await broker.ended, { code: 1, signal: null });
  const said = await until("the reason", () => broker.lines.find((line) => /readings/.test(line)));
  assert.match(
    said,
    /broker\.db: table "readings" is not what ingest makes of it: no such column: _id; name another/,
  );
});
