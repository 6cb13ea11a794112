import assert from "node:assert/strict";
import { AppendChannel } from "../../src/broker/channels/append.ts";
import type { AppendStore, Provider } from "../../src/storage/contract.ts";
import type { StoredRecord } from "../../src/storage/record.ts";
import { linkOf, quiet, RecordingLink, Rig } from "./rig.ts";

/** A channel of five records, and from where they were read. */
function channelOf(rig: Rig) {
  const records: StoredRecord[] = [];
  for (let offset = 1; offset <= 5; offset++) {
    records.push({ offset, message: rig.message("t", `${offset}`) });
  }
  const reads = { from: [] as number[] };
  const store = {
    channel: "log",
    next: () => 6,
    floor: () => 1,
    readFrom: (from: number) => {
      reads.from.push(from);
      const window = { records: records.filter(({ offset }) => offset >= from), floor: 1 };
      return Promise.resolve({ ...window, belowFloor: false });
    },
  } as unknown as AppendStore;
  const channel: AppendChannel = new AppendChannel(
    "log",
    store,
    {} as Provider,
    { start: "floor" },
    rig.context,
    () => [...channel.consumers.keys()],
  );
  return { channel, reads };
}

function reader(rig: Rig, channel: AppendChannel) {
  const session = rig.session("c", { expiry: 60 });
  session.window.receiveMaximum = 1;
  session.grant = () => ({ qos: 1, retainAsPublished: false, identifiers: [], several: false });
  session.wait(channel.join(session, undefined, false));
  return session;
}

Deno.test("a session that goes away keeps none of the records read for it", async () => {
  const rig = new Rig();
  const { channel, reads } = channelOf(rig);
  const session = reader(rig, channel);
  await quiet();
  assert.equal(linkOf(session).deliveries.length, 1);
  session.detach();
  session.window.receiveMaximum = 2;
  session.resume(new RecordingLink());
  await quiet();
  assert.deepEqual(reads.from, [1, 2]);
});

Deno.test("records that arrive for a session that went away meanwhile are not kept", async () => {
  const rig = new Rig();
  const { channel, reads } = channelOf(rig);
  const session = reader(rig, channel);
  await Promise.resolve();
  assert.deepEqual(reads.from, [1], "the read is under way");
  session.detach();
  await quiet();
  session.resume(new RecordingLink());
  await quiet();
  assert.deepEqual(reads.from, [1, 1]);
  assert.equal(linkOf(session).deliveries.length, 1);
});
