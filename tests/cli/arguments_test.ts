import assert from "node:assert/strict";
import { readArguments } from "../../src/cli/arguments.ts";
import { FLAGS, helpText } from "../../src/cli/flags.ts";

function refusal(...argv: readonly string[]): string {
  const command = readArguments(argv);
  return "refusal" in command ? command.refusal : "accepted";
}

Deno.test("02b 16 each built command is read, with one dash as with two", () => {
  for (const dash of ["-", "--"]) {
    assert.deepEqual(readArguments([`${dash}config`, "a.yaml"]), {
      kind: "config",
      file: "a.yaml",
    });
    assert.deepEqual(readArguments([`${dash}config=a.yaml`]), { kind: "config", file: "a.yaml" });
    assert.deepEqual(readArguments([`${dash}check-config`, "a.yaml"]), {
      kind: "check-config",
      file: "a.yaml",
      output: false,
    });
    assert.deepEqual(readArguments([`${dash}output`, `${dash}check-config`, "a.yaml"]), {
      kind: "check-config",
      file: "a.yaml",
      output: true,
    });
    assert.deepEqual(readArguments([`${dash}version`]), { kind: "version" });
    assert.deepEqual(readArguments([`${dash}help`]), { kind: "help" });
  }
});

Deno.test("a file name may begin with a dash behind the equals sign", () => {
  assert.deepEqual(readArguments(["--config=-a"]), { kind: "config", file: "-a" });
});

Deno.test("a flag of a room that is not built yet is refused by name", () => {
  const notBuilt = FLAGS.filter(({ built }) => !built);
  assert.deepEqual(notBuilt.map(({ name }) => name), [
    "route",
    "acl",
    "json",
    "passwd",
    "snapshots-to-sqlite",
    "sqlite-to-snapshots",
    "licenses",
  ]);
  for (const { name } of notBuilt) {
    assert.equal(refusal(`--${name}`, "a"), `--${name} is not built yet`);
    assert.equal(refusal(`-${name}`), `--${name} is not built yet`);
  }
  assert.equal(refusal("--route", "c.yaml", "--", "-12h/#"), "--route is not built yet");
});

Deno.test("what is no command line is refused in one sentence", () => {
  assert.equal(refusal(), "no command is given; write --config FILE to start, or --help");
  assert.equal(refusal("a.yaml"), "a.yaml is no flag; write --config FILE to start, or --help");
  assert.equal(refusal("--confg", "a"), "--confg is no flag; did you mean --config?");
  assert.equal(refusal("-chek-config=a"), "--chek-config is no flag; did you mean --check-config?");
  assert.equal(refusal("--daemonize"), "--daemonize is no flag; --help lists the flags");
  assert.equal(refusal("-x"), "--x is no flag; --help lists the flags");
  assert.equal(refusal("--config"), "--config names no file; write --config FILE");
  assert.equal(refusal("--config="), "--config names no file; write --config FILE");
  assert.equal(refusal("--config", "a", "b"), "--config takes nothing more; remove b");
  assert.equal(refusal("--config", "a", "--", "--b"), "--config takes nothing more; remove --b");
  assert.equal(refusal("--version", "a"), "--version takes nothing more; remove a");
  assert.equal(refusal("--version=a"), "--version takes no value; remove a");
  assert.equal(refusal("--config", "a", "--config", "b"), "--config is given twice; give it once");
  assert.equal(
    refusal("--config", "a", "--check-config", "b"),
    "--config and --check-config cannot go together; give one of them",
  );
});

Deno.test("02b 16 --output is refused without --check-config", () => {
  assert.equal(refusal("--output"), "--output goes with --check-config only");
  assert.equal(refusal("--output", "--config", "a"), "--output goes with --check-config only");
});

Deno.test("a control character of an argument reaches no terminal", () => {
  assert.equal(refusal("--a\x1b[31m"), "--a\\u001b[31m is no flag; --help lists the flags");
});

Deno.test("--help names every flag and marks what is not built", () => {
  const text = helpText();
  for (const { name, built } of FLAGS) {
    const line = text.split("\n").find((line) => line.startsWith(`  --${name}`));
    assert.equal(line?.endsWith("(not built yet)"), !built, name);
  }
});
