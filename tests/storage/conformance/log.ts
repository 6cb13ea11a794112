import assert from "node:assert/strict";
import { BROADCAST_LOG } from "../../../src/storage/contract.ts";
import { appended, counters, message, type Subject, submit, window } from "./subject.ts";

const SIZE = 4;

export function logScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: S108 messages leave the broadcast log wherever they stand, and reads pass the gaps`, async () => {
    await using opened = await subject.open();
    let log = opened.provider.append(BROADCAST_LOG);
    for (const payload of ["a", "b", "c", "d", "e", "f"]) {
      await submit(opened.provider, [appended(log, message("t", payload))]);
    }
    assert.deepEqual(await log.removeMany([3, 5]), { removed: 2, freed: 2 * SIZE });
    assert.equal(counters(log), `next=7 floor=1 bytes=${4 * SIZE}`);
    assert.equal(await window(log, 1), "1:a 2:b 4:d 6:f");
    assert.equal(await window(log, 3), "4:d 6:f");
    assert.equal(await window(log, 3, 1), "4:d");
    assert.equal(await window(log, 5), "6:f");
    assert.deepEqual(await log.removeMany([1, 2, 3, 9]), { removed: 2, freed: 2 * SIZE });
    assert.equal(counters(log), `next=7 floor=4 bytes=${2 * SIZE}`);
    assert.equal(await window(log, 3), "below 4");
    assert.deepEqual(await log.removeMany([]), { removed: 0, freed: 0 });
    await opened.restart();
    log = opened.provider.append(BROADCAST_LOG);
    assert.equal(counters(log), `next=7 floor=4 bytes=${2 * SIZE}`);
    assert.equal(await window(log, 4), "4:d 6:f");
    assert.deepEqual(await log.removeMany([6, 4]), { removed: 2, freed: 2 * SIZE });
    assert.equal(counters(log), "next=7 floor=7 bytes=0");
    assert.equal(await window(log, 7), "");
    assert.deepEqual(await submit(opened.provider, [appended(log, message("t", "g"))]), [7]);
    assert.equal(await window(log, 7), "7:g");
  });
}
