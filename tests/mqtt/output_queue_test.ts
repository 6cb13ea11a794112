import assert from "node:assert/strict";
import type { ByteLink } from "../../src/doors/byte_link.ts";
import { OutputQueue } from "../../src/mqtt/output_queue.ts";
import { ManualTime, quiet } from "../broker/rig.ts";

const TIMEOUT_MS = 5_000;

/** A peer that takes nothing until it is told to. */
class Standing implements ByteLink {
  #taken: (() => void) | undefined;

  read(): Promise<number | null> {
    return Promise.resolve(null);
  }

  write(_bytes: Uint8Array): Promise<void> {
    return new Promise((resolve) => this.#taken = resolve);
  }

  close(): void {}

  take(): void {
    this.#taken!();
  }
}

function writing() {
  const time = new ManualTime();
  const link = new Standing();
  const failed: boolean[] = [];
  const output = new OutputQueue(
    link,
    { bytesSent: 0 },
    time,
    time,
    TIMEOUT_MS,
    () => {},
    (timedOut) => failed.push(timedOut),
  );
  const write = async () => {
    output.packets.pingresp();
    output.schedule();
    await quiet();
  };
  return { time, link, failed, write };
}

Deno.test("D8.3 a write that the peer does not take ends the connection at limits.write_timeout", async () => {
  const { time, failed, write } = writing();
  await write();
  await time.pass(TIMEOUT_MS - 1);
  assert.deepEqual(failed, []);
  await time.pass(1);
  assert.deepEqual(failed, [true]);
});

Deno.test("D8.3 each write has the whole of limits.write_timeout", async () => {
  const { time, link, failed, write } = writing();
  await write();
  await time.pass(TIMEOUT_MS - 1);
  link.take();
  await write();
  await time.pass(TIMEOUT_MS - 1);
  assert.deepEqual(failed, []);
  await time.pass(1_000);
  assert.deepEqual(failed, [true]);
});

Deno.test("D8.3 a broker that stood still for a minute holds it against no peer", async () => {
  const { time, link, failed, write } = writing();
  await write();
  for (let stall = 0; stall < 3; stall++) await time.leap(60_000);
  assert.deepEqual(failed, []);
  link.take();
  await write();
  await time.pass(TIMEOUT_MS - 1);
  assert.deepEqual(failed, []);
});
