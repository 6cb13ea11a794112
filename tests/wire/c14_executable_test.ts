/** 06 section 14: what the test harnesses of client libraries ask of the executable. */
import assert from "node:assert/strict";
import { BrokerProcess, executable, runToEnd, temporaryPlace } from "../support/broker_process.ts";
import { freePort } from "../support/ports.ts";
import { published, subscribed, taken } from "../support/clients.ts";
import { WireClient } from "../support/wire.ts";

/** Every key that harnesses write, with the smallest values they use. */
function harness(port: number, webSocket: number, passwords: string): string {
  return `broker:
  id: harness
  log_level: warn
  mqtt:
    listen:
      tcp:
        address: 127.0.0.1:${port}
        password_file: ${passwords}
      ws:
        address: 127.0.0.1:${webSocket}
        password_file: ${passwords}
  storage:
    default: memory
    default_retention_period: none
    default_retention_bytes: none
    providers:
      - memory:
          type: memory
          snapshot_dir: none
  retained:
    storage: memory
    retention_period: none
  limits:
    max_session_expiry: 5m
channels:
  - log:
      type: append
      filter: iot/{a,b}/+/#
  - values:
      type: latest
      filter: values/#
  - jobs:
      type: queue
      filter: jobs/#
      visibility_timeout: 2s
      retry:
        max_attempts: 1
        backoff: exponential
        backoff_base: 1s
`;
}

Deno.test("06 14 --passwd add makes the file, --check-config judges, -config starts, SIGTERM ends it", async () => {
  const place = temporaryPlace();
  const passwords = `${place.directory}/passwords`;
  const file = `${place.directory}/harness.yaml`;
  const added = await runToEnd(["--passwd", "add", passwords, "ann", "correct-horse"]);
  assert.equal(added.code, 0, added.stderr);
  assert.ok(Deno.statSync(passwords).size > 0);
  await Deno.writeTextFile(file, harness(place.port, freePort(), passwords));
  const checked = await runToEnd(["--check-config", file]);
  assert.equal(checked.code, 0, checked.stderr);
  await Deno.writeTextFile(`${place.directory}/wrong.yaml`, "broker:\n  nonsense: 1\n");
  const refused = await runToEnd(["--check-config", `${place.directory}/wrong.yaml`]);
  assert.notEqual(refused.code, 0);
  assert.match(refused.stdout + refused.stderr, /nonsense/);

  await using broker = await BrokerProcess.start(
    (of) => harness(of.port, freePort(), passwords),
    place,
    // One dash, as harnesses write it, in place of the two that would follow.
    () => ["sh", "-c", `exec "$0" -config "$2"`, executable()],
  );
  const credentials = { userName: "ann", password: "correct-horse" };
  using client = await WireClient.connected(broker.port, {
    clientId: "harness",
    properties: { sessionExpiry: 86_400 },
    ...credentials,
  });
  await subscribed(client, "iot/a/+/#");
  await published(client, "iot/a/1/x", "x");
  await taken(client, "iot/a/1/x", "x");
  const from = performance.now();
  const { code } = await broker.stop();
  assert.equal(code, 0);
  assert.ok(performance.now() - from < 10_000);
});
