/** `--acl` as a whole: a configuration, the ACL file that it names, and what is printed. */
import assert from "node:assert/strict";
import { aclCommand } from "../../src/cli/acl.ts";
import { LineTooLong } from "../../src/cli/input.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import { broker } from "../config/support.ts";

const CONFIGURATION = broker(
  "mqtt: {password_file: /p, acl_file: /acl.yaml}",
  "limits: {publish_bytes: 2MiB}",
) + `channels:
  log: {type: append, filter: plant/+/log/#}
  tasks: {type: queue}
`;

const ACL = `roles:
  meter:
    - {channel: log, filter: "plant/%u/log/{a,b}", allow: [write]}
    - {topic: "diag/%c/#", allow: [read, write]}
    - {broker: features, deny: [will, share]}
  duty:
    - {broker: sessions, allow: [disconnect]}
    - {channel: tasks__dlq, allow: [read]}
users:
  "*": {roles: [duty], limits: {publish_rate: 7}}
  "m-*": {roles: [meter], client_ids: "%u-*"}
  "n-1": {roles: [], limits: {publish_bytes: 5}}
`;

interface Options {
  readonly user?: string;
  readonly clientId?: string;
  readonly json?: boolean;
  readonly input?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
}

async function run({ user, clientId, json = false, input, files = {} }: Options) {
  const present: Record<string, string> = { "/c.yaml": CONFIGURATION, "/acl.yaml": ACL, ...files };
  const outcome = { stdout: "", stderr: "" };
  const code = await aclCommand({ kind: "acl", file: "/c.yaml", user, clientId, json }, {
    stdout: (text) => outcome.stdout += text,
    stderr: (text) => outcome.stderr += text,
    input: {
      async *lines() {
        assert.ok(input !== undefined, "standard input was read");
        for (const line of input) {
          if (line === "too long") throw new LineTooLong("a line is too long");
          yield await Promise.resolve(line);
        }
      },
      secrets: () => assert.fail("a password was asked for"),
    },
    surroundings: {
      ...REAL_SURROUNDINGS,
      notBuilt: [],
      readFile: (path) => {
        if (present[path] === undefined) {
          throw new Deno.errors.NotFound("No such file (os error 2)");
        }
        return new TextEncoder().encode(present[path]);
      },
    },
  });
  return { code, ...outcome };
}

Deno.test("02b 16 one user with a client id: entry, shadowed ones, limits, every grant", async () => {
  const outcome = await run({ user: "m-7", clientId: "m-7-x" });
  assert.deepEqual([outcome.code, outcome.stderr], [0, ""]);
  assert.equal(
    outcome.stdout,
    `user "m-7", client id "m-7-x", by /acl.yaml
entry in force: "m-*" at line 11, roles meter
  matches too and contributes nothing: "*" at line 10, roles duty
client ids: "%u-*"; "m-7-x" is admitted
publish rate: no bound on messages, 2MiB a second
note: "*" has limits and the entry in force has none, so the broker-wide figures hold
grants:
  meter  channel  log (plant/m-7/log/a)  write
  meter  channel  log (plant/m-7/log/b)  write
  meter  topic    diag/m-7-x/#           write, read
  meter  broker   features               deny will, share
note: a client chooses its own id, so rules with %c keep clients from accidents, not from each other
`,
  );
});

Deno.test("02b 16 without a client id a rule with %c cannot be told, and a withheld one is named", async () => {
  const outcome = await run({ user: "m-+" });
  assert.match(outcome.stdout, /^client ids: "%u-\*"$/m);
  assert.ok(
    outcome.stdout.includes(
      `grants:
  meter  broker  features  deny will, share
rules that grant nothing here:
  meter  channel  log (plant/%u/log/{a,b})  write  (the name put in holds +, # or /)
  meter  topic    diag/%c/#                 write, read  (cannot be told without a client id)
`,
    ),
    outcome.stdout,
  );
});

Deno.test("02b 16 a client id that is refused, a user without roles, a user of no pattern", async () => {
  const refused = await run({ user: "m-7", clientId: "x" });
  assert.match(
    refused.stdout,
    /^client ids: "%u-\*"; "x" is refused at CONNECT, whatever is granted$/m,
  );
  const none = await run({ user: "n-1" });
  assert.match(none.stdout, /^entry in force: "n-1" at line 12, no roles$/m);
  assert.match(none.stdout, /^publish rate: no bound on messages, 5 a second$/m);
  assert.match(none.stdout, /^grants: none$/m);
  assert.doesNotMatch(none.stdout, /has limits and the entry in force has none/);
  const nobody = await run({
    user: "x",
    files: { "/acl.yaml": "roles: {r: [{topic: x, allow: [read]}]}\nusers: {a: [r]}\n" },
  });
  assert.equal(
    nobody.stdout,
    `user "x", by /acl.yaml
no pattern matches, so nothing is granted
publish rate: no bound on messages, 2MiB a second
grants: none
`,
  );
});

Deno.test("02b 16 only files that use %c get the note about client ids", async () => {
  const files = { "/acl.yaml": ACL.replace("%c", "x") };
  const outcome = await run({ user: "anna", files });
  assert.doesNotMatch(outcome.stdout, /chooses its own id/);
  assert.match((await run({ user: "anna" })).stdout, /chooses its own id/);
});

Deno.test("02b 16 users on standard input: a row for each rule of each role, or one of dashes", async () => {
  const outcome = await run({
    input: ["# all of them", "", "m-7\tm-7-x", "  ", "anna c1", "n-1", "a b\tc", "#"],
  });
  assert.equal(outcome.code, 0);
  assert.equal(
    outcome.stdout,
    [
      "# user\trole\tkind\tsubject\tverbs\trate\tbytes",
      "m-7\tmeter\tchannel\tlog (plant/m-7/log/a)\twrite\tno bound\t2097152",
      "m-7\tmeter\tchannel\tlog (plant/m-7/log/b)\twrite\tno bound\t2097152",
      "m-7\tmeter\ttopic\tdiag/m-7-x/#\twrite,read\tno bound\t2097152",
      "m-7\tmeter\tbroker\tfeatures\tdeny:will,deny:share\tno bound\t2097152",
      "anna\tduty\tbroker\tsessions\tdisconnect\t7\tno bound",
      "anna\tduty\tchannel\ttasks__dlq\tread\t7\tno bound",
      "n-1\t-\t-\t-\t-\tno bound\t5",
      "a b\tduty\tbroker\tsessions\tdisconnect\t7\tno bound",
      "a b\tduty\tchannel\ttasks__dlq\tread\t7\tno bound",
      "#\tduty\tbroker\tsessions\tdisconnect\t7\tno bound",
      "#\tduty\tchannel\ttasks__dlq\tread\t7\tno bound",
      "",
    ].join("\n"),
  );
  assert.equal(outcome.stderr, "");
});

Deno.test("02b 16 a line without the client id that its rules need is told on standard error", async () => {
  const outcome = await run({ input: ["m-7"] });
  assert.equal(
    outcome.stderr,
    'saguin: "m-7": rules with %c need a client id after the user: diag/%c/#\n',
  );
  assert.equal(outcome.code, 0);
  assert.equal(outcome.stdout.split("\n").length, 5);
});

Deno.test("02b 16 users on standard input in JSON: one object a line, null for what is not there", async () => {
  const outcome = await run({ json: true, input: ["m-7 m-7-x", "n-1", "anna"] });
  const rows = outcome.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(rows[3], {
    user: "m-7",
    role: "meter",
    kind: "broker",
    subject: "features",
    verbs: [],
    denies: ["will", "share"],
    publish_rate: null,
    publish_bytes: 2_097_152,
  });
  assert.deepEqual(rows[4], {
    user: "n-1",
    role: null,
    kind: null,
    subject: null,
    verbs: [],
    denies: [],
    publish_rate: null,
    publish_bytes: 5,
  });
  assert.equal(rows[5].publish_rate, 7);
  assert.equal(rows.length, 7);
});

Deno.test("02b 16 one user in JSON has every key, whatever there is to say", async () => {
  const keys = [
    "user",
    "acl_file",
    "pattern_applied",
    "patterns_matched",
    "patterns_in_file",
    "grants",
    "grants_withheld",
    "client_id_allowed",
  ];
  for (const user of ["m-7", "anna", "n-1"]) {
    const { stdout } = await run({ user, json: true });
    assert.equal(stdout.split("\n").length, 2);
    assert.deepEqual(Object.keys(JSON.parse(stdout)), keys);
  }
  const body = JSON.parse((await run({ user: "m-7", clientId: "x", json: true })).stdout);
  assert.equal(body.acl_file, "/acl.yaml");
  assert.equal(body.pattern_applied, "m-*");
  assert.equal(body.client_id_allowed, false);
});

Deno.test("02b 16 without an ACL file one sentence, and no user is read", async () => {
  const files = { "/c.yaml": CONFIGURATION.replace(", acl_file: /acl.yaml", "") };
  for (const user of [undefined, "anna"]) {
    const outcome = await run({ user, files });
    assert.deepEqual([outcome.code, outcome.stdout, outcome.stderr], [
      0,
      "/c.yaml: names no acl_file, so whoever is admitted may do everything\n",
      "",
    ]);
    const json = await run({ user, files, json: true });
    assert.equal(json.stdout, '{"acl_file":null,"everything_allowed":true}\n');
  }
});

Deno.test("02b 16 what is wrong with either file is told in full, and nothing else is printed", async () => {
  const cases: readonly (readonly [Readonly<Record<string, string>>, RegExp])[] = [
    [{ "/c.yaml": "broker: {}\n" }, /^configuration is invalid:\n\/c\.yaml:\n/],
    [
      { "/acl.yaml": "users: {a: [r]}\n" },
      /^configuration is invalid:\n\/acl\.yaml:\n.*1:13 users\.a/,
    ],
  ];
  for (const [files, says] of cases) {
    const outcome = await run({ user: "a", files });
    assert.deepEqual([outcome.code, outcome.stdout], [1, ""]);
    assert.match(outcome.stderr, says);
  }
  const missing = await run({
    user: "a",
    files: { "/c.yaml": CONFIGURATION.replace("/acl.yaml", "/gone.yaml") },
  });
  assert.deepEqual([missing.code, missing.stderr], [
    1,
    "saguin: /gone.yaml: cannot be read: No such file\n",
  ]);
});

Deno.test("a line of standard input that does not end ends the command", async () => {
  const outcome = await run({ input: ["anna", "too long", "n-1"] });
  assert.deepEqual([outcome.code, outcome.stderr], [1, "saguin: a line is too long\n"]);
});

Deno.test("what a terminal would act on is printed in escapes", async () => {
  const { stdout } = await run({ user: "m-\x1b[31m", clientId: "\x07" });
  // deno-lint-ignore no-control-regex
  assert.doesNotMatch(stdout, /[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
});
