import assert from "node:assert/strict";
import { readArguments } from "../../src/cli/arguments.ts";
import { migrate } from "../../src/cli/migrate.ts";
import { ProgressLine } from "../../src/cli/progress_line.ts";
import { Dice } from "../storage/conformance/random_steps.ts";
import { drawState, inDirectory, writeSnapshots } from "../storage/migrate/support.ts";

type Flag = "snapshots-to-sqlite" | "sqlite-to-snapshots";

async function run(flag: Flag, from: string, into: string) {
  const outcome = { stdout: "", stderr: "" };
  const code = await migrate({ kind: "migrate", flag, from, into }, {
    stdout: (text) => outcome.stdout += text,
    stderr: (text) => outcome.stderr += text,
  }, false);
  return { code, ...outcome };
}

Deno.test("S161 the migrations take two paths and nothing else, a configuration least of all", () => {
  assert.deepEqual(readArguments(["--snapshots-to-sqlite", "/a", "/b.db"]), {
    kind: "migrate",
    flag: "snapshots-to-sqlite",
    from: "/a",
    into: "/b.db",
  });
  assert.deepEqual(readArguments(["-sqlite-to-snapshots=/b.db", "/a"]), {
    kind: "migrate",
    flag: "sqlite-to-snapshots",
    from: "/b.db",
    into: "/a",
  });
  const refusal = (...argv: string[]) => {
    const command = readArguments(argv);
    return "refusal" in command ? command.refusal : "accepted";
  };
  const [one, other] = ["--snapshots-to-sqlite", "--sqlite-to-snapshots"];
  for (const operands of [[], ["/a"], ["/a", ""], ["/a", "/b", "/c"], ["", "/b"]]) {
    assert.equal(refusal(one, ...operands), `${one} takes DIRECTORY DATABASE`);
    assert.equal(refusal(other, ...operands), `${other} takes DATABASE DIRECTORY`);
  }
  assert.equal(
    refusal(one, "/a", "/b", "--config", "c.yaml"),
    `${one} and --config cannot go together; give one of them`,
  );
  assert.equal(
    refusal("--config", "c.yaml", other, "/b", "/a"),
    `--config and ${other} cannot go together; give one of them`,
  );
});

Deno.test("S160 a migration lists what it moved on standard output and ends with 0", () =>
  inDirectory(async (path) => {
    const state = drawState(new Dice(1), 1);
    const events = state.channels.find(({ name }) => name === "events")!;
    const reader = { reader: "bridge:up", offset: events.next, expiry: 0, lastSeen: 0n };
    const channels = [{ ...events, positions: [reader], holds: [] }];
    await writeSnapshots(`${path}/snapshots`, { channels, sessions: [], groups: [] });
    const there = await run("snapshots-to-sqlite", `${path}/snapshots`, `${path}/a.db`);
    const entries = events.records.length === 1 ? "1 record" : "0 records";
    const listed = `events.snapshot: events (append) ${entries}, 1 position\n`;
    assert.deepEqual(there, {
      code: 0,
      stdout: `${listed}moved 1 file of channels into ${path}/a.db\n`,
      stderr: "",
    });
    const back = await run("sqlite-to-snapshots", `${path}/a.db`, `${path}/back`);
    assert.deepEqual(back, {
      code: 0,
      stdout: `${listed}moved 1 file of channels into ${path}/back\n`,
      stderr: "",
    });
  }));

Deno.test("S162 S165 S166 what is refused, fails or is not there ends with 1 and one sentence each", () =>
  inDirectory(async (path) => {
    await Deno.mkdir(`${path}/empty`);
    assert.deepEqual(await run("snapshots-to-sqlite", `${path}/empty`, `${path}/a.db`), {
      code: 1,
      stdout: "",
      stderr: `saguin: there is nothing to move in ${path}/empty; nothing is created\n`,
    });
    assert.deepEqual(await run("snapshots-to-sqlite", `${path}/gone`, `${path}/a.db`), {
      code: 1,
      stdout: "",
      stderr: `saguin: ${path}/gone is not there; name the directory of snapshots\n`,
    });
    await writeSnapshots(`${path}/snapshots`, drawState(new Dice(1), 1));
    Deno.writeTextFileSync(`${path}/snapshots/a\x1b[31m.snapshot`, "");
    const partly = await run("snapshots-to-sqlite", `${path}/snapshots`, `${path}/a.db`);
    assert.equal(partly.code, 1);
    assert.match(partly.stdout, /\nmoved \d files of channels into /);
    assert.match(
      partly.stderr,
      /snapshots\/a\\u001b\[31m\.snapshot is damaged: .*\n(saguin: .* stay.*\n)*saguin: 1 file of channels not moved; \S+\/snapshots is as it was\n$/,
    );
  }));

Deno.test("what the system says of a file is one sentence, and no stack", () =>
  inDirectory(async (path) => {
    await writeSnapshots(`${path}/snapshots`, drawState(new Dice(1), 1));
    Deno.removeSync(`${path}/snapshots/saguin.manifest`);
    Deno.mkdirSync(`${path}/snapshots/saguin.manifest`);
    const { code, stdout, stderr } = await run(
      "snapshots-to-sqlite",
      `${path}/snapshots`,
      `${path}/a.db`,
    );
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /^saguin: .*[Dd]irectory.*\n$/);
    assert.deepEqual([...Deno.readDirSync(path)].map(({ name }) => name), ["snapshots"]);
  }));

Deno.test("a long run shows where it is on a terminal, ten times a second, and nowhere else", () => {
  let now = 0;
  let written = "";
  const write = (text: string) => written += text;
  const line = new ProgressLine(write, true, () => now);
  line.show("too early");
  line.clear();
  assert.equal(written, "");
  now = 500;
  line.show("1 of 9");
  now = 599;
  line.show("2 of 9");
  now = 600;
  line.show("3 of 9 \x1b[31m" + "x".repeat(100));
  line.clear();
  line.clear();
  const long = ("3 of 9 \\u001b[31m" + "x".repeat(100)).slice(0, 79);
  assert.equal(written, `\r\x1b[K1 of 9\r\x1b[K${long}\r\x1b[K`);
  written = "";
  const file = new ProgressLine(write, false, () => now);
  now = 10_000;
  file.show("4 of 9");
  file.clear();
  assert.equal(written, "");
});
