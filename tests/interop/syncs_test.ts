/**
 * What `acknowledge: synced` is worth, as the system sees it: strace counts the syncs of a running broker
 * between a publish and its acknowledgement (07 T2 and section 14.10). A kill cannot show this, since the
 * page cache outlives the process.
 */
import assert from "node:assert/strict";
import * as amqp from "../amqp/support/amqp_bytes.ts";
import { AmqpClient } from "../amqp/support/client.ts";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { freePort } from "../support/ports.ts";
import { sleep, until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

const PERSISTENT: amqp.Publish = { properties: amqp.PERSISTENT };
const SEQUENTIAL = 20;
const BURST = 2_000;
/** How often the log is flushed when nobody waits for it. */
const FLUSH_MS = 400;
/** A line that is there is read in less than this, and one that only the next flush writes is not. */
const SEEN_MS = 250;

/** Counts the syncs that a process carries out, from the moment it is attached. */
class Syncs implements AsyncDisposable {
  #seen = "";
  #count = 0;
  readonly #reading: Promise<void>;

  private constructor(private readonly child: Deno.ChildProcess) {
    this.#reading = this.#read();
  }

  static async of(pid: number): Promise<Syncs> {
    const syncs = new Syncs(
      new Deno.Command("strace", {
        args: ["-f", "-e", "trace=fsync,fdatasync,sync_file_range", "-p", String(pid)],
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      }).spawn(),
    );
    await until("strace to be attached", () => /attached/.test(syncs.#seen));
    return syncs;
  }

  get count(): number {
    return this.#count;
  }

  /** A line is written before the process it is about goes on. */
  async #read(): Promise<void> {
    for await (const text of this.child.stderr.pipeThrough(new TextDecoderStream())) {
      this.#seen += text;
      // Of one that was interrupted by another's line the end counts.
      this.#count = this.#seen.match(/(?:fsync|fdatasync)(?:\(.*\)| resumed>.*)\s+= 0/g)?.length ??
        0;
    }
  }

  /** What happens by the way has happened. */
  async quiet(): Promise<void> {
    for (let before = -1; before !== this.#count;) {
      before = this.#count;
      await sleep(2 * FLUSH_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill("SIGINT");
    await this.child.status;
    await this.#reading;
  }
}

Deno.test("T2, P2, 14.10 synced: a sync lies between each durable publish and its answer, a burst shares one, what stores nothing has none", async () => {
  const port = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      acknowledge: "synced",
      providerKeys: `flush_interval: ${FLUSH_MS}ms`,
      broker: `amqp:\n  listen:\n    tcp:\n      address: 127.0.0.1:${port}`,
    })
  );
  using client = await AmqpClient.connected(port);
  await client.declare("q", { durable: true });
  await client.declare("transient");
  await client.call(amqp.queueBind(1, "q", "amq.topic", "durable.#"), "bind-ok");
  await client.call(amqp.confirmSelect(1), "select-ok");
  using sensor = await WireClient.connected(broker.port);
  await using syncs = await Syncs.of(broker.pid);
  for (let tag = 1; tag <= SEQUENTIAL; tag++) {
    const before = syncs.count;
    await client.send(amqp.publish(1, "", "q", `m${tag}`, PERSISTENT));
    await client.expect("ack");
    await until("the line of the sync", () => syncs.count > before, SEEN_MS);
  }
  for (let packetId = 1; packetId <= SEQUENTIAL; packetId++) {
    const before = syncs.count;
    await sensor.publish({ topic: "durable/t", payload: "x", qos: 1, packetId });
    await sensor.expectPuback(packetId);
    await until("the line of the sync", () => syncs.count > before, SEEN_MS);
  }
  await syncs.quiet();
  let before = syncs.count;
  await client.send(
    ...Array.from({ length: BURST }, (_, i) => amqp.publish(1, "", "q", `b${i}`, PERSISTENT)),
  );
  for (let tag = 0; tag < SEQUENTIAL + BURST;) tag = (await client.expect("ack")).delivery;
  await syncs.quiet();
  const burst = syncs.count - before;
  assert.ok(burst >= 1 && burst < BURST / 20, `${burst} syncs for a burst of ${BURST}`);
  before = syncs.count;
  for (let packetId = 1; packetId <= SEQUENTIAL; packetId++) {
    await sensor.publish({ topic: "nobody/durable", payload: "x", qos: 1, packetId });
    await sensor.expectPuback(packetId);
    await client.send(amqp.publish(1, "", "transient", "x", PERSISTENT));
    await client.expect("ack");
  }
  assert.equal(syncs.count - before, 0, "syncs of what stores nothing");
});
