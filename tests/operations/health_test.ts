import assert from "node:assert/strict";
import { health, HEALTH_MS } from "../../src/operations/health.ts";
import { ManualTime } from "../broker/rig.ts";

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
