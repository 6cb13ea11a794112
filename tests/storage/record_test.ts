import assert from "node:assert/strict";
import { recordSize, utf8Length } from "../../src/storage/record.ts";
import { storedSize } from "../../src/storage/sqlite/opening.ts";
import { Random } from "../support/random.ts";

const PARTS = ["a", "é", "机", "😀", "\u{10ffff}", "\u07ff", "\u0800", "\uffff", ""];

Deno.test("S14 a record's size is that of payload, topic, id and User Properties in UTF-8, from its row too", () => {
  const random = new Random(14);
  const encoder = new TextEncoder();
  const bytes = (text: string) => encoder.encode(text).byteLength;
  const text = () => Array.from({ length: random.below(8) }, () => random.pick(PARTS)).join("");
  for (let i = 0; i < 300; i++) {
    const [topic, messageId] = [text(), text()];
    assert.equal(utf8Length(topic), bytes(topic));
    const headers = Array.from({ length: random.below(4) }, () => [text(), text()] as const);
    const payload = new Uint8Array(random.below(100));
    const size = payload.byteLength + bytes(topic) + bytes(messageId) +
      headers.reduce((sum, [name, value]) => sum + bytes(name) + bytes(value), 0);
    assert.equal(recordSize({ topic, messageId, headers, payload }), size);
    const stored = headers.length === 0 ? null : JSON.stringify(headers);
    const row = { topic, messageId, headers: stored, payloadBytes: payload.byteLength };
    assert.equal(storedSize(row), size);
  }
});
