/** `mistakes.yaml` is what somebody writes who read the reference once; `mistakes.txt` what is said of it. */
import assert from "node:assert/strict";
import { loadConfiguration } from "../../src/config/load.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import { FILE } from "./support.ts";

const HERE = new URL("./", import.meta.url);

/** As `--check-config` reports it; no file but this one is there. */
function report(): string {
  const text = Deno.readFileSync(new URL("mistakes.yaml", HERE));
  const loading = loadConfiguration(FILE, {
    ...REAL_SURROUNDINGS,
    readFile: (path) => {
      if (path === FILE) return text;
      throw new Deno.errors.NotFound("No such file or directory (os error 2)");
    },
  }, true);
  return "findings" in loading ? loading.findings : "accepted";
}

Deno.test("02b 2 every mistake is told at once, each once, with its place and what to write", () => {
  assert.equal(report(), Deno.readTextFileSync(new URL("mistakes.txt", HERE)));
});

Deno.test("02b 2 every finding begins with line, column and key, and ends with what to do", () => {
  const [header, file, ...bullets] = report().trimEnd().split("\n");
  assert.deepEqual([header, file], ["configuration is invalid:", `${FILE}:`]);
  const remedy =
    /[;,] (write|remove|name|give|raise|change|rename|keep) |did you mean |; the keys are |is missing/;
  for (const bullet of bullets) {
    assert.match(bullet, /^ {2}- \d+:\d+ [a-z][\w.[\]#]* /i);
    assert.match(bullet, remedy);
  }
});
