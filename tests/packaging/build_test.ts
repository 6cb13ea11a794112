/** The parts of a build that need neither a compiler nor the network. */
import assert from "node:assert/strict";
import { documents, filesBeside } from "../../packaging/beside.ts";
import { writeChecksums } from "../../packaging/checksums.ts";
import { output } from "../../packaging/command.ts";
import { cratesNamedIn } from "../../packaging/notices.ts";
import { noticesModule, stamped } from "../../packaging/program.ts";
import { executableOf } from "../../packaging/runtimes.ts";
import { tar } from "../../packaging/tar.ts";
import { hostTarget, RUNTIME_VERSION, TARGETS, targetsNamed } from "../../packaging/targets.ts";
import { BUILD, REVISION, versionLine } from "../../src/version.ts";
import { temporaryPlace } from "../support/broker_process.ts";
import { deadLinks } from "./links.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

async function withDirectory(use: (directory: string) => void | Promise<void>): Promise<void> {
  const { directory } = temporaryPlace();
  try {
    await use(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("the runtime that is packed is the one that is pinned", () => {
  const pinned = /^DENO_VERSION := (\S+)$/m.exec(Deno.readTextFileSync(`${ROOT}Makefile`));
  assert.equal(RUNTIME_VERSION, pinned?.[1]);
});

Deno.test("01 7 the targets are Linux and macOS, each on both processors", () => {
  assert.deepEqual(TARGETS.map(({ name }) => name), [
    "linux-x86_64",
    "linux-arm64",
    "macos-x86_64",
    "macos-arm64",
  ]);
  assert.deepEqual([targetsNamed(undefined), targetsNamed("")], [TARGETS, TARGETS]);
  assert.deepEqual(targetsNamed("linux-arm64"), [TARGETS[1]]);
  assert.throws(
    () => targetsNamed("linux-armv7"),
    /"linux-armv7" is no target; there are linux-x86/,
  );
});

Deno.test("S49 a build writes its revision and kind over what runs from source, and nothing else", () => {
  const source = Deno.readTextFileSync(`${ROOT}src/version.ts`);
  const built = stamped(source, "portable", "0123456789ab");
  const changed = source.split("\n").flatMap((line, i) => {
    const now = built.split("\n")[i];
    return now === line ? [] : [now];
  });
  assert.deepEqual(changed, [
    'export const REVISION = "0123456789ab";',
    'export const BUILD: BuildKind = "portable";',
  ]);
  assert.throws(() => stamped(built, "portable", "x"), /src\/version.ts has no line like/);
  assert.deepEqual([REVISION, BUILD], ["dev", "source"]);
});

Deno.test("--version names kind, revision, runtime and machine", () => {
  const { deno, v8 } = Deno.version;
  const end = ` (dev, source, Deno ${deno}, V8 ${v8}, ${Deno.build.target})`;
  assert.equal(versionLine().replace(/^saguin \S+/, ""), end);
});

Deno.test("a notice with any characters survives being a module", async () => {
  const text = 'quotes " \\ `${x}`\n\u2028 and lines\n';
  const module = `data:text/javascript,${encodeURIComponent(noticesModule(text))}`;
  assert.equal((await import(module)).NOTICES, text);
});

Deno.test("01 7 every page that is shipped links to what is shipped with it", () => {
  const pages = [documents(ROOT), filesBeside(ROOT, "linux"), filesBeside(ROOT, "darwin")];
  for (const files of pages) {
    const names = new Set(files.map(({ name }) => name));
    assert.ok(names.has("README.md") && names.has("rfcs/clients.md"));
    const text = new Map(files.map(({ name, path }) => [name, `${ROOT}${path}`]));
    assert.deepEqual(
      deadLinks(names, (name) => Deno.readTextFileSync(text.get(name)!)),
      [],
    );
  }
  const missing = new Map([
    ["a/b.md", "[c](../c.md#x) [gone](gone.md) [d](d.md) [far](https://example.com/x)"],
    ["c.md", ""],
    ["a/d.md", "[up](../up)"],
  ]);
  assert.deepEqual(deadLinks(new Set(missing.keys()), (name) => missing.get(name)!), [
    "a/b.md: gone.md",
    "a/d.md: ../up",
  ]);
});

Deno.test("crates are found in an executable by the paths of their sources", () => {
  const text =
    "\x00/x/registry/src/index-1/tokio-1.2.3/src/lib.rs\xff/aes-0.8.3/src/a.rs/tokio-1.2.3/src/" +
    "/argon2-0.6.0-rc.8/src/b.rs /no-version/src/ /a-1.2/src/";
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  assert.deepEqual(cratesNamedIn(bytes), ["aes 0.8.3", "argon2 0.6.0-rc.8", "tokio 1.2.3"]);
});

Deno.test("a tar file is read by tar, with modes, times and bytes", () =>
  withDirectory(async (directory) => {
    const long = new Uint8Array(1_500).map((_, i) => i);
    const entries = [
      { path: "a/run", mode: 0o755, bytes: new TextEncoder().encode("#!/bin/sh\n") },
      { path: "a/long", mode: 0o644, bytes: long },
      { path: "a/block", mode: 0o644, bytes: new Uint8Array(512) },
      { path: "a/empty", mode: 0o644, bytes: new Uint8Array(0) },
    ];
    const bytes = tar(entries, 1_700_000_000);
    assert.equal(bytes.length % 512, 0);
    Deno.writeFileSync(`${directory}/t.tar`, bytes);
    await output("tar", ["-xf", `${directory}/t.tar`, "-C", directory]);
    for (const { path, mode, bytes } of entries) {
      assert.deepEqual(Deno.readFileSync(`${directory}/${path}`), bytes);
      const found = Deno.statSync(`${directory}/${path}`);
      assert.equal(found.mode! & 0o777, mode);
      assert.equal(found.mtime!.getTime(), 1_700_000_000_000);
    }
    assert.deepEqual(tar(entries, 1_700_000_000), bytes);
    const path = "p".repeat(101);
    assert.throws(() => tar([{ path, mode: 0, bytes: long }], 0), /is too long for a tar file/);
  }));

Deno.test("the machine of an executable is told by its first bytes", () =>
  withDirectory((directory) => {
    assert.equal(executableOf(Deno.execPath()), hostTarget());
    const of = (...bytes: number[]) => {
      const file = new Uint8Array(20);
      file.set(bytes);
      Deno.writeFileSync(`${directory}/x`, file);
      return executableOf(`${directory}/x`)?.name;
    };
    const elf = (machine: number) => of(0x7f, 0x45, 0x4c, 0x46, ...Array(14).fill(0), machine, 0);
    assert.deepEqual([elf(62), elf(183), elf(40)], ["linux-x86_64", "linux-arm64", undefined]);
    assert.equal(of(0xcf, 0xfa, 0xed, 0xfe, 7, 0, 0, 1), "macos-x86_64");
    assert.equal(of(0xcf, 0xfa, 0xed, 0xfe, 12, 0, 0, 1), "macos-arm64");
    assert.equal(of(0x23, 0x21), undefined);
    Deno.writeTextFileSync(`${directory}/x`, "short");
    assert.equal(executableOf(`${directory}/x`), undefined);
  }));

Deno.test("01 7 checksums are of everything of the version that is there to download", () =>
  withDirectory(async (directory) => {
    for (
      const name of [
        "saguin-1.0.0-rc.1-linux-x86_64.tar.gz",
        "saguin_1.0.0~rc.1_amd64.deb",
        "saguin-0.9.0-linux-x86_64.tar.gz",
        "saguin_0.9.0_amd64.deb",
        "notes.md",
      ]
    ) Deno.writeTextFileSync(`${directory}/${name}`, name);
    Deno.mkdirSync(`${directory}/saguin-1.0.0-rc.1-linux-x86_64`);
    const expected = ["saguin-1.0.0-rc.1-linux-x86_64.tar.gz", "saguin_1.0.0~rc.1_amd64.deb"];
    assert.deepEqual(writeChecksums(directory, "1.0.0-rc.1"), expected);
    const checked = await output("sha256sum", ["-c", "checksums.txt"], { cwd: directory });
    assert.equal(checked, expected.map((name) => `${name}: OK\n`).join(""));
  }));
