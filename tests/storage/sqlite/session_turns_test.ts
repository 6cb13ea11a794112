import assert from "node:assert/strict";
import type { Urgency } from "../../../src/storage/contract.ts";
import type { Write } from "../../../src/storage/sqlite/messages.ts";
import { SessionTurns } from "../../../src/storage/sqlite/session_turns.ts";

/** Groups before a connected write: four answering before each of four departed, four more before its own. */
const MOST_BEFORE = 24;

Deno.test("S135 S132 a connected write waits for 24 groups at most, however much of the others comes", () => {
  const turns = new SessionTurns();
  const push = (urgency: Urgency, count: number) => {
    for (let i = 0; i < count; i++) {
      turns.push({ write: {} as Write, clientId: undefined, answered() {} }, urgency);
    }
  };
  push("connected", 1);
  for (let rounds = 0; rounds < 3; rounds++) {
    let before = 0;
    for (;; before++) {
      push("answering", 20);
      push("departed", 20);
      if (turns.next()!.urgency === "connected") break;
    }
    assert.ok(before <= MOST_BEFORE, `${before} groups went before it`);
    if (rounds > 0) assert.equal(before, MOST_BEFORE);
    push("connected", 1);
  }
});
