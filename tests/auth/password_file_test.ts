import assert from "node:assert/strict";
import {
  LARGEST_PASSWORD_FILE_BYTES,
  type PasswordFileKind,
  readPasswordFile,
} from "../../src/auth/password_file.ts";
import { scopeCovers } from "../../src/auth/scopes.ts";
import { Findings } from "../../src/config/finding.ts";
import { cheapHash, utf8 } from "./support.ts";

const FILE = "/etc/saguin/clients.passwd";
const HASH = cheapHash("pw");

function read(content: string | Uint8Array, kind: PasswordFileKind = "clients") {
  const findings = new Findings();
  const bytes = typeof content === "string" ? utf8(content) : content;
  const file = readPasswordFile(bytes, FILE, kind, findings);
  const report = findings.empty ? "" : findings.report(FILE);
  assert.equal(file.faulty, report !== "");
  const bullets = report.trimEnd().split("\n").slice(2).map((bullet) => bullet.replace("  - ", ""));
  return { file, report, bullets };
}

Deno.test("02b 6 one user a line; blank lines and comments say nothing", () => {
  const { file, report } = read(
    `# all of them\n\nalice:${HASH}\n  \n bob : ${HASH} \r\nc d@é:${HASH}`,
  );
  assert.equal(report, "");
  assert.deepEqual(file.users, ["alice", "bob", "c d@é"]);
  assert.equal(file.credentials.get("bob")?.hash, HASH);
  assert.equal(file.credentials.get("bob")?.line, 5);
  assert.equal(file.file, FILE);
});

Deno.test("02b 6 a name that is a word of this language is a name", () => {
  const { file } = read(`__proto__:${HASH}\nconstructor:${HASH}\n`);
  assert.deepEqual(file.users, ["__proto__", "constructor"]);
});

Deno.test("02b 6 an argon2id hash is refused with file and line", () => {
  const { report } = read(`alice:${HASH}\nbob:$argon2id$v=19$m=47104,t=1,p=1$c2FsdHNhbHQ$aGFzaA\n`);
  assert.equal(
    report,
    `configuration is invalid:\n${FILE}:\n  - 2:1 user "bob" has an argon2id hash, which is not ` +
      "read here; set the password again with saguin --passwd add\n",
  );
});

Deno.test("02b 6 a user on two lines is refused naming both", () => {
  const { bullets } = read(`alice:${HASH}\nbob:${HASH}\nalice:${cheapHash("other")}\n`);
  assert.deepEqual(bullets, ['3:1 user "alice" is a user of line 1 too; keep one of the lines']);
});

Deno.test("02b 6 a third field is refused in a file of clients", () => {
  const { bullets } = read(`alice:${HASH}:/metrics\nbob:${HASH}:\n`);
  assert.deepEqual(bullets, [
    '1:1 user "alice" has a third field, which only an operations file has; write user:hash',
    '2:1 user "bob" has a third field, which only an operations file has; write user:hash',
  ]);
});

Deno.test("05 4.1 a third field of an operations file is a scope of served routes", () => {
  const { file, report } = read(
    `all:${HASH}\none:${HASH}:/v1/operations/config\n` +
      `many:${HASH}:/metrics,/v1/operations,/v1/operations/queues/welds\n` +
      `table:${HASH}:/v1/operations/ingest/readings\n`,
    "operators",
  );
  assert.equal(report, "");
  assert.equal(file.credentials.get("all")?.scopes, undefined);
  assert.deepEqual(file.credentials.get("one")?.scopes, ["/v1/operations/config"]);
  assert.deepEqual(file.credentials.get("many")?.scopes, [
    "/metrics",
    "/v1/operations",
    "/v1/operations/queues/welds",
  ]);
  assert.deepEqual(file.credentials.get("table")?.scopes, ["/v1/operations/ingest/readings"]);
});

Deno.test("05 2 a scope that names no served route is refused", () => {
  for (
    const scope of [
      "/v1/operation",
      "/v1/operationsx",
      "/v1/operations/",
      "/",
      "metrics",
      "/health",
      "/v1/operations/queues/a/b",
      "/v1/operations/ingest/a/b",
      "/metrics\x1b",
    ]
  ) {
    const { bullets } = read(`a:${HASH}:/metrics,${scope}\n`, "operators");
    assert.equal(bullets.length, 1, scope);
    assert.match(
      bullets[0],
      /^1:1 user "a" has (the scope "\/[^"]*", which|a scope that) names no route; the routes/,
    );
    assert.ok(!bullets[0].includes("\x1b"));
  }
  const { bullets } = read(`a:${HASH}:\nb:${HASH}:/metrics,\n`, "operators");
  assert.match(bullets[0], /^1:1 user "a" has an empty scope; /);
  assert.match(bullets[1], /^2:1 user "b" has an empty scope; /);
});

Deno.test("05 4.1 a scope ends where a level of the path does", () => {
  assert.ok(scopeCovers("/v1/operations", "/v1/operations/consumers"));
  assert.ok(scopeCovers("/v1/operations/config", "/v1/operations/config"));
  assert.ok(!scopeCovers("/v1/operations", "/v1/operationsx"));
  assert.ok(!scopeCovers("/v1/operations/config", "/v1/operations"));
  assert.ok(!scopeCovers("", "/metrics"));
});

Deno.test("no finding shows a hash, a password written as it is, or a line without a colon", () => {
  const { report, bullets } = read(
    `alice:hunter2plain\nswordfish\nbob:$7$101$c2FsdHNhbHRzYWx0$bm90IGEgaGFzaA==\n` +
      `carol:$2y$10$bcryptbcryptbcrypt\ndave:${HASH}x\n`,
  );
  assert.equal(bullets.length, 5);
  assert.equal(bullets[1], "2:1 has no colon; write user:hash, which saguin --passwd add does");
  for (
    const secret of [
      "hunter2plain",
      "swordfish",
      "c2FsdHNhbHRzYWx0",
      "bm90IGEgaGFzaA",
      "bcryptbcrypt",
      HASH.slice(6),
    ]
  ) {
    assert.ok(!report.includes(secret), secret);
  }
});

Deno.test("a user name that no client is admitted under is refused", () => {
  const { bullets } = read(`:${HASH}\na\x07b:${HASH}\n${"n".repeat(65_536)}:${HASH}\n`);
  assert.equal(bullets[0], '1:1 user "" is no user name; write one');
  assert.match(bullets[1], /^2:1 user "a\\u0007b" holds a control character, /);
  assert.match(bullets[2], /^3:1 user "n{120}\.\.\." is longer than 65535 bytes; /);
});

Deno.test("what is no password file at all is reported in a few lines", () => {
  const { bullets } = read("no colon here\n".repeat(1_000));
  assert.equal(bullets.length, 21);
  assert.ok(bullets.includes("1:1 has 980 more lines that are wrong; is it a password file?"));
  assert.deepEqual(read(Uint8Array.of(0x61, 0x3a, 0xff)).bullets, [
    "1:1 is not UTF-8 text; save it as UTF-8",
  ]);
  assert.deepEqual(read(new Uint8Array(LARGEST_PASSWORD_FILE_BYTES + 1)).bullets, [
    "1:1 is larger than 32MiB; is it a password file?",
  ]);
});

Deno.test("a file of nobody is for its door to judge", () => {
  assert.deepEqual(read("").report, "");
  assert.deepEqual(read("# nobody\n").file.users, []);
});
