/**
 * A database that is deleted, moved or replaced under a running broker: whatever is committed from then on
 * is gone with the process, so nothing is acknowledged any more (invariant 18).
 */
import assert from "node:assert/strict";
import { check } from "../storage/check/support.ts";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { freePort } from "../support/ports.ts";
import { sleep, until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { Metrics } from "../support/metrics.ts";

const SAID = /level=ERROR .*the file of a storage provider was taken away/;

interface Rig extends AsyncDisposable {
  readonly broker: BrokerProcess;
  readonly operations: number;
}

async function start(acknowledge: "committed" | "synced"): Promise<Rig> {
  const operations = freePort();
  const broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      acknowledge,
      broker: `operations:\n  listen:\n    tcp:\n      address: 127.0.0.1:${operations}`,
      channels: "plant:\n  type: append",
    })
  );
  return { broker, operations, [Symbol.asyncDispose]: () => broker[Symbol.asyncDispose]() };
}

class Client implements Disposable {
  #packetId = 0;
  private constructor(private readonly wire: WireClient) {}

  static async connected(port: number): Promise<Client> {
    return new Client(await WireClient.connected(port, { clientId: "sensor" }));
  }

  /** The reason code of the PUBACK. */
  async publish(payload: string): Promise<number> {
    const packetId = this.#packetId = this.#packetId % 60_000 + 1;
    await this.wire.publish({ topic: "plant/a", payload, qos: 1, packetId });
    const puback = await this.wire.expect("puback");
    assert.equal(puback.packetId, packetId);
    return puback.reasonCode;
  }

  [Symbol.dispose](): void {
    this.wire.close();
  }
}

function rename(
  broker: BrokerProcess,
  to: (path: string) => string,
  from = (p: string) => p,
): void {
  for (const ending of ["", "-wal", "-shm"]) {
    Deno.renameSync(from(broker.database + ending), to(broker.database + ending));
  }
}

async function metrics(operations: number): Promise<Metrics> {
  return Metrics.parse(await (await fetch(`http://127.0.0.1:${operations}/metrics`)).text());
}

Deno.test("S6 S85 a database taken away is noticed without a publish: 0x83, one line, and all is well when it is back", async () => {
  await using rig = await start("committed");
  const { broker, operations } = rig;
  using client = await Client.connected(broker.port);
  assert.equal(await client.publish("before"), 0);
  const away = (path: string) => path + ".away";
  rename(broker, away);
  assert.match(
    // A look a second while nothing is written.
    await broker.line(SAID),
    /provider=store path=.*broker\.db error="there is no file at .*broker\.db any more"/,
  );
  for (let i = 0; i < 3; i++) assert.equal(await client.publish("lost"), 0x83);
  assert.ok(
    (await metrics(operations)).get("saguin_storage_errors_total", { provider: "store" })! > 0,
  );
  await sleep(1_200);
  assert.equal(broker.lines.filter((line) => SAID.test(line)).length, 1);

  rename(broker, (path) => path, away);
  await broker.line(/the file of a storage provider is back/);
  assert.equal(await client.publish("after"), 0);
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  assert.deepEqual((await check(broker.database)).findings, []);
  await broker.startAgain();
  assert.equal(
    (await metrics(operations)).get("saguin_channel_next_offset", { channel: "plant" }),
    3,
  );
});

Deno.test("S6 a database that another file replaced is not written, and the stop says that it kept nothing", async () => {
  await using rig = await start("committed");
  const { broker } = rig;
  using client = await Client.connected(broker.port);
  assert.equal(await client.publish("before"), 0);
  const other = new Uint8Array(4096).fill(7);
  Deno.removeSync(broker.database);
  Deno.writeFileSync(broker.database, other);
  const refused = await until("a refusal", async () => await client.publish("lost") || undefined);
  assert.equal(refused, 0x83);
  assert.match(await broker.line(SAID), /error="another file stands at .*broker\.db/);
  assert.equal((await broker.stop()).code, 1);
  await broker.line(/did not close cleanly.*another file stands at/);
  assert.deepEqual(Deno.readFileSync(broker.database), other);
});

Deno.test("S6 S197 with acknowledge synced the first publish after the log was deleted is refused", async () => {
  await using rig = await start("synced");
  const { broker } = rig;
  using client = await Client.connected(broker.port);
  assert.equal(await client.publish("before"), 0);
  Deno.removeSync(broker.database + "-wal");
  assert.equal(await client.publish("lost"), 0x83);
  await broker.line(/error="there is no file at .*broker\.db-wal any more"/);
});
