/** Password files both ways: written by Debian's mosquitto_passwd and read here, and the reverse. */
import assert from "node:assert/strict";
import { PasswordChecker } from "../../src/auth/password_checker.ts";
import { readPasswordFile } from "../../src/auth/password_file.ts";
import { Findings } from "../../src/config/finding.ts";
import { freePort } from "../support/ports.ts";
import { until, within } from "../support/wait.ts";

const SAGUIN = new URL("../../bin/saguin", import.meta.url).pathname;
const STEP_MS = 120_000;

/** Users as both programs write them, with passwords that need quoting somewhere. */
const USERS: ReadonlyMap<string, string> = new Map([
  ["alice", "correct horse"],
  ["bob@plant", "pä$$w:rd#%"],
  ["carol smith", "'\"`"],
]);

async function run(
  command: string,
  args: readonly string[],
  stdin?: string,
): Promise<{ code: number; text: string }> {
  const child = new Deno.Command(command, {
    args: [...args],
    env: { PATH: `/usr/sbin:/usr/bin:${Deno.env.get("PATH")}` },
    stdin: stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (stdin !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
  }
  const output = await within(`the end of ${command}`, child.output(), STEP_MS);
  const text = [output.stdout, output.stderr].map((bytes) => new TextDecoder().decode(bytes)).join(
    "",
  );
  return { code: output.code, text };
}

async function inDirectory(test: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

for (const form of ["sha512-pbkdf2", "sha512"]) {
  Deno.test(`02b 6 what mosquitto_passwd writes with ${form} admits the same passwords here`, () =>
    inDirectory(async (directory) => {
      const path = `${directory}/clients.passwd`;
      for (const [i, [user, password]] of [...USERS].entries()) {
        const create = i === 0 ? ["-c"] : [];
        const made = await run("mosquitto_passwd", [
          "-H",
          form,
          ...create,
          "-b",
          path,
          user,
          password,
        ]);
        assert.equal(made.code, 0, made.text);
      }
      const findings = new Findings();
      const file = readPasswordFile(await Deno.readFile(path), path, "clients", findings);
      assert.ok(findings.empty, findings.report(path));
      assert.deepEqual(file.users, [...USERS.keys()]);
      const checker = new PasswordChecker();
      for (const [user, password] of USERS) {
        const utf8 = (text: string) => new TextEncoder().encode(text);
        assert.equal(await checker.check(file, user, utf8(password)), "right", user);
        assert.equal(await checker.check(file, user, utf8(`${password} `)), "wrong", user);
      }
    }));
}

/** A mosquitto that admits the users of `file` alone. */
async function withMosquitto(
  directory: string,
  file: string,
  test: (port: number) => Promise<void>,
): Promise<void> {
  const port = freePort();
  const configuration = `${directory}/mosquitto.conf`;
  // As root it would give its rights up, and could not read a file that is for its owner alone.
  const user = Deno.uid() === 0 ? "user root\n" : "";
  await Deno.writeTextFile(
    configuration,
    `${user}listener ${port} 127.0.0.1\nallow_anonymous false\npassword_file ${file}\n`,
  );
  const broker = new Deno.Command("mosquitto", {
    args: ["-c", configuration],
    env: { PATH: `/usr/sbin:/usr/bin:${Deno.env.get("PATH")}` },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    await until("mosquitto listens", async () => {
      try {
        (await Deno.connect({ hostname: "127.0.0.1", port })).close();
        return true;
      } catch {
        return false;
      }
    });
    await test(port);
  } finally {
    broker.kill("SIGTERM");
    await broker.status;
  }
}

async function mosquittoAdmits(port: number, user: string, password: string): Promise<boolean> {
  const login = ["-u", user, "-P", password];
  const args = ["-h", "127.0.0.1", "-p", String(port), "-t", "a", "-m", "x", "-q", "1", ...login];
  return (await run("mosquitto_pub", args)).code === 0;
}

Deno.test("02b 6 what --passwd writes is read by mosquitto and changed by mosquitto_passwd", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/clients.passwd`;
    for (const [user, password] of USERS) {
      const added = await run(SAGUIN, ["--passwd", "add", path, user, password]);
      assert.deepEqual(added, { code: 0, text: "" });
    }
    await withMosquitto(directory, path, async (port) => {
      for (const [user, password] of USERS) {
        assert.ok(await mosquittoAdmits(port, user, password), user);
        assert.ok(!await mosquittoAdmits(port, user, `${password} `), user);
      }
    });
    assert.equal((await run("mosquitto_passwd", ["-D", path, "alice"])).code, 0);
    assert.equal((await run("mosquitto_passwd", ["-b", path, "dave", "new"])).code, 0);
    const listed = await run(SAGUIN, ["-passwd", "list", path]);
    assert.deepEqual(listed, { code: 0, text: "bob@plant\ncarol smith\ndave\n" });
    assert.equal((await run(SAGUIN, ["--passwd", "delete", path, "dave"])).code, 0);
    await withMosquitto(directory, path, async (port) => {
      assert.ok(await mosquittoAdmits(port, "bob@plant", USERS.get("bob@plant")!));
      assert.ok(!await mosquittoAdmits(port, "alice", USERS.get("alice")!));
      assert.ok(!await mosquittoAdmits(port, "dave", "new"));
    });
  }));

Deno.test("02b 16 a password that is asked for comes from a pipe as well", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/clients.passwd`;
    const piped = (user: string, text: string) =>
      run(SAGUIN, ["--passwd", "add", path, user], text);
    // Once is enough, with a line end or without; who scripts the two prompts writes it twice.
    assert.deepEqual(await piped("alice", "s e c\n"), { code: 0, text: "" });
    assert.deepEqual(await piped("dora", "s e c"), { code: 0, text: "" });
    assert.deepEqual(await piped("carl", "s e c\ns e c\n"), { code: 0, text: "" });
    for (const nothing of ["one\ntwo\n", "", "\n"]) {
      const refused = await piped("bob", nothing);
      assert.equal(refused.code, 1);
      assert.match(refused.text, /; nothing is changed\n$/);
    }
    await withMosquitto(directory, path, async (port) => {
      for (const user of ["alice", "dora", "carl"]) {
        assert.ok(await mosquittoAdmits(port, user, "s e c"), user);
      }
    });
    const listed = await run(SAGUIN, ["--passwd", "list", path]);
    assert.deepEqual(listed, { code: 0, text: "alice\ndora\ncarl\n" });
  }));

/** Runs a command on a terminal of its own, types at each prompt, and prints what was to be seen. */
const ON_A_TERMINAL = `
import os, pty, sys
typed = sys.argv[1].encode().decode("unicode_escape").encode()
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
seen = b""
prompts = [b"Password: ", b"The same again: "]
while True:
    try:
        some = os.read(terminal, 1024)
    except OSError:
        break
    if not some:
        break
    seen += some
    if prompts and seen.endswith(prompts[0]):
        prompts.pop(0)
        os.write(terminal, typed)
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status))
`;

Deno.test("02b 16 on a terminal a password is not shown, can be corrected, and can be given up", () =>
  inDirectory(async (directory) => {
    const path = `${directory}/clients.passwd`;
    const type = (typed: string, ...command: readonly string[]) =>
      run("/usr/bin/python3", ["-c", ON_A_TERMINAL, typed, SAGUIN, ...command]);
    const added = await type("hunterX\\x7f2\\r", "--passwd", "add", path, "alice");
    assert.equal(added.code, 0, added.text);
    assert.equal(added.text.replaceAll("\r", ""), "Password: \nThe same again: \n");
    await withMosquitto(directory, path, async (port) => {
      assert.ok(await mosquittoAdmits(port, "alice", "hunter2"));
    });
    const gaveUp = await type("hunt\\x03", "--passwd", "add", path, "bob");
    assert.equal(gaveUp.code, 1);
    assert.match(gaveUp.text, /no password was given, .*; nothing is changed/);
    assert.ok(!gaveUp.text.includes("hunt"));
  }));
