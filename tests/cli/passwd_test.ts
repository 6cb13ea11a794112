/** `--passwd` on real files; a fake only for the keyboard. */
import assert from "node:assert/strict";
import { isPassword, readHash } from "../../src/auth/hash.ts";
import { passwd, type PasswdCommand, readPasswd } from "../../src/cli/passwd.ts";
import { cheapHash } from "../auth/support.ts";

const SECRET = "correct horse battery";

function command(verb: string, ...operands: readonly string[]): PasswdCommand {
  const read = readPasswd(verb, operands);
  if ("refusal" in read) assert.fail(read.refusal);
  return read;
}

/** Runs a command; `typed` is what the operator answers to the prompts, if anything. */
async function run(read: PasswdCommand, typed?: readonly string[]) {
  const outcome = { stdout: "", stderr: "", prompts: [] as string[] };
  const code = await passwd(read, {
    stdout: (text) => outcome.stdout += text,
    stderr: (text) => outcome.stderr += text,
    input: {
      async *lines() {},
      secrets: (prompts) => {
        outcome.prompts.push(...prompts);
        return Promise.resolve(typed);
      },
    },
  });
  assert.ok(!outcome.stdout.includes("$7$") && !outcome.stderr.includes("$7$"), "no hash is shown");
  for (const word of SECRET.split(" ")) {
    assert.ok(!(outcome.stdout + outcome.stderr).includes(word), "no password is shown");
  }
  return { code, ...outcome };
}

async function inDirectory(test: (file: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(`${directory}/clients.passwd`);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function hashOf(file: string, user: string) {
  const line = Deno.readTextFileSync(file).split("\n").find((each) => each.startsWith(`${user}:`));
  assert.ok(line !== undefined, `${user} is not in the file`);
  const hash = readHash(line.split(":")[1]);
  if ("fault" in hash) assert.fail(hash.fault);
  return hash;
}

const mode = (file: string) => Deno.statSync(file).mode! & 0o777;
const utf8 = (text: string) => new TextEncoder().encode(text);

Deno.test("02b 16 add makes a file for its owner alone, with a $7$ hash of 1000 iterations", () =>
  inDirectory(async (file) => {
    const outcome = await run(command("add", file, "alice", SECRET));
    assert.deepEqual([outcome.code, outcome.stdout, outcome.stderr], [0, "", ""]);
    assert.equal(mode(file), 0o600);
    const hash = hashOf(file, "alice");
    assert.deepEqual([hash.form, hash.iterations], ["pbkdf2", 1_000]);
    assert.equal(await isPassword(hash, utf8(SECRET)), true);
    assert.deepEqual([...Deno.readDirSync(file.replace(/\/[^/]*$/, ""))].map(({ name }) => name), [
      "clients.passwd",
    ]);
  }));

Deno.test("02b 16 add changes one line of a file that is there, and keeps its mode", () =>
  inDirectory(async (file) => {
    const before = `# staff\nbob:${cheapHash("b")}\nalice:${cheapHash("a")}:/metrics\n`;
    Deno.writeTextFileSync(file, before);
    Deno.chmodSync(file, 0o644);
    assert.equal((await run(command("add", file, "alice", SECRET))).code, 0);
    const after = Deno.readTextFileSync(file);
    const [staff, bob, alice, end] = after.split("\n");
    assert.deepEqual([staff, bob, end], ["# staff", `bob:${cheapHash("b")}`, ""]);
    assert.match(alice, /^alice:\$7\$1000\$.*:\/metrics$/);
    assert.equal(await isPassword(hashOf(file, "alice"), utf8(SECRET)), true);
    assert.equal(mode(file), 0o644);
  }));

Deno.test("02b 16 an existing file keeps its owner, also behind a symbolic link", async () => {
  // Only root gives a file away; anybody else keeps one.
  const root = Deno.uid() === 0;
  const owner = root ? [65_534, 65_533] as const : [Deno.uid()!, Deno.gid()!] as const;
  await inDirectory(async (file) => {
    Deno.writeTextFileSync(`${file}.real`, `bob:${cheapHash("b")}\n`);
    Deno.chownSync(`${file}.real`, ...owner);
    Deno.chmodSync(`${file}.real`, 0o640);
    Deno.symlinkSync(`${file}.real`, file);
    assert.equal((await run(command("delete", file, "bob"))).code, 0);
    assert.ok(Deno.lstatSync(file).isSymlink);
    const { uid, gid, mode } = Deno.statSync(file);
    assert.deepEqual([uid, gid, mode! & 0o777], [...owner, 0o640]);
    assert.equal(Deno.readTextFileSync(file), "");
  });
});

Deno.test("02b 16 without a password operand it is asked for twice", () =>
  inDirectory(async (file) => {
    const outcome = await run(command("add", file, "alice"), [SECRET, SECRET]);
    assert.equal(outcome.code, 0);
    assert.equal(outcome.prompts.length, 2);
    assert.equal(await isPassword(hashOf(file, "alice"), utf8(SECRET)), true);
  }));

Deno.test("two passwords that differ, none, and an empty one change nothing", () =>
  inDirectory(async (file) => {
    const differ = await run(command("add", file, "alice"), [SECRET, `${SECRET} `]);
    assert.deepEqual([differ.code, differ.stderr], [
      1,
      `saguin: ${file}: the two passwords differ; nothing is changed\n`,
    ]);
    const gaveUp = await run(command("add", file, "alice"));
    assert.equal(
      gaveUp.stderr,
      `saguin: ${file}: no password was given, or not a second time; nothing is changed\n`,
    );
    const empty = await run(command("add", file, "alice", ""));
    assert.match(empty.stderr, /an empty password is no password; nothing is changed/);
    assert.throws(() => Deno.statSync(file), Deno.errors.NotFound);
  }));

Deno.test("a name that cannot be written is refused before a password is asked for", () =>
  inDirectory(async (file) => {
    for (const name of ["", "a:b", "#a", " a", "a\tb"]) {
      const outcome = await run(command("add", file, name));
      assert.equal(outcome.code, 1, name);
      assert.equal(outcome.prompts.length, 0);
    }
  }));

Deno.test("02b 16 list names the users, with their scopes, and no hashes", () =>
  inDirectory(async (file) => {
    const hash = cheapHash("x");
    Deno.writeTextFileSync(file, `# a\nbob:${hash}\nalice:${hash}:/metrics,/v1/operations\n`);
    const outcome = await run(command("list", file));
    assert.deepEqual([outcome.code, outcome.stdout, outcome.stderr], [
      0,
      "bob\nalice\t/metrics,/v1/operations\n",
      "",
    ]);
  }));

Deno.test("list of a file with lines that a broker refuses names the rest and exits 1", () =>
  inDirectory(async (file) => {
    Deno.writeTextFileSync(file, `bob:$argon2id$v=19$x\n${SECRET}\nal\x1bice:${cheapHash("x")}\n`);
    const outcome = await run(command("list", file));
    assert.equal(outcome.code, 1);
    assert.equal(outcome.stdout, "bob\nal\\u001bice\n");
    assert.match(outcome.stderr, /: line 1 has an argon2id hash, which is not read here; /);
    assert.match(outcome.stderr, /: line 2 has no colon, and names nobody\n/);
  }));

Deno.test("02b 16 delete takes the user out, and says so when there is none", () =>
  inDirectory(async (file) => {
    Deno.writeTextFileSync(file, `bob:${cheapHash("b")}\nalice:${cheapHash("a")}\n`);
    assert.equal((await run(command("delete", file, "bob"))).code, 0);
    assert.equal(Deno.readTextFileSync(file), `alice:${cheapHash("a")}\n`);
    const again = await run(command("delete", file, "bob"));
    assert.deepEqual([again.code, again.stderr], [
      1,
      `saguin: ${file}: "bob" is no user of the file\n`,
    ]);
  }));

Deno.test("02b 16 scope sets the whole list of routes, and all clears it", () =>
  inDirectory(async (file) => {
    const hash = cheapHash("b");
    Deno.writeTextFileSync(file, `bob:${hash}\n`);
    assert.equal((await run(command("scope", file, "bob", "/metrics,/v1/operations"))).code, 0);
    assert.equal(Deno.readTextFileSync(file), `bob:${hash}:/metrics,/v1/operations\n`);
    const refused = await run(command("scope", file, "bob", "/metrics,/nowhere"));
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      /: the new list has the scope "\/nowhere", which names no route; /,
    );
    assert.equal(Deno.readTextFileSync(file), `bob:${hash}:/metrics,/v1/operations\n`);
    assert.equal((await run(command("scope", file, "bob", "all"))).code, 0);
    assert.equal(Deno.readTextFileSync(file), `bob:${hash}\n`);
  }));

Deno.test("a file that is not there is made by add alone", () =>
  inDirectory(async (file) => {
    for (
      const read of [
        command("list", file),
        command("delete", file, "a"),
        command("scope", file, "a", "all"),
      ]
    ) {
      const outcome = await run(read);
      assert.deepEqual([outcome.code, outcome.stderr], [
        1,
        `saguin: ${file}: there is no such file\n`,
      ]);
    }
    const outcome = await run(command("add", `${file}/x`, "a", SECRET));
    assert.equal(outcome.code, 1);
    assert.match(outcome.stderr, /^saguin: .*\/x: /);
  }));

Deno.test("a file that is no text is left alone", () =>
  inDirectory(async (file) => {
    Deno.writeFileSync(file, Uint8Array.of(0x61, 0xff, 0x3a));
    const outcome = await run(command("add", file, "a", SECRET));
    assert.match(outcome.stderr, /: it is not UTF-8 text; save it as UTF-8\n$/);
    assert.deepEqual(Deno.readFileSync(file), Uint8Array.of(0x61, 0xff, 0x3a));
  }));
