import assert from "node:assert/strict";
import {
  LARGEST_NAMED_FILE_BYTES,
  readNamedFile,
  replaceFile,
  syncDirectory,
} from "../../src/platform/files.ts";

function inDirectory(test: (directory: string) => void): void {
  const directory = Deno.makeTempDirSync();
  try {
    test(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const BYTES = new TextEncoder().encode("new");

Deno.test("a replaced file holds the new bytes, its mode, and nothing lies beside it", () =>
  inDirectory((directory) => {
    const path = `${directory}/a`;
    Deno.writeTextFileSync(path, "old and longer");
    replaceFile(path, BYTES, 0o600);
    assert.equal(Deno.readTextFileSync(path), "new");
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["a"]);
  }));

Deno.test("what is prepared beside a file is done before it is in place, or it never is", () =>
  inDirectory((directory) => {
    const path = `${directory}/a`;
    Deno.writeTextFileSync(path, "old");
    replaceFile(path, BYTES, 0o600, (beside) => {
      assert.equal(Deno.readTextFileSync(path), "old");
      Deno.chmodSync(beside, 0o640);
    });
    assert.equal(Deno.statSync(path).mode! & 0o777, 0o640);
    const fails = () => {
      throw new Error("not allowed");
    };
    assert.throws(
      () => replaceFile(path, new TextEncoder().encode("newer"), 0o600, fails),
      /not allowed/,
    );
    assert.equal(Deno.readTextFileSync(path), "new");
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["a"]);
  }));

Deno.test("a file that cannot take its place leaves everything as it was", () =>
  inDirectory((directory) => {
    const path = `${directory}/a`;
    Deno.mkdirSync(`${path}/b`, { recursive: true });
    assert.throws(() => replaceFile(path, BYTES));
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["a"]);
    assert.ok(Deno.statSync(path).isDirectory);
  }));

Deno.test("a directory that is not there cannot be synced", () =>
  inDirectory((directory) => {
    syncDirectory(directory);
    assert.throws(() => syncDirectory(`${directory}/gone`), Deno.errors.NotFound);
  }));

Deno.test("a named file is read whole, behind a symbolic link too, and up to its bound", () =>
  inDirectory((directory) => {
    const path = `${directory}/a`;
    const bytes = Uint8Array.from({ length: 200_000 }, (_, i) => i % 251);
    Deno.writeFileSync(path, bytes);
    Deno.symlinkSync(path, `${directory}/link`);
    assert.deepEqual(readNamedFile(path), bytes);
    assert.deepEqual(readNamedFile(`${directory}/link`), bytes);
    Deno.writeFileSync(path, new Uint8Array(0));
    assert.equal(readNamedFile(path).length, 0);
    // Holes cost no disk: what a size says is enough for a refusal.
    Deno.truncateSync(path, LARGEST_NAMED_FILE_BYTES + 1);
    assert.throws(() => readNamedFile(path), /^InvalidData: it is larger than 64MiB$/);
    assert.throws(() => readNamedFile(`${directory}/gone`), Deno.errors.NotFound);
  }));

Deno.test("what is no file is refused before it is opened", () =>
  inDirectory((directory) => {
    assert.throws(() => readNamedFile(directory), /^InvalidData: it is a directory, not a file$/);
    assert.throws(() => readNamedFile("/dev/zero", true), /it is a device, not a file$/);
    using _socket = Deno.listen({ transport: "unix", path: `${directory}/s` });
    assert.throws(() => readNamedFile(`${directory}/s`), /it is a socket, not a file$/);
  }));
