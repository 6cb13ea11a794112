/** What becomes of a log line that cannot be written. */
import assert from "node:assert/strict";
import { lineWriter, LogfmtLog } from "../../src/platform/log.ts";
import { systemClock } from "../../src/platform/clock.ts";

/** An output that takes `room` bytes and then fails as a full disk does. */
class FullDisk {
  room = Infinity;
  text = "";

  writeSync(bytes: Uint8Array): number {
    if (this.room === 0) throw new Error("No space left on device (os error 28)");
    const taken = bytes.subarray(0, this.room);
    this.room -= taken.length;
    this.text += new TextDecoder().decode(taken);
    return taken.length;
  }

  /** The messages of the whole lines, with the count of lost ones. */
  lines(): string[] {
    return this.text.split("\n").map((line) =>
      line.replace(/^time=\S+ level=(\S+) broker=b msg=/, "$1 ")
    );
  }
}

Deno.test("05 section 12.1: a log that cannot be written stops nobody, and says later what is missing", () => {
  const disk = new FullDisk();
  const log = new LogfmtLog("b", "info", systemClock, lineWriter(disk));
  log.info("one");
  disk.room = 0;
  log.info("two");
  log.error("three");
  log.debug("never meant to be written");
  disk.room = Infinity;
  log.info("four");
  log.info("five");
  assert.deepEqual(disk.lines(), [
    'INFO "one"',
    'WARN "log lines could not be written" lines=2',
    'INFO "four"',
    'INFO "five"',
    "",
  ]);
});

Deno.test("a line that was torn by a full disk does not tear the next one", () => {
  const disk = new FullDisk();
  const log = new LogfmtLog("b", "info", systemClock, lineWriter(disk));
  disk.room = 10;
  log.info("torn");
  disk.room = Infinity;
  log.info("whole");
  assert.deepEqual(disk.lines().slice(1), [
    'WARN "log lines could not be written" lines=1',
    'INFO "whole"',
    "",
  ]);
});

Deno.test("05 section 12.1: what a client chose can neither end a line nor turn it round", () => {
  const disk = new FullDisk();
  const log = new LogfmtLog("b", "info", systemClock, lineWriter(disk));
  log.info("said", { client: 'a\n\x1b[31m"\u202e\u2066\u200b\u2028\u009b é😀' });
  assert.deepEqual(disk.lines(), [
    'INFO "said" client="a\\n\\u001b[31m\\"\\u202e\\u2066\\u200b\\u2028\\u009b é😀"',
    "",
  ]);
});
