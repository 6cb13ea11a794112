/** The archives of the last build, as whoever downloads one finds them. */
import assert from "node:assert/strict";
import { filesBelow } from "../../../packaging/beside.ts";
import { output } from "../../../packaging/command.ts";
import { TARGETS } from "../../../packaging/targets.ts";
import { VERSION } from "../../../src/version.ts";
import { temporaryPlace } from "../../support/broker_process.ts";
import { deadLinks } from "../links.ts";

const DIST = new URL("../../../dist", import.meta.url).pathname;

Deno.test("01 7 an archive unpacks into one directory, whose pages link to what is in it", async () => {
  const names = TARGETS.map(({ name }) => `saguin-${VERSION}-${name}`);
  const there = new Set([...Deno.readDirSync(DIST)].map(({ name }) => name));
  const built = names.filter((name) => there.has(`${name}.tar.gz`));
  assert.ok(built.length > 0, "nothing is built");
  for (const name of built) {
    const { directory } = temporaryPlace();
    try {
      await output("tar", ["-xzf", `${DIST}/${name}.tar.gz`, "-C", directory]);
      assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), [name]);
      const inside = `${directory}/${name}`;
      const files = new Set(filesBelow(inside, "."));
      for (const file of ["saguin", "LICENSE", "README.md", "THIRD-PARTY-NOTICES.txt"]) {
        assert.ok(files.has(file), `${name} has no ${file}`);
      }
      assert.equal(Deno.statSync(`${inside}/saguin`).mode! & 0o777, 0o755);
      assert.deepEqual(deadLinks(files, (page) => Deno.readTextFileSync(`${inside}/${page}`)), []);
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  }
});
