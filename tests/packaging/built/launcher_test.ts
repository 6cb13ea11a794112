/**
 * The launchers of the single file, in front of a runtime that is a shell script: it prints what it was
 * called with. The C launcher is the one of this machine.
 */
import assert from "node:assert/strict";
import { deflateRawSync } from "node:zlib";
import { compileLauncher, shellLauncher } from "../../../packaging/launchers.ts";
import type { Program } from "../../../packaging/program.ts";
import { type Runtime, shellFile, singleFile } from "../../../packaging/single_file.ts";
import { hostTarget } from "../../../packaging/targets.ts";
import { temporaryPlace } from "../../support/broker_process.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;
/** Somebody who owns nothing. */
const NOBODY = 65534;
const MIB = 1024 * 1024;

/** Ends with a status of its own, so that it is seen to be handed on. */
const RUNTIME = `#!/bin/sh
echo "at $0"
for argument in "$@"; do echo "argument $argument"; done
env | sed 's/^/variable /'
exit 7
`;

interface Outcome {
  readonly code: number;
  readonly lines: readonly string[];
  readonly stderr: string;
}

interface Start {
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
  readonly uid?: number;
  readonly file?: string;
}

/** A single file in a directory of its own, and starts of it. */
class Rig implements Disposable {
  readonly directory = temporaryPlace().directory;
  readonly file = `${this.directory}/saguin`;

  constructor(readonly bytes: Uint8Array) {
    // Everybody may come through, and only its owner writes.
    Deno.chmodSync(this.directory, 0o755);
    Deno.writeFileSync(this.file, bytes);
    Deno.chmodSync(this.file, 0o755);
  }

  path(name: string): string {
    return `${this.directory}/${name}`;
  }

  /** A directory below the rig's. */
  make(name: string, mode = 0o755, uid?: number): string {
    const path = this.path(name);
    Deno.mkdirSync(path);
    Deno.chmodSync(path, mode);
    if (uid !== undefined) Deno.chownSync(path, uid, uid);
    return path;
  }

  /** The environment is what is given, and PATH for the script. */
  async start({ args = [], env = {}, uid, file = this.file }: Start = {}): Promise<Outcome> {
    const { code, stdout, stderr } = await new Deno.Command(file, {
      args: [...args],
      env: { PATH: "/usr/bin:/bin", ...env },
      clearEnv: true,
      cwd: "/",
      ...(uid !== undefined && { uid, gid: uid }),
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).output();
    const decoder = new TextDecoder();
    const lines = decoder.decode(stdout).split("\n").filter((line) => line !== "");
    return { code, lines, stderr: decoder.decode(stderr) };
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

function runtime(text: string): Runtime {
  const bytes = new TextEncoder().encode(text);
  return { bytes, packed: deflateRawSync(bytes) };
}

/** A program of a few files, `main.js` the first to be run. */
function program(files: Readonly<Record<string, string>>): Program & Disposable {
  const { directory } = temporaryPlace();
  for (const [name, text] of Object.entries(files)) {
    Deno.writeTextFileSync(`${directory}/${name}`, text);
  }
  return {
    directory,
    files: Object.keys(files).sort(),
    [Symbol.dispose]: () => Deno.removeSync(directory, { recursive: true }),
  };
}

const target = hostTarget();
if (target === undefined || target.os !== "linux") {
  throw new Error("these tests are of Linux: build and run them there");
}
const work = temporaryPlace().directory;
const compiled = await compileLauncher(ROOT.replace(/\/$/, ""), work, target);
Deno.removeSync(work, { recursive: true });
const script = shellLauncher(ROOT.replace(/\/$/, ""));

const PERMISSIONS = ["--allow-net", "--allow-read"];
const FILES = { "main.js": "// begins here\n", "chunk-A.js": "x".repeat(300_000) };

const LAUNCHERS = [
  {
    name: "C",
    make: (of: Runtime, what: Program) => singleFile(compiled, of, what, PERMISSIONS),
  },
  {
    name: "shell",
    make: (of: Runtime, what: Program) => shellFile(script, of, what, PERMISSIONS),
  },
] as const;

function rig(
  launcher: (typeof LAUNCHERS)[number],
  files: Readonly<Record<string, string>> = FILES,
  text = RUNTIME,
): Rig {
  using made = program(files);
  return new Rig(launcher.make(runtime(text), made));
}

function valuesOf(outcome: Outcome, kind: string): string[] {
  return outcome.lines.filter((line) => line.startsWith(`${kind} `))
    .map((line) => line.slice(kind.length + 1));
}

/** Names in a directory that are not hidden and not what the runtime keeps for itself. */
function unpackedIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name)
    .filter((name) => name !== ".lock" && name !== "compiled").sort();
}

for (const launcher of LAUNCHERS) {
  const test = (name: string, body: () => Promise<void>) =>
    Deno.test(`${launcher.name} launcher: ${name}`, body);

  test("unpacks once, and becomes the runtime with its own and the given arguments", async () => {
    using file = rig(launcher);
    const cache = file.path("cache");
    const env = { SAGUIN_CACHE: cache };
    const first = await file.start({ args: ["--config", "a b", ""], env });
    assert.deepEqual([first.code, first.stderr], [7, ""]);
    const [programName, runtimeName] = unpackedIn(cache);
    assert.match(programName, /^program-[0-9a-f]{16}$/);
    assert.match(runtimeName, /^runtime-[0-9a-f]{16}$/);
    assert.deepEqual(valuesOf(first, "at"), [`${cache}/${runtimeName}/saguin`]);
    assert.deepEqual(valuesOf(first, "argument"), [
      ...["run", "--quiet", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only"],
      ...PERMISSIONS,
      `${cache}/${programName}/main.js`,
      ...["--config", "a b", ""],
    ]);
    for (const [name, text] of Object.entries(FILES)) {
      assert.equal(Deno.readTextFileSync(`${cache}/${programName}/${name}`), text);
    }
    assert.equal(Deno.readTextFileSync(`${cache}/${runtimeName}/saguin`), RUNTIME);

    const before = Deno.statSync(`${cache}/${runtimeName}/saguin`);
    const second = await file.start({ env });
    assert.equal(second.code, 7);
    const after = Deno.statSync(`${cache}/${runtimeName}/saguin`);
    assert.deepEqual([after.ino, after.mtime], [before.ino, before.mtime]);
    assert.equal(unpackedIn(cache).length, 2);
  });

  test("keeps variables that change the runtime from it, and says where it may keep code", async () => {
    using file = rig(launcher);
    const cache = file.path("cache");
    const { lines } = await file.start({
      env: {
        SAGUIN_CACHE: cache,
        HOME: "/nowhere",
        DENO_DIR: "/elsewhere",
        DENO_CERT: "/x",
        DENO_V8_FLAGS: "--max-old-space-size=64",
        NODE_OPTIONS: "--inspect",
        OTEL_DENO: "true",
        TZ: "UTC",
      },
    });
    const variables = valuesOf({ lines, code: 0, stderr: "" }, "variable")
      .filter((entry) => !/^(PWD|OLDPWD|SHLVL|_)=/.test(entry)).sort();
    assert.deepEqual(variables, [
      `DENO_DIR=${cache}/compiled`,
      "DENO_NO_PACKAGE_JSON=1",
      "DENO_NO_UPDATE_CHECK=1",
      "DENO_V8_FLAGS=--max-old-space-size=64",
      "HOME=/nowhere",
      "PATH=/usr/bin:/bin",
      `SAGUIN_CACHE=${cache}`,
      "TZ=UTC",
    ]);
    // The runtime refuses to start with an empty one.
    const empty = await file.start({ env: { SAGUIN_CACHE: cache, DENO_V8_FLAGS: "" } });
    assert.ok(!empty.lines.join("\n").includes("DENO_V8_FLAGS"));
  });

  test("looks for a directory in XDG_CACHE_HOME, in the home that is there, and in /var/tmp", async () => {
    using file = rig(launcher);
    const home = file.make("home", 0o700, NOBODY);
    const xdg = file.make("xdg", 0o700, NOBODY);
    const at = async (env: Record<string, string>) => {
      const outcome = await file.start({ env, uid: NOBODY });
      assert.deepEqual([outcome.code, outcome.stderr], [7, ""]);
      return valuesOf(outcome, "at")[0].replace(/\/runtime-.*/, "");
    };
    assert.equal(await at({ XDG_CACHE_HOME: xdg, HOME: home }), `${xdg}/saguin`);
    assert.equal(await at({ XDG_CACHE_HOME: "relative", HOME: home }), `${home}/.cache/saguin`);
    assert.equal(Deno.statSync(`${home}/.cache`).mode! & 0o777, 0o700);
    assert.equal(await at({ HOME: `${home}/not-there` }), `/var/tmp/saguin-${NOBODY}`);
    assert.equal(await at({}), `/var/tmp/saguin-${NOBODY}`);
    assert.equal(Deno.statSync(`/var/tmp/saguin-${NOBODY}`).mode! & 0o777, 0o700);
    assert.deepEqual(unpackedIn(home), [".cache"]);
    for (const name of unpackedIn(`/var/tmp/saguin-${NOBODY}`)) {
      const own = unpackedIn(`${xdg}/saguin`).includes(name);
      if (own) Deno.removeSync(`/var/tmp/saguin-${NOBODY}/${name}`, { recursive: true });
    }
  });

  test("says what is wrong with a directory that cannot take it, and what to do", async () => {
    using file = rig(launcher);
    const closed = file.make("closed", 0o755);
    const open = file.make("open", 0o777);
    Deno.chmodSync(open, 0o777);
    const plain = file.path("plain");
    Deno.writeTextFileSync(plain, "");
    for (const cache of [`${closed}/cache`, closed, open, plain, `${plain}/cache`]) {
      const outcome = await file.start({ env: { SAGUIN_CACHE: cache }, uid: NOBODY });
      assert.deepEqual([outcome.code, outcome.lines], [1, []], cache);
      assert.match(outcome.stderr, /^saguin: unpacks itself once, and no directory can take it:\n/);
      assert.ok(outcome.stderr.includes(`\n  ${cache}: `), outcome.stderr);
      assert.match(outcome.stderr, /\nname one with SAGUIN_CACHE=DIRECTORY: .* 1 MiB are free/);
    }
    assert.deepEqual([unpackedIn(closed), unpackedIn(open)], [[], []]);
  });

  test("takes what root has unpacked, and nothing that another user could have changed", async () => {
    using file = rig(launcher);
    const cache = file.path("cache");
    const env = { SAGUIN_CACHE: cache };
    assert.equal((await file.start({ env })).code, 7);
    const shared = await file.start({ env, uid: NOBODY });
    assert.deepEqual([shared.code, shared.stderr], [7, ""]);

    const [, runtimeName] = unpackedIn(cache);
    Deno.chmodSync(`${cache}/${runtimeName}`, 0o777);
    const untrusted = await file.start({ env, uid: NOBODY });
    assert.equal(untrusted.code, 1);
    // Root may put it right, and does.
    assert.equal((await file.start({ env })).code, 7);
    assert.equal(Deno.statSync(`${cache}/${runtimeName}`).mode! & 0o777, 0o755);
    Deno.chownSync(`${cache}/${runtimeName}`, NOBODY, NOBODY);
    assert.equal((await file.start({ env })).code, 7);
    assert.equal(Deno.statSync(`${cache}/${runtimeName}`).uid, 0);
    assert.equal((await file.start({ env, uid: NOBODY })).code, 7);
  });

  test("many starts at once all run, and unpack once", async () => {
    // Large enough that they meet while it is being unpacked.
    using file = rig(launcher, { ...FILES, "chunk-B.js": "y".repeat(4 * MIB) });
    const cache = file.path("cache");
    const starts = Array.from({ length: 8 }, () => file.start({ env: { SAGUIN_CACHE: cache } }));
    for (const { code, stderr } of await Promise.all(starts)) {
      assert.deepEqual([code, stderr], [7, ""]);
    }
    const names = unpackedIn(cache);
    assert.deepEqual(names.map((name) => name.replace(/-.*/, "")), ["program", "runtime"]);
    assert.deepEqual(unpackedIn(`${cache}/${names[0]}`), ["chunk-A.js", "chunk-B.js", "main.js"]);
    assert.deepEqual(unpackedIn(`${cache}/${names[1]}`), ["saguin"]);
  });

  test("versions with one runtime share it", async () => {
    using older = rig(launcher);
    using newer = rig(launcher, { ...FILES, "main.js": "// another\n" });
    const env = { SAGUIN_CACHE: older.path("cache") };
    await older.start({ env });
    await newer.start({ env });
    const names = unpackedIn(older.path("cache")).map((name) => name.replace(/-.*/, ""));
    assert.deepEqual(names, ["program", "program", "runtime"]);
  });

  test("a damaged file is refused, and leaves nothing", async () => {
    using file = rig(launcher);
    const damaged = file.bytes.slice();
    // Past the launcher, among what is packed.
    const at = launcher.name === "C" ? compiled.length + 40 : damaged.length - 100;
    damaged[at] ^= 1;
    Deno.writeFileSync(file.file, damaged);
    const cache = file.path("cache");
    const outcome = await file.start({ env: { SAGUIN_CACHE: cache } });
    assert.equal(outcome.code, 1);
    assert.match(outcome.stderr, /damaged/);
    assert.deepEqual(unpackedIn(cache), []);
  });
}

const [C] = LAUNCHERS;

Deno.test("C launcher: a file that is cut short says so, wherever it is cut", async () => {
  using file = rig(C);
  const cache = file.path("cache");
  for (const bytes of [1, 20, 60, 1_000, file.bytes.length - compiled.length]) {
    Deno.writeFileSync(file.file, file.bytes.subarray(0, file.bytes.length - bytes));
    const { code, stderr } = await file.start({ env: { SAGUIN_CACHE: cache } });
    assert.equal(code, 1);
    assert.equal(
      stderr,
      "saguin: this file cannot be read, or is cut short or damaged; copy it again and compare its checksum\n",
    );
  }
});

Deno.test("C launcher: what was killed while unpacking is cleared away by the next start", async () => {
  using file = rig(C);
  const cache = file.make("cache");
  await file.start({ env: { SAGUIN_CACHE: cache } });
  const [programName, runtimeName] = unpackedIn(cache);
  Deno.renameSync(`${cache}/${runtimeName}`, `${cache}/.unpacking-${runtimeName}`);
  Deno.writeTextFileSync(`${cache}/.unpacking-${runtimeName}/saguin`, "half");
  assert.equal((await file.start({ env: { SAGUIN_CACHE: cache } })).code, 7);
  assert.deepEqual(unpackedIn(cache), [programName, runtimeName]);
});

Deno.test("C launcher: what has changed on disk is unpacked again", async () => {
  using file = rig(C);
  const cache = file.make("cache");
  const env = { SAGUIN_CACHE: cache };
  await file.start({ env });
  const [programName, runtimeName] = unpackedIn(cache);
  const entry = `${cache}/${programName}/main.js`;
  // Of the same length: only its hash tells.
  Deno.writeTextFileSync(entry, FILES["main.js"].replace("begins", "ends  "));
  assert.equal((await file.start({ env })).code, 7);
  assert.equal(Deno.readTextFileSync(entry), FILES["main.js"]);
  Deno.truncateSync(`${cache}/${runtimeName}/saguin`, 10);
  assert.equal((await file.start({ env })).code, 7);
  assert.equal(Deno.readTextFileSync(`${cache}/${runtimeName}/saguin`), RUNTIME);
  Deno.removeSync(`${cache}/${programName}/chunk-A.js`);
  Deno.symlinkSync("/etc/hostname", `${cache}/${programName}/chunk-A.js`);
  assert.equal((await file.start({ env })).code, 7);
  assert.equal(Deno.readTextFileSync(`${cache}/${programName}/chunk-A.js`), FILES["chunk-A.js"]);
});

Deno.test("C launcher: in a service it unpacks to the directory the service manager gives", async () => {
  using file = rig(C);
  const cache = file.make("service", 0o755, NOBODY);
  const env = { CACHE_DIRECTORY: cache, HOME: "/nonexistent" };
  const outcome = await file.start({ env, uid: NOBODY });
  assert.equal(outcome.code, 7);
  assert.ok(valuesOf(outcome, "at")[0].startsWith(`${cache}/runtime-`));
  assert.ok(valuesOf(outcome, "variable").includes(`DENO_DIR=${cache}/compiled`));
});

Deno.test("C launcher: a link that somebody else put into /var/tmp is not followed", async () => {
  using file = rig(C);
  const STRANGER = 65533;
  const link = `/var/tmp/saguin-${STRANGER}`;
  Deno.symlinkSync(file.make("trap", 0o777), link);
  try {
    const outcome = await file.start({ uid: STRANGER });
    // There is still /tmp.
    assert.equal(outcome.code, 7);
    assert.ok(valuesOf(outcome, "at")[0].startsWith(`/tmp/saguin-${STRANGER}/`));
    assert.deepEqual(unpackedIn(file.path("trap")), []);
  } finally {
    Deno.removeSync(link);
    Deno.removeSync(`/tmp/saguin-${STRANGER}`, { recursive: true });
  }
});

Deno.test("C launcher: a runtime that the machine cannot execute is told of", async () => {
  for (
    const [text, says] of [
      ["#!/no/such/loader\n", /has no GNU C library \(glibc\), which the runtime needs\n$/],
      ["\x00\x01\x02", /cannot be executed: not an executable of this machine\n$/],
    ] as const
  ) {
    using file = rig(C, FILES, text);
    const { code, stderr } = await file.start({ env: { SAGUIN_CACHE: file.path("cache") } });
    assert.equal(code, 1);
    assert.match(stderr, says);
  }
});
