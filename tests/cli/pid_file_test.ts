import assert from "node:assert/strict";
import { removePidFile, writePidFile } from "../../src/cli/pid_file.ts";

function inDirectory(test: (directory: string) => void): void {
  const directory = Deno.makeTempDirSync();
  try {
    test(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("02a 12.1 the pid file holds the process id and goes at a clean stop", () =>
  inDirectory((directory) => {
    const path = `${directory}/saguin.pid`;
    writePidFile(path);
    assert.equal(Deno.readTextFileSync(path), `${Deno.pid}\n`);
    assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["saguin.pid"]);
    removePidFile(path);
    assert.deepEqual([...Deno.readDirSync(directory)], []);
    removePidFile(path);
  }));

Deno.test("a pid file left by a crash is replaced", () =>
  inDirectory((directory) => {
    const path = `${directory}/saguin.pid`;
    Deno.writeTextFileSync(path, "1\n");
    writePidFile(path);
    assert.equal(Deno.readTextFileSync(path), `${Deno.pid}\n`);
  }));

Deno.test("the pid file of another process is left alone", () =>
  inDirectory((directory) => {
    const path = `${directory}/saguin.pid`;
    Deno.writeTextFileSync(path, "1\n");
    removePidFile(path);
    assert.equal(Deno.readTextFileSync(path), "1\n");
  }));

Deno.test("a pid file that cannot be written is named", () =>
  inDirectory((directory) => {
    const path = `${directory}/gone/saguin.pid`;
    assert.throws(() => writePidFile(path), (error: Error) => {
      assert.ok(error.message.startsWith(`broker.pid_file ${path} cannot be written: `));
      return true;
    });
  }));
