import assert from "node:assert/strict";
import {
  LONGEST_DURATION_MS,
  readDuration,
  readSize,
  writeDuration,
  writeSize,
} from "../../src/config/units.ts";

Deno.test("a duration is one whole number and one unit", () => {
  assert.deepEqual(readDuration("150ms"), { ms: 150, unit: "ms" });
  assert.deepEqual(readDuration("5s"), { ms: 5_000, unit: "s" });
  assert.deepEqual(readDuration("90m"), { ms: 5_400_000, unit: "m" });
  assert.deepEqual(readDuration("36h"), { ms: 129_600_000, unit: "h" });
  assert.deepEqual(readDuration("30d"), { ms: 2_592_000_000, unit: "d" });
  assert.deepEqual(readDuration("0s"), { ms: 0, unit: "s" });
  assert.deepEqual(readDuration("90"), { fault: "unit" });
  for (const wrong of ["1h30m", "", "s", "1.5s", "-1s", " 1s", "1s ", "1S", "1w", "١s"]) {
    assert.deepEqual(readDuration(wrong), { fault: "form" }, wrong);
  }
  assert.deepEqual(readDuration("99999999999999999999d"), { fault: "range" });
});

Deno.test("a duration is written in the largest unit that divides it", () => {
  for (const text of ["1ms", "150ms", "1s", "90s", "1m", "1h", "1d", "30d", "65535s"]) {
    const reading = readDuration(text);
    assert.ok(!("fault" in reading));
    assert.equal(writeDuration(reading.ms), text);
  }
  assert.equal(writeDuration(0), "0s");
  assert.equal(writeDuration(120_000), "2m");
});

Deno.test("the longest duration fits signed nanoseconds of 64 bits", () => {
  assert.ok(BigInt(LONGEST_DURATION_MS) * 1_000_000n < 2n ** 63n);
});

Deno.test("a size is a whole number of bytes, alone or with a binary unit", () => {
  assert.deepEqual(readSize("512"), { bytes: 512 });
  assert.deepEqual(readSize("8KiB"), { bytes: 8_192 });
  assert.deepEqual(readSize("1MiB"), { bytes: 1_048_576 });
  assert.deepEqual(readSize("4GiB"), { bytes: 4_294_967_296 });
  for (const wrong of ["", "1KB", "1K", "1 MiB", "1.5GiB", "-1", "0x10", "1TiB"]) {
    assert.deepEqual(readSize(wrong), { fault: "form" }, wrong);
  }
  assert.deepEqual(readSize("99999999999999999999"), { fault: "range" });
});

Deno.test("a size is written in the largest unit that divides it", () => {
  for (const text of ["1", "1000", "1KiB", "100KiB", "1MiB", "64GiB"]) {
    const reading = readSize(text);
    assert.ok(!("fault" in reading));
    assert.equal(writeSize(reading.bytes), text);
  }
});
