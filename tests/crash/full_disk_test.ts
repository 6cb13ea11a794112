/**
 * A disk that is full, under a broker as its users run it: a small tmpfs in a mount namespace of the
 * broker's own, filled by another program and emptied again.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { check } from "../storage/check/support.ts";
import { BrokerProcess, configurationText, executable } from "../support/broker_process.ts";
import { freePort } from "../support/ports.ts";
import { Metrics } from "../support/metrics.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

const DISK = "12m";
const PAYLOAD = "x".repeat(2_000);
const SAID = /level=ERROR .*storage cannot be written; what is published to it is refused/;

/** The reason codes of so many publishes, one after the other. */
async function publish(client: WireClient, count: number, first: number): Promise<number[]> {
  const codes: number[] = [];
  for (let i = 0; i < count; i++) {
    const packetId = first + i;
    await client.publish({ topic: "plant/a", payload: PAYLOAD, qos: 1, packetId });
    codes.push((await client.expect("puback", 20_000)).reasonCode);
  }
  return codes;
}

Deno.test("S178 S85 a full disk refuses publishes, loses nothing that was acknowledged, and needs no restart", async () => {
  const operations = freePort();
  await using broker = await BrokerProcess.start(
    (place) =>
      configurationText({ ...place, database: `${place.directory}/disk/broker.db` }, {
        broker: `operations:\n  listen:\n    tcp:\n      address: 127.0.0.1:${operations}`,
        channels: "plant:\n  type: append",
      }),
    undefined,
    (directory) => {
      Deno.mkdirSync(`${directory}/disk`);
      const script = `mount -t tmpfs -o size=${DISK} tmpfs "$0" && exec "$@"`;
      const inside = ["sh", "-c", script, `${directory}/disk`, executable()];
      return ["unshare", "--map-root-user", "--mount", ...inside];
    },
  );
  // The mount is the broker's alone; its own root leads there.
  const disk = `/proc/${broker.pid}/root${broker.directory}/disk`;
  const errors = async () => {
    const text = await (await fetch(`http://127.0.0.1:${operations}/metrics`)).text();
    return Metrics.parse(text).get("saguin_storage_errors_total", { provider: "store" }) ?? 0;
  };
  using client = await WireClient.connected(broker.port, { clientId: "sensor" });
  let acknowledged = (await publish(client, 20, 1)).filter((code) => code === 0).length;
  assert.equal(acknowledged, 20);

  const filler = Deno.openSync(`${disk}/filler`, { createNew: true, write: true });
  const piece = new Uint8Array(64 * 1024);
  assert.throws(() => {
    for (;;) filler.writeSync(piece);
  }, /No space left|os error 28/);
  filler.close();
  const codes = await until("a refusal", async () => {
    const some = await publish(client, 50, 100);
    acknowledged += some.filter((code) => code === 0).length;
    return some.some((code) => code !== 0) && some;
  }, 60_000);
  assert.deepEqual([...new Set(codes.filter((code) => code !== 0))], [0x97]);
  await broker.line(SAID);
  assert.ok(await errors() > 0);
  await publish(client, 5, 200).then((more) =>
    acknowledged += more.filter((code) => code === 0).length
  );
  assert.equal(broker.lines.filter((line) => SAID.test(line)).length, 1, "once a streak");

  Deno.removeSync(`${disk}/filler`);
  const after = await until("room", async () => {
    const [code] = await publish(client, 1, 300);
    return code === 0;
  }, 20_000);
  assert.equal(after, true);
  acknowledged++;
  acknowledged += (await publish(client, 20, 400)).filter((code) => code === 0).length;

  // Copied out before the mount goes with its broker; a stop takes the log in.
  const copy = `${broker.directory}/broker.db`;
  for (const ending of ["", "-wal"]) {
    Deno.copyFileSync(`${disk}/broker.db${ending}`, copy + ending);
  }
  assert.deepEqual((await check(copy)).findings, []);
  const database = new DatabaseSync(copy, { readOnly: true });
  const { stored } = database.prepare("SELECT count(*) AS stored FROM records").get()!;
  database.close();
  assert.equal(stored, acknowledged);
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
});
