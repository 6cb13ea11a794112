/** Records that an append channel is told of in another order than they were stored in. */
import assert from "node:assert/strict";
import { AppendChannel } from "../../src/broker/channels/append.ts";
import type { Session } from "../../src/broker/session.ts";
import { Random } from "../support/random.ts";
import { linkOf, quiet, Rig, text } from "./rig.ts";

/** A channel with one reader that has everything, and how to store a record without telling of it. */
async function rigOf() {
  const rig = new Rig();
  await rig.open({ channel: "log", kind: "append" });
  const store = rig.provider.append("log");
  const sessions: Session[] = [];
  const channel = new AppendChannel(
    "log",
    store,
    rig.provider,
    { start: "floor" },
    rig.context,
    () => sessions,
  );
  const session = rig.session("c");
  sessions.push(session);
  session.grant = () => ({ qos: 1, retainAsPublished: false, identifiers: [], several: false });
  session.wait(channel.join(session, undefined, false));
  await quiet();
  const stored = (payload: string) => {
    const message = rig.message("t", payload);
    const row = { kind: "append" as const, store, message, offset: 0 };
    rig.provider.submit({ rows: [row], bytes: 0, settled: (failure) => assert.ok(!failure) });
    return () => channel.recorded(row.offset, message);
  };
  return { channel, session, stored };
}

function shown(session: Session): string[] {
  return linkOf(session).deliveries.map(({ message }) => text(message.payload));
}

Deno.test("D20.1 a record told of early is delivered after the one stored before it", async () => {
  const { channel, session, stored } = await rigOf();
  stored("1")();
  const second = stored("2");
  const third = stored("3");
  third();
  await quiet();
  assert.deepEqual(shown(session), ["1", "2", "3"]);
  second();
  await quiet();
  assert.deepEqual(shown(session), ["1", "2", "3"]);
  assert.equal(channel.end, 4);
  stored("4")();
  assert.deepEqual(shown(session), ["1", "2", "3", "4"]);
  assert.equal(channel.consumer(session)!.position, 1, "nothing is acknowledged");
});

Deno.test("D20.1 whatever the order of telling, each record comes once and in the order of storage", async () => {
  const random = new Random(2_501);
  for (let round = 0; round < 200; round++) {
    const { session, stored } = await rigOf();
    const waiting: (() => void)[] = [];
    const expected: string[] = [];
    for (let i = 1; i <= 20; i++) {
      expected.push(`${i}`);
      waiting.push(stored(`${i}`));
      while (waiting.length > 0 && random.chance(0.6)) {
        waiting.splice(random.below(waiting.length), 1)[0]();
      }
      if (random.chance(0.2)) await quiet();
    }
    for (const tell of random.shuffled(waiting)) tell();
    await quiet();
    assert.deepEqual(shown(session), expected);
  }
});
