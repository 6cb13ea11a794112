import assert from "node:assert/strict";
import { health, HEALTH_MS } from "../../src/operations/health.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { HeapTimers } from "../../src/platform/timers.ts";
import { ManualTime } from "../broker/rig.ts";
import { ask } from "../support/http.ts";
import { until } from "../support/wait.ts";
import { OperationsHouse } from "./house.ts";

const DURABLE = { sessionExpiry: 600 };

const body = ({ body }: { readonly body: Uint8Array }) => new TextDecoder().decode(body);

Deno.test("05 5 ok when the publish path comes round, and no timer stays behind", async () => {
  const time = new ManualTime();
  const answer = await health(() => Promise.resolve(), time, time);
  assert.equal(answer.status, 200);
  assert.equal(body(answer), '{"status":"ok"}');
  assert.equal(time.armed, 0);
});

Deno.test("05 5 unavailable when the publish path does not come round in time", async () => {
  const time = new ManualTime();
  const asked = health(() => new Promise(() => {}), time, time);
  let answered = false;
  void asked.then(() => answered = true);
  await time.pass(HEALTH_MS - 1);
  assert.equal(answered, false);
  await time.pass(1);
  const answer = await asked;
  assert.equal(answer.status, 503);
  assert.equal(body(answer), '{"status":"unavailable"}');
});

Deno.test("05 5 unavailable when the loop stood still, though the turn comes before the deadline", async () => {
  const time = new ManualTime();
  let come = () => {};
  const turn = new Promise<void>((resolve) => come = resolve);
  let late = 0;
  const asked = health(() => turn, { monotonic: () => late, wall: () => 0n }, time);
  late = HEALTH_MS;
  come();
  assert.equal((await asked).status, 503);
});

Deno.test("05 5 a disk that stands still leaves the broker healthy: publishes wait, and the path takes them in", async () => {
  await using ops = await OperationsHouse.open();
  const { house } = ops;
  const gate = house.faults.hold("submit");
  using client = await house.client({ clientId: "c", cleanStart: false, properties: DURABLE });
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "a", qos: 1 }] });
  await client.expectSuback(1, [1]);
  await client.publish({ topic: "a", qos: 1, packetId: 2 });
  await until("the publish to wait for its disk", () => gate.waiting > 0);
  const answer = await ops.get("/health");
  assert.deepEqual([answer.status, answer.body], [200, '{"status":"ok"}']);
  const bare = await ask(ops.where, "/health", {}, "HEAD");
  assert.deepEqual([bare.status, bare.body], [200, ""]);
  gate.open();
  await client.expectPuback(2);
});

Deno.test("05 5 a broker whose event loop comes to nothing for a second is not healthy, and is again after it", async () => {
  await using ops = await OperationsHouse.open();
  const { broker } = ops.house;
  const timers = new HeapTimers(systemClock, (error) => assert.fail(String(error)));
  const asked = () => health(() => broker.publishTurn(), systemClock, timers);
  const stuck = asked();
  for (const end = performance.now() + HEALTH_MS + 20; performance.now() < end;);
  assert.equal((await stuck).status, 503);
  assert.equal((await asked()).status, 200);
  timers.stop();
});
