/** D12.23: a position is moved with nothing but Debian's mosquitto clients. */
import assert from "node:assert/strict";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { within } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

async function run(command: string, ...args: string[]): Promise<{ code: number; stdout: string }> {
  const child = new Deno.Command(command, {
    args,
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  })
    .spawn();
  const { code, stdout } = await within(command, child.output(), 60_000);
  return { code, stdout: new TextDecoder().decode(stdout) };
}

Deno.test("D12.23 a stock client seeks: mosquitto_pub moves the position, mosquitto_sub reads from there", async () => {
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, { channels: "events:\n  type: append" })
  );
  const port = String(broker.port);
  using writer = await WireClient.connected(broker.port, { clientId: "writer" });
  const write = async (payload: string) => {
    await writer.publish({ topic: "events/x", payload, qos: 1 });
    await writer.expectPuback(1);
  };
  const as = (id: string) => ["-p", port, "-V", "5", "-q", "1", "-c", "-x", "300", "-i", id];
  const seek = (id: string, payload: string) =>
    run("mosquitto_pub", ...as(id), "-t", "$saguin/consumer/events/seek", "-m", payload);
  const read = async (id: string, count: number) => {
    const { stdout } = await run(
      "mosquitto_sub",
      ...as(id),
      "-t",
      "events/#",
      "-C",
      String(count),
      "-W",
      "10",
    );
    return stdout.trim().split("\n");
  };
  for (const payload of ["1", "2", "3"]) await write(payload);
  // Before the session ever subscribed: mosquitto_pub would acknowledge what it rewinds to.
  assert.equal((await seek("from two", "2")).code, 0);
  assert.equal((await seek("from now", "-1")).code, 0);
  assert.equal((await seek("an hour", "-1h")).code, 0);
  assert.equal((await seek("an hour", "nonsense")).code, 0, "it exits 0 even when refused");
  await write("4");
  assert.deepEqual(await read("from two", 3), ["2", "3", "4"]);
  assert.deepEqual(await read("from now", 1), ["4"]);
  assert.deepEqual(await read("an hour", 4), ["1", "2", "3", "4"]);
});
