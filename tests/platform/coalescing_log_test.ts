import assert from "node:assert/strict";
import {
  CoalescingLog,
  COUNTED_FOR_MS,
  MOST_KINDS,
  WRITTEN_AT_ONCE,
} from "../../src/platform/coalescing_log.ts";
import type { LogFields, LogLevel } from "../../src/platform/log.ts";
import { ManualTime, RecordingLog } from "../broker/rig.ts";

class Lines extends RecordingLog {
  constructor(private readonly level: LogLevel) {
    super();
  }
  override enabled(level: LogLevel = "debug"): boolean {
    const levels = ["debug", "info", "warn", "error"];
    return levels.indexOf(level) >= levels.indexOf(this.level);
  }
}

function rig(level: LogLevel = "info") {
  const [time, lines] = [new ManualTime(), new Lines(level)];
  const log = new CoalescingLog(lines, time);
  const refuse = (times: number, fields: LogFields, msg = "refused a publish") => {
    for (let i = 0; i < times; i++) log.warn(msg, fields);
  };
  /** What was written since the last call. */
  const said = () => lines.lines.splice(0).map(({ fields }) => fields);
  return { time, log, refuse, said };
}

const EVE = { client: "eve", topic: "a", code: 0x87, reason: "no grant" };
const MANY = 1_000;

Deno.test("05 12.2 of what one peer is refused over and over a few lines are written, then counts", async () => {
  const { time, refuse, said } = rig();
  refuse(MANY, EVE);
  const first = said();
  assert.equal(first.length, WRITTEN_AT_ONCE);
  assert.deepEqual(first[0], EVE);
  // Who reads the last of them is told why there are no more.
  assert.deepEqual(first.at(-1), { ...EVE, more: "counted" });
  refuse(1, { ...EVE, topic: "b" });
  assert.deepEqual(said(), []);
  await time.pass(COUNTED_FOR_MS);
  const held = MANY - WRITTEN_AT_ONCE;
  assert.deepEqual(said(), [{ ...EVE, topic: "b", times: held + 1 }]);
  refuse(MANY, EVE);
  assert.deepEqual(said(), []);
  await time.pass(COUNTED_FOR_MS);
  assert.deepEqual(said(), [{ ...EVE, times: MANY }]);
  // A minute without one, and it is news again; until then nothing is kept waiting for it.
  await time.pass(COUNTED_FOR_MS);
  assert.equal(time.armed, 0);
  refuse(1, EVE);
  assert.deepEqual(said(), [EVE]);
});

Deno.test("other peers, reasons and messages have lines of their own", () => {
  const { refuse, said } = rig();
  refuse(MANY, EVE);
  said();
  const others: [LogFields, string?][] = [
    [{ ...EVE, client: "bob" }],
    [{ ...EVE, reason: "another" }],
    [{ ...EVE, code: 0x97 }],
    [EVE, "refused a subscription"],
    [{ client: "", address: "10.0.0.1:5000" }],
    [{ listener: "ops", reason: "x" }],
    [{ user: "eve", why: "x" }],
    [{ queue: "jobs", reason: "expired" }],
  ];
  for (const [fields, msg] of others) {
    refuse(1, fields, msg);
    assert.deepEqual(said(), [fields]);
  }
});

Deno.test("a peer without a name is where it comes from, whatever its port", () => {
  const { refuse, said } = rig();
  for (let port = 1; port <= MANY; port++) refuse(1, { address: `[fe80::1]:${port}` });
  assert.equal(said().length, WRITTEN_AT_ONCE);
  refuse(1, { address: "[fe80::2]:1" });
  assert.equal(said().length, 1);
});

Deno.test("made-up names fill no disk and no memory: beyond a hundred they are counted together", async () => {
  const { time, log, refuse, said } = rig();
  for (let i = 0; i < MANY; i++) refuse(3, { client: `made-up-${i}`, reason: "x" });
  assert.equal(said().length, MOST_KINDS * 3 + WRITTEN_AT_ONCE);
  refuse(1, { client: "late" }, "ended a connection");
  assert.equal(said().length, 1);
  await time.pass(COUNTED_FOR_MS);
  const times = (MANY - MOST_KINDS) * 3 - WRITTEN_AT_ONCE;
  assert.deepEqual(said(), [{ peers: "several", times }]);
  refuse(2, EVE);
  log.flush();
  assert.equal(said().length, 2);
});

Deno.test("what names no peer, and every other level, is written as it comes", () => {
  const { log, refuse, said } = rig();
  refuse(MANY, { file: "a" });
  assert.equal(said().length, MANY);
  for (let i = 0; i < MANY; i++) {
    log.info("connected", EVE);
    log.error("failed", EVE);
  }
  assert.equal(said().length, 2 * MANY);
});

Deno.test("at level debug every line is written, and above warn none is kept", async () => {
  const talkative = rig("debug");
  talkative.refuse(MANY, EVE);
  assert.equal(talkative.said().length, MANY);
  const silent = rig("error");
  silent.refuse(MANY, EVE);
  assert.equal(silent.time.armed, 0);
  await silent.time.pass(COUNTED_FOR_MS);
  assert.deepEqual(silent.said(), []);
});

Deno.test("what is held is written at a stop, once", () => {
  const { log, refuse, said } = rig();
  refuse(MANY, EVE);
  said();
  log.flush();
  assert.deepEqual(said(), [{ ...EVE, times: MANY - WRITTEN_AT_ONCE }]);
  log.flush();
  assert.deepEqual(said(), []);
});
