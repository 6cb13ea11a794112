import assert from "node:assert/strict";
import { parseSeekTarget } from "../../src/broker/control/seek_target.ts";
import { bytes } from "./rig.ts";

const NOW = 1_800_000_000_000_000_000n;
const HOUR = 3_600_000_000_000n;
const MS = 1_000_000n;

Deno.test("D12.1 D12.2 D12.3 D12.7 digits are an offset, 0 the floor, -1 the end", () => {
  assert.deepEqual(parseSeekTarget(bytes("0"), NOW), { kind: "floor" });
  assert.deepEqual(parseSeekTarget(bytes("000"), NOW), { kind: "floor" });
  assert.deepEqual(parseSeekTarget(bytes("-1"), NOW), { kind: "end" });
  const rows: [string, number][] = [
    ["1", 1],
    ["007", 7],
    ["1800000000", 1_800_000_000],
    ["9007199254740993", 9007199254740992],
  ];
  for (const [text, offset] of rows) {
    assert.deepEqual(parseSeekTarget(bytes(text), NOW), { kind: "offset", offset }, text);
  }
});

Deno.test("D12.4 a duration counts back from now, whatever its sign", () => {
  const rows: [string, bigint][] = [
    ["12h", NOW - 12n * HOUR],
    ["-12h", NOW - 12n * HOUR],
    ["+12h", NOW - 12n * HOUR],
    ["90m", NOW - 90n * 60_000n * MS],
    ["7d", NOW - 7n * 24n * HOUR],
    ["30s", NOW - 30_000n * MS],
    ["250ms", NOW - 250n * MS],
    ["0s", NOW],
    ["100000d", 0n],
  ];
  for (const [text, time] of rows) {
    assert.deepEqual(parseSeekTarget(bytes(text), NOW), { kind: "time", time }, text);
  }
});

Deno.test("D12.5 an RFC 3339 moment", () => {
  const nine = BigInt(Date.UTC(2026, 7, 14, 9)) * MS;
  const rows: [string, bigint][] = [
    ["2026-08-14T09:00:00Z", nine],
    ["2026-08-14t09:00:00z", nine],
    ["2026-08-14T09:00:00.5Z", nine + 500n * MS],
    ["2026-08-14T09:00:00.000000001Z", nine + 1n],
    ["2026-08-14T09:00:00.0000000019Z", nine + 1n],
    ["2026-08-14T11:30:00+02:30", nine],
    ["2026-08-14T00:00:00-09:00", nine],
    ["2026-08-13T23:00:00-10:00", nine],
    ["2024-02-29T00:00:00Z", BigInt(Date.UTC(2024, 1, 29)) * MS],
    ["1969-12-31T23:59:59Z", 0n],
    ["0001-01-01T00:00:00Z", 0n],
    ["9999-12-31T23:59:59Z", 2n ** 63n - 1n],
  ];
  for (const [text, time] of rows) {
    assert.deepEqual(parseSeekTarget(bytes(text), NOW), { kind: "time", time }, text);
  }
});

Deno.test("D12.6 everything else is malformed", () => {
  const rows = [
    "",
    " ",
    "-0",
    "-2",
    "+1",
    "1.5",
    "1e3",
    "0x10",
    " 1",
    "1\n",
    "1h30m",
    "1.5h",
    "h",
    "--1h",
    "+-1h",
    "1w",
    "1H",
    "12 h",
    "2026-08-14",
    "2026-08-14T09:00Z",
    "2026-08-14T09:00:00",
    "2026-08-14 09:00:00Z",
    "2026-08-14T09:00:00.Z",
    "2026-08-14T09:00:00+2:00",
    "2026-08-14T09:00:00+24:00",
    "2026-08-14T09:00:00+02:60",
    "2026-08-14T24:00:00Z",
    "2026-08-14T09:60:00Z",
    "2026-08-14T09:00:60Z",
    "2026-02-29T09:00:00Z",
    "2026-13-01T09:00:00Z",
    "2026-00-01T09:00:00Z",
    "now",
    "\u0661",
    "9".repeat(65),
  ];
  for (const text of rows) {
    assert.equal(parseSeekTarget(bytes(text), NOW), undefined, JSON.stringify(text));
  }
  assert.equal(parseSeekTarget(new Uint8Array([0xff, 0x31]), NOW), undefined);
});
