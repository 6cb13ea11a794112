import assert from "node:assert/strict";
import { replaceFile, syncDirectory } from "../../src/platform/files.ts";

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
