import assert from "node:assert/strict";
import { InputBytes, LineTooLong } from "../../src/cli/input.ts";

function bytes(chunks: readonly string[], longestLine?: number): InputBytes {
  const left = chunks.map((chunk) => new TextEncoder().encode(chunk));
  return new InputBytes({
    read: (into) => {
      const chunk = left.shift();
      if (chunk === undefined) return Promise.resolve(null);
      into.set(chunk);
      return Promise.resolve(chunk.length);
    },
  }, longestLine);
}

async function lines(from: InputBytes): Promise<string[]> {
  const read: string[] = [];
  for (let line = await from.line(); line !== undefined; line = await from.line()) read.push(line);
  return read;
}

Deno.test("lines are put together across reads, with either line end, the last without one", async () => {
  assert.deepEqual(await lines(bytes(["a\nb", "c\r\n", "\n", "", "d\u00e9"])), [
    "a",
    "bc",
    "",
    "dé",
  ]);
  assert.deepEqual(await lines(bytes(["a\n"])), ["a"]);
  assert.deepEqual(await lines(bytes([])), []);
});

Deno.test("a character split between two reads is one character", async () => {
  const [first, second] = new TextEncoder().encode("é");
  const parts = [Uint8Array.of(first), Uint8Array.of(second, 0x0a)];
  const from = new InputBytes({
    read: (into) => {
      const part = parts.shift();
      if (part === undefined) return Promise.resolve(null);
      into.set(part);
      return Promise.resolve(part.length);
    },
  });
  assert.equal(await from.line(), "é");
});

Deno.test("a line that does not end is refused at the bound", async () => {
  assert.deepEqual(await lines(bytes(["1234\n"], 4)), ["1234"]);
  await assert.rejects(lines(bytes(["12345\n"], 4)), LineTooLong);
});
