import assert from "node:assert/strict";
import { readArguments } from "../../src/cli/arguments.ts";
import { FLAGS, helpText } from "../../src/cli/flags.ts";

function refusal(...argv: readonly string[]): string {
  const command = readArguments(argv);
  return "refusal" in command ? command.refusal : "accepted";
}

Deno.test("02b 16 each command is read, with one dash as with two", () => {
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
    assert.deepEqual(readArguments([`${dash}licenses`]), { kind: "licenses" });
    assert.deepEqual(readArguments([`${dash}help`]), { kind: "help" });
  }
});

Deno.test("a file name may begin with a dash behind the equals sign", () => {
  assert.deepEqual(readArguments(["--config=-a"]), { kind: "config", file: "-a" });
});

Deno.test("a filter may begin with a dash behind two dashes", () => {
  assert.deepEqual(readArguments(["--route", "c.yaml", "--", "-12h/#"]), {
    kind: "route",
    file: "c.yaml",
    subject: "-12h/#",
    json: false,
  });
});

Deno.test("what is no command line is refused in one sentence", () => {
  assert.equal(refusal(), "no command is given; write --config FILE to start, or --help");
  assert.equal(refusal("a.yaml"), "a.yaml is no flag; write --config FILE to start, or --help");
  assert.equal(refusal("--confg", "a"), "--confg is no flag; did you mean --config?");
  assert.equal(refusal("-chek-config=a"), "-chek-config is no flag; did you mean --check-config?");
  assert.equal(refusal("--daemonize"), "--daemonize is no flag; --help lists the flags");
  assert.equal(refusal("-x"), "-x is no flag; --help lists the flags");
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

Deno.test("02b 16 --acl takes a user and a client id, and goes with --json", () => {
  const acl = { kind: "acl", file: "c.yaml", user: undefined, clientId: undefined, json: false };
  assert.deepEqual(readArguments(["--acl", "c.yaml"]), acl);
  assert.deepEqual(readArguments(["-acl", "c.yaml", "anna"]), { ...acl, user: "anna" });
  assert.deepEqual(readArguments(["--acl", "c.yaml", "-json", "--", "-anna", "c 1"]), {
    ...acl,
    user: "-anna",
    clientId: "c 1",
    json: true,
  });
  assert.equal(refusal("--acl", "c.yaml", "a", "b", "c"), "--acl takes nothing more; remove c");
  assert.equal(refusal("--acl"), "--acl names no file; write --acl FILE");
  assert.equal(refusal("--json", "--config", "a"), "--json goes with --route or --acl only");
});

Deno.test("02b 16 --passwd takes a verb, a file and what the verb needs", () => {
  const passwd = (...operands: readonly string[]) => readArguments(["--passwd", ...operands]);
  assert.deepEqual(passwd("list", "f"), { kind: "passwd", verb: "list", file: "f" });
  assert.deepEqual(passwd("add", "f", "u"), {
    kind: "passwd",
    verb: "add",
    file: "f",
    user: "u",
    password: undefined,
  });
  assert.deepEqual(readArguments(["-passwd=add", "f", "u", "p w"]), {
    kind: "passwd",
    verb: "add",
    file: "f",
    user: "u",
    password: "p w",
  });
  assert.deepEqual(passwd("delete", "f", "u"), {
    kind: "passwd",
    verb: "delete",
    file: "f",
    user: "u",
  });
  assert.deepEqual(passwd("scope", "f", "u", "all"), {
    kind: "passwd",
    verb: "scope",
    file: "f",
    user: "u",
    routes: "all",
  });
});

Deno.test("a password may look like a flag, and no refusal of --passwd shows an operand", () => {
  for (const password of ["-secret", "--secret", "--json", "--config=secret", "-x"]) {
    for (const end of [[], ["--"]]) {
      const argv = ["--passwd", "add", ...end, "f", "u", password];
      const command = readArguments(argv);
      assert.equal("password" in command && command.password, password);
    }
  }
  const refused: readonly (readonly string[])[] = [
    ["--passwd"],
    ["--passwd", "add"],
    ["--passwd", "add", "f"],
    ["--passwd", "add", "f", "u", "my", "secret"],
    ["--passwd", "add", "f", "u", "--my", "--secret"],
    ["--passwd", "list", "f", "secret"],
    ["--passwd", "delete", "f", "u", "secret"],
    ["--passwd", "scope", "f", "u"],
    ["--passwd", "remove", "f", "u", "secret"],
    ["--passwd", "add", "", "u", "secret"],
    ["--config", "c", "--passwd", "add", "f", "u", "secret"],
  ];
  for (const argv of refused) assert.doesNotMatch(refusal(...argv), /secret|accepted/);
  assert.equal(
    refusal("--passwd"),
    "--passwd says nothing to do; write list, add, delete or scope",
  );
  assert.equal(
    refusal("--passwd", "remove", "f"),
    "--passwd does no remove; write list, add, delete or scope",
  );
  assert.equal(
    refusal("--passwd", "add", "f", "u", "my", "secret"),
    "--passwd add takes FILE USER [PASSWORD]; a password with blanks stands in quotes",
  );
  assert.equal(refusal("--passwd", "list"), "--passwd list takes FILE");
});

Deno.test("02b 16 --output is refused without --check-config", () => {
  assert.equal(refusal("--output"), "--output goes with --check-config only");
  assert.equal(refusal("--output", "--config", "a"), "--output goes with --check-config only");
});

Deno.test("a control character of an argument reaches no terminal", () => {
  assert.equal(refusal("--a\x1b[31m"), "--a\\u001b[31m is no flag; --help lists the flags");
});

Deno.test("--help names every flag and what it does", () => {
  const lines = helpText().split("\n");
  for (const { name, doc } of FLAGS) {
    assert.ok(lines.some((line) => line.startsWith(`  --${name} `) && line.endsWith(doc)), name);
  }
});

Deno.test("-h and -v are what they are everywhere, and nothing behind -- is", () => {
  for (const help of ["-h", "-?", "-help", "--help"]) {
    assert.deepEqual(readArguments([help]), { kind: "help" });
  }
  for (const version of ["-v", "-V", "-version", "--version"]) {
    assert.deepEqual(readArguments([version]), { kind: "version" });
  }
  assert.ok("refusal" in readArguments(["--", "-h"]));
  assert.deepEqual(readArguments(["--passwd", "add", "/f", "alice", "-h"]), {
    kind: "passwd",
    verb: "add",
    file: "/f",
    user: "alice",
    password: "-h",
  });
});
