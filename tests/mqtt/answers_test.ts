import assert from "node:assert/strict";
import { Reason } from "../../src/broker/reason.ts";
import { Answers } from "../../src/mqtt/answers.ts";
import { seeded } from "../support/random.ts";

const REFUSED = { code: Reason.QuotaExceeded, reason: "full" };

Deno.test("MQTT-4.6.0-2 answers leave in order of arrival, whatever order they are settled in", () => {
  const random = seeded("answers");
  const left: [number, number, boolean][] = [];
  const answers = new Answers((kind, packetId, refusal) =>
    left.push([kind, packetId, refusal !== undefined])
  );
  const expected: [number, number, boolean][] = [];
  const waiting: { token: number; refused: boolean }[] = [];
  for (let i = 0; i < 5_000; i++) {
    if (waiting.length === 0 || random.below(3) > 0) {
      const kind = random.below(3) as 0 | 1 | 2;
      const packetId = 1 + random.below(65_535);
      const refused = random.below(4) === 0;
      waiting.push({ token: answers.push(kind, packetId, i), refused });
      expected.push([kind, packetId, refused]);
    } else {
      const [{ token, refused }] = waiting.splice(random.below(waiting.length), 1);
      answers.answered(token, refused ? REFUSED : undefined);
    }
  }
  assert.deepEqual(left, expected.slice(0, left.length));
  for (const { token, refused } of waiting) answers.answered(token, refused ? REFUSED : undefined);
  assert.deepEqual(left, expected);
  assert.equal(answers.outstanding, 0);
  assert.equal(answers.outstandingBytes, 0);
});

Deno.test("answers count what waits, in publishes and bytes", () => {
  const answers = new Answers(() => {});
  const first = answers.push(1, 7, 100);
  const second = answers.push(1, 8, 50);
  assert.deepEqual([answers.outstanding, answers.outstandingBytes], [2, 150]);
  answers.answered(second, undefined);
  assert.deepEqual([answers.outstanding, answers.outstandingBytes], [2, 150], "it waits its turn");
  answers.answered(first, undefined);
  assert.deepEqual([answers.outstanding, answers.outstandingBytes], [0, 0]);
});
