/** Every row of the schema table against `expected_messages.txt`. */
import assert from "node:assert/strict";
import { SCHEMA } from "../../src/config/table/schema.ts";
import type { Key } from "../../src/config/table/key.ts";
import { documentWith, settingOf } from "./samples.ts";
import { ALL_BUILT, findings, load } from "./support.ts";

const ABSENT = "(absent)";

interface Line {
  readonly written: string;
  readonly says: string;
}

/** By key, doors of all kinds as one. */
function expectations(): ReadonlyMap<string, readonly Line[]> {
  const text = Deno.readTextFileSync(new URL("expected_messages.txt", import.meta.url));
  const rows = new Map<string, Line[]>();
  let lines: Line[] = [];
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    if (!line.startsWith("  ")) {
      assert.ok(!rows.has(line), `${line} stands twice`);
      lines = [];
      rows.set(line, lines);
      continue;
    }
    const split = /^ {2}(\(absent\)|"[^"]*"|\{a: b\}|127\.0\.0\.1:\d+|[^:]+): (.*)$/.exec(line);
    assert.ok(split !== null, line);
    lines.push({ written: split[1], says: split[2] });
  }
  return rows;
}

const EXPECTED = expectations();

function row(path: string): string {
  return path.replace(/^broker\.(mqtt|operations|amqp)\.listen\.(tcp|ws|unix)\./, "<door>.");
}

/** What is said of a document, as the file writes it. */
function said(key: Key, written: string): string {
  const text = written === ABSENT ? undefined : written;
  // Without a duration there is no record count to write with it.
  const loading = load(
    documentWith(key, text, undefined, text === "none" ? {} : undefined),
    {},
    ALL_BUILT,
  );
  if (!("findings" in loading)) {
    if (text !== undefined) return "ok";
    const setting = settingOf(loading.settings, key);
    assert.ok(setting?.written !== true);
    return `= ${setting?.text ?? "nothing"}`;
  }
  const sentences = findings(loading).map((finding) => row(finding.replace(/^\d+:\d+ /, "")));
  if (sentences.length > 1) return sentences.join(" || ");
  const value = ` "${written.replace(/^"(.*)"$/, "$1")}"`;
  const [, path, says] = /^(\S+) (.*)$/.exec(sentences[0])!;
  if (!isOf(key, path)) return sentences[0];
  return ` ${says}`.startsWith(value) ? says.slice(value.length) : says;
}

/** Whether a message about `path` is about the key, whatever named thing it stands in. */
function isOf(key: Key, path: string): boolean {
  const shape = row(key.path).replace(/^broker\.(?=limits\.)/, "").split(".");
  const segments = path.replaceAll(/\[\d+\]/g, "").split(".");
  return shape.length === segments.length &&
    shape.every((segment, i) => segment === "*" || segment === segments[i]);
}

for (const key of SCHEMA) {
  Deno.test(`02b 3 ${key.path}: its default, both ends of its range, and what is said outside`, () => {
    const lines = EXPECTED.get(row(key.path));
    assert.ok(lines !== undefined, `${row(key.path)} is not in the file`);
    for (const { written, says } of lines) assert.equal(said(key, written), says, written);
  });

  Deno.test(`02b 3 ${key.path}: the file tries all that its kind asks for`, () => {
    const lines = EXPECTED.get(row(key.path)) ?? [];
    const taken = lines.filter(({ says }) => says === "ok").length;
    const refused = lines.filter(({ says }) => says !== "ok" && !says.startsWith("= ")).length;
    assert.ok(lines.some(({ written }) => written === ABSENT), "not written at all");
    const { kind } = key;
    if (kind.of === "count" || kind.of === "size" || kind.of === "duration") {
      assert.ok(taken >= 2, "both ends");
      assert.ok(refused >= 3, "outside both ends, and another unit or type");
      return;
    }
    if (kind.of === "word") {
      const words = lines.map(({ written }) => written.replaceAll('"', ""));
      for (const word of kind.words) assert.ok(words.includes(word), word);
    }
    assert.ok(refused >= 1, "a value that is none");
  });
}

Deno.test("02b 3 the file of expectations names no key that the table lacks", () => {
  const rows = new Set(SCHEMA.map(({ path }) => row(path)));
  assert.deepEqual([...EXPECTED.keys()].filter((name) => !rows.has(name)), []);
});
