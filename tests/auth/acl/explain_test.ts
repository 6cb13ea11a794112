import assert from "node:assert/strict";
import { explain, explanationBody } from "../../../src/auth/acl/explain.ts";
import { acl, ACL_FILE } from "../support.ts";

const FILE = acl(`roles:
  meter:
    - {channel: pump-log, filter: "plant/pump/%u/{rpm,flow}", allow: [write]}
    - {channel: tasks, allow: [write, consume]}
    - {topic: "diag/%c/#", allow: [read]}
    - {broker: sessions, allow: [disconnect]}
    - {broker: features, deny: [will, persistent]}
  all:
    - {topic: "#", allow: [write]}
users:
  "*": {roles: [all], limits: {publish_rate: 7}}
  "m-*": {roles: [meter, all], client_ids: "%u-*"}
  "m-1": []
`);

Deno.test("05 7.1 the body names the entry in force, what it shadows, and every grant", () => {
  const body = explanationBody(explain(FILE, "m-7", "m-7-a"));
  assert.deepEqual(body, {
    user: "m-7",
    acl_file: ACL_FILE,
    pattern_applied: "m-*",
    patterns_matched: ["m-*", "*"],
    patterns_in_file: ["*", "m-*", "m-1"],
    grants: [
      {
        role: "meter",
        kind: "channel",
        subject: "pump-log (plant/pump/m-7/rpm)",
        verbs: ["write"],
        denies: [],
      },
      {
        role: "meter",
        kind: "channel",
        subject: "pump-log (plant/pump/m-7/flow)",
        verbs: ["write"],
        denies: [],
      },
      { role: "meter", kind: "channel", subject: "tasks", verbs: ["write", "consume"], denies: [] },
      { role: "meter", kind: "topic", subject: "diag/m-7-a/#", verbs: ["read"], denies: [] },
      { role: "meter", kind: "broker", subject: "sessions", verbs: ["disconnect"], denies: [] },
      {
        role: "meter",
        kind: "broker",
        subject: "features",
        verbs: [],
        denies: ["will", "persistent"],
      },
      { role: "all", kind: "topic", subject: "#", verbs: ["write"], denies: [] },
    ],
    grants_withheld: [],
    client_id_allowed: true,
  });
});

Deno.test("02b 7.3 withheld rules stand as the file writes them, with the reason beside", () => {
  const explanation = explain(FILE, "m-+", undefined);
  assert.deepEqual(explanation.withheld.map(({ subject, because }) => [subject, because]), [
    ["pump-log (plant/pump/%u/{rpm,flow})", "wildcard"],
    ["diag/%c/#", "no client id"],
  ]);
  const body = explanationBody(explanation);
  assert.deepEqual(body.grants_withheld[0], {
    role: "meter",
    kind: "channel",
    subject: "pump-log (plant/pump/%u/{rpm,flow})",
    verbs: ["write"],
    denies: [],
  });
  assert.equal(body.client_id_allowed, null);
  assert.equal(body.grants.length, 4);
  assert.equal(explanation.usesClientId, true);
});

Deno.test("05 7.1 a client id that client_ids refuse is said to be", () => {
  assert.equal(explanationBody(explain(FILE, "m-7", "x")).client_id_allowed, false);
});

Deno.test("05 7.1 a name that no pattern matches has every key, with nothing in it", () => {
  const file = acl("roles: {r: [{topic: x, allow: [read]}]}\nusers: {a: [r]}\n");
  assert.deepEqual(explanationBody(explain(file, "b", undefined)), {
    user: "b",
    acl_file: ACL_FILE,
    pattern_applied: null,
    patterns_matched: [],
    patterns_in_file: ["a"],
    grants: [],
    grants_withheld: [],
    client_id_allowed: null,
  });
  assert.equal(explain(file, "b", undefined).usesClientId, false);
});
