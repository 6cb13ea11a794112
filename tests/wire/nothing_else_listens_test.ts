/** A broker opens the doors of its configuration and no other, whatever is signalled to it. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { BrokerProcess, configurationText, runToEnd } from "../support/broker_process.ts";
import { listening } from "../support/listening.ts";
import { sleep, until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

/** How long it must stay shut, on end, whenever it is that a signal arrives. */
const WATCHED_MS = 500;

Deno.test("what the test looks with sees a TCP, a UDP and a unix listener", async () => {
  const path = Deno.makeTempDirSync() + "/socket";
  const udp = createSocket("udp4");
  await new Promise<void>((resolve) => udp.bind(0, "127.0.0.1", resolve));
  using tcp = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using _unix = Deno.listen({ transport: "unix", path });
  const found = listening(Deno.pid);
  assert.ok(found.includes(`tcp 127.0.0.1:${(tcp.addr as Deno.NetAddr).port}`), found.join());
  assert.ok(found.includes(`udp 127.0.0.1:${udp.address().port}`), found.join());
  assert.ok(found.includes(`unix ${path}`), found.join());
  await new Promise<void>((resolve) => udp.close(resolve));
});

Deno.test("only the configured doors listen, after every signal too", async () => {
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, { channels: "log:\n  type: append" })
  );
  const doors = [`tcp 127.0.0.1:${broker.port}`];
  assert.deepEqual(listening(broker.pid), doors);

  // SIGUSR1 opens the runtime's inspector whatever the program does: more than once, so that closing
  // it does not depend on its having been opened for the first time.
  const signals: Deno.Signal[] = [
    "SIGHUP",
    "SIGUSR1",
    "SIGUSR1",
    "SIGCONT",
    "SIGWINCH",
    "SIGURG",
    "SIGCHLD",
    "SIGPIPE",
    "SIGUSR1",
  ];
  for (const signal of signals) {
    broker.signal(signal);
    await sleep(50);
    await until(`nothing else to listen after ${signal}`, () => {
      return JSON.stringify(listening(broker.pid)) === JSON.stringify(doors);
    });
  }
  await broker.line(/SIGUSR1 does nothing/);
  let shut = performance.now();
  await until(`nothing else to listen for ${WATCHED_MS} ms`, () => {
    const now = performance.now();
    if (JSON.stringify(listening(broker.pid)) !== JSON.stringify(doors)) shut = now;
    return now - shut >= WATCHED_MS;
  });

  // A compiled executable has no debugger to open; every other says that it closed one.
  const compiled = (await runToEnd(["--version"])).stdout.includes(", compiled, ");
  const said = (words: string) => broker.lines.some((line) => line.includes(words));
  assert.equal(said("closed the debugger port"), !compiled);

  using client = await WireClient.connected(broker.port, { clientId: "after" });
  await client.publish({ topic: "log/x", payload: "still serving", qos: 1, packetId: 1 });
  await client.expectPuback(1);
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
});
