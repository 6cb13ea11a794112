import assert from "node:assert/strict";
import { type Edited, removeUser, setHash, setScope } from "../../src/auth/password_edit.ts";

function text(edited: Edited): string {
  if ("fault" in edited) assert.fail(edited.fault);
  return edited.text;
}

function fault(edited: Edited): string {
  return "fault" in edited ? edited.fault : "accepted";
}

const BEFORE = "# staff\nalice:$6$a$b\r\n\nbob:$7$1$a$b:/metrics\nold:$argon2id$x\nnonsense\n";

Deno.test("a new user comes last, on a line of its own", () => {
  assert.equal(text(setHash("", "a", "H")), "a:H\n");
  assert.equal(text(setHash("x:1", "a", "H")), "x:1\na:H\n");
  assert.equal(text(setHash(BEFORE, "a", "H")), `${BEFORE}a:H\n`);
});

Deno.test("a known user gets a new hash and keeps place, scope and line end; the rest stands", () => {
  assert.equal(text(setHash(BEFORE, "alice", "H")), BEFORE.replace("$6$a$b", "H"));
  assert.equal(text(setHash(BEFORE, "bob", "H")), BEFORE.replace("$7$1$a$b", "H"));
  assert.equal(text(setHash(BEFORE, "old", "H")), BEFORE.replace("$argon2id$x", "H"));
});

Deno.test("a user is removed with its line, and with all of its lines", () => {
  assert.equal(text(removeUser(BEFORE, "bob")), BEFORE.replace("bob:$7$1$a$b:/metrics\n", ""));
  assert.equal(text(removeUser("a:1\nb:2\na:3\n", "a")), "b:2\n");
  assert.equal(text(removeUser("a:1", "a")), "");
});

Deno.test("05 4.1 scope replaces the whole list, and nothing clears it", () => {
  assert.equal(
    text(setScope(BEFORE, "bob", "/v1/operations,/metrics")),
    BEFORE.replace(":/metrics", ":/v1/operations,/metrics"),
  );
  assert.equal(text(setScope(BEFORE, "bob", undefined)), BEFORE.replace(":/metrics", ""));
  assert.equal(text(setScope("a:1\n", "a", "/metrics")), "a:1:/metrics\n");
});

Deno.test("what cannot be changed is one sentence", () => {
  assert.equal(fault(removeUser(BEFORE, "carol")), '"carol" is no user of the file');
  assert.equal(fault(setScope(BEFORE, "# staff", "/metrics")), '"# staff" is no user of the file');
  assert.equal(
    fault(setHash("a:1\nb:2\na:3\n", "a", "H")),
    '"a" is on the lines 1 and 3; delete the user first',
  );
  assert.equal(
    fault(setScope("a:1\na:3\n", "a", undefined)),
    '"a" is on the lines 1 and 2; delete the user first',
  );
  for (const name of ["", "a:b", "#a", " a", "a ", "a\nb", "\ud800"]) {
    assert.notEqual(fault(setHash("", name, "H")), "accepted", JSON.stringify(name));
  }
});
