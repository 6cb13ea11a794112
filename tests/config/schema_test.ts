/** Every row of the schema table, tried: default, lowest, highest, just outside, wrong type. */
import assert from "node:assert/strict";
import { isScalarKind } from "../../src/config/reading.ts";
import { isNotBuilt } from "../../src/config/reference.ts";
import { NOT_BUILT } from "../../src/config/table/built.ts";
import { type Key, NONE } from "../../src/config/table/key.ts";
import { REFUSED_KEYS } from "../../src/config/table/refused.ts";
import { SCHEMA } from "../../src/config/table/schema.ts";
import { writeDuration, writeSize } from "../../src/config/units.ts";
import { documentWith, settingOf } from "./samples.ts";
import { ALL_BUILT, findings, load } from "./support.ts";

type Ranged = Key & { readonly kind: { readonly of: "count" | "size" | "duration" } };

const SCALARS = SCHEMA.filter(({ kind }) => isScalarKind(kind));
const RANGED = SCALARS.filter((key): key is Ranged =>
  ["count", "size", "duration"].includes(key.kind.of)
);

/** Bounds of the table that another key tightens; written out in the tests of that rule. */
const TIGHTENED = new Set([
  "lowest broker.storage.providers.*.max_bytes",
  "highest broker.storage.providers.*.publish_commit_max_records",
  "lowest channels.*.job_expires_after",
  "highest broker.limits.max_connect_size",
  "lowest broker.limits.session_queue_bytes",
  "lowest broker.limits.max_topic_length",
  "lowest broker.limits.max_topic_levels",
]);

function text(key: Ranged, value: number): string {
  if (key.kind.of === "size") return writeSize(value);
  return key.kind.of === "duration" ? writeDuration(value) : String(value);
}

/** One step of the key's own unit. */
function step({ kind }: Ranged): number {
  return kind.of === "duration" && !kind.subsecond ? 1000 : 1;
}

/** The findings about this key, with their places taken off. */
function about(key: Key, document: string): string[] {
  const last = key.path.slice(key.path.lastIndexOf(".") + 1);
  return findings(load(document, {}, ALL_BUILT))
    .map((finding) => finding.replace(/^\d+:\d+ /, ""))
    .filter((finding) => finding.split(" ", 1)[0].endsWith(last));
}

function assertAccepted(key: Key, written: string, beside?: Record<string, string>): void {
  const document = documentWith(key, written, undefined, beside);
  assert.deepEqual(findings(load(document, {}, ALL_BUILT)), [], document);
}

function assertRefused(key: Key, written: string, says: RegExp): void {
  const [finding, ...more] = about(key, documentWith(key, written));
  assert.match(finding ?? "accepted", says, `${key.path}: ${written}`);
  assert.deepEqual(more, []);
}

for (const key of SCALARS) {
  Deno.test(`${key.path} without a value written is its default`, () => {
    const document = documentWith(key, undefined);
    const loading = load(document, {}, ALL_BUILT);
    if (key.required !== undefined) {
      const [finding] = about(key, document);
      assert.match(finding ?? "accepted", / is missing.*; write /);
      return;
    }
    if ("findings" in loading) assert.fail(loading.findings);
    const setting = settingOf(loading.settings, key);
    if (typeof key.default === "string") assert.equal(setting?.text, key.default);
    else if (key.default?.of === undefined) assert.equal(setting, undefined);
    if (setting !== undefined) assert.equal(setting.written, false);
  });

  Deno.test(`${key.path} holding a mapping, a list or nothing is refused`, () => {
    assertRefused(key, "{a: b}", / is a mapping; write /);
    assertRefused(key, "[a]", / is a list; write /);
    assertRefused(key, "", / has no value; write /);
    assertRefused(key, "!include other.yaml", /cannot be included|includes from inside/);
  });
}

for (const key of RANGED) {
  const { kind } = key;

  Deno.test(`${key.path} takes its lowest and highest value`, () => {
    if (!TIGHTENED.has(`lowest ${key.path}`)) assertAccepted(key, text(key, kind.min));
    if (!TIGHTENED.has(`highest ${key.path}`)) assertAccepted(key, text(key, kind.max));
  });

  Deno.test(`${key.path} just outside its range is refused`, () => {
    const below = kind.min - step(key);
    if (below === 0) assertRefused(key, text(key, 0), / is zero/);
    if (below > 0) assertRefused(key, text(key, below), / is below /);
    const above = text(key, kind.max) + (kind.max === Number.MAX_SAFE_INTEGER ? "0" : "");
    if (kind.max === Number.MAX_SAFE_INTEGER) assertRefused(key, above, / is above /);
    else assertRefused(key, text(key, kind.max + step(key)), / is above /);
  });

  Deno.test(`${key.path} takes none only where none means something`, () => {
    if (kind.none === undefined) assertRefused(key, NONE, / cannot be none.*; write /);
    // Without a duration there is no record count to write with it.
    else assertAccepted(key, NONE, {});
  });

  Deno.test(`${key.path} in another notation is refused`, () => {
    const says = / is not a .*; write | has no unit; write | is below zero.*; write /;
    for (const wrong of ["abc", "-1", "1.5", "1e3", "1_000"]) assertRefused(key, wrong, says);
    if (kind.of === "duration") {
      for (const wrong of ["90", "1h30m", "1 s", "1S", "s"]) assertRefused(key, wrong, says);
      if (!kind.subsecond) assertRefused(key, "1000ms", /milliseconds.*whole seconds; write /);
    }
    if (kind.of === "size") {
      for (const wrong of ["1KB", "1 KiB", "1kib", "KiB"]) assertRefused(key, wrong, says);
    }
    if (kind.of === "count") assertRefused(key, '"5"', / is a text in quotes; write /);
  });
}

for (const key of SCALARS) {
  const { kind } = key;
  if (kind.of === "word") {
    Deno.test(`${key.path} takes its words and no other`, () => {
      if (!key.path.endsWith(".type")) { for (const word of kind.words) assertAccepted(key, word); }
      assertRefused(key, "nonsense", / is not .*; write /);
      assertRefused(key, kind.words[0].toUpperCase() + "x", / is not .*; write /);
    });
  }
  if (kind.of === "flag") {
    Deno.test(`${key.path} takes true and false and no other`, () => {
      assertAccepted(key, "true");
      assertAccepted(key, "false");
      for (const wrong of ["yes", "1", "True", '"true"']) {
        assertRefused(key, wrong, /; write true or false$/);
      }
    });
  }
  if (kind.of === "path") {
    Deno.test(`${key.path} takes absolute paths only`, () => {
      assertAccepted(key, "/somewhere/else");
      for (const wrong of ["a/b", "./a", "~/a", '""', '"/a\\0b"']) {
        assertRefused(key, wrong, / is not an absolute path; write | holds a NUL/);
      }
      if (kind.abstract) assertAccepted(key, '"@name"');
      else assertRefused(key, '"@name"', / is not an absolute path; write /);
    });
  }
  if (kind.of === "provider") {
    Deno.test(`${key.path} takes the name of a provider only`, () => {
      assertAccepted(key, "sqlite");
      assertRefused(key, "nowhere", / is not a provider; write sqlite/);
    });
  }
  if (kind.of === "address") {
    Deno.test(`${key.path} takes host:port only`, () => {
      assertAccepted(key, "127.0.0.1:4711");
      assertRefused(key, "127.0.0.1", / has no port; write /);
      assertRefused(key, "127.0.0.1:65536", / no port from 0 to 65535; write /);
    });
  }
  if (kind.of === "mode") {
    Deno.test(`${key.path} takes quoted octal only`, () => {
      assertAccepted(key, '"0777"');
      assertAccepted(key, '"600"');
      for (const wrong of ["0660", '"0888"', '"rw"', '"01777"']) {
        assertRefused(key, wrong, /; write three octal digits in quotes/);
      }
    });
  }
  if (key.only !== undefined) {
    Deno.test(`${key.path} goes with type ${key.only.join(" and ")} only`, () => {
      const types = key.path.startsWith("channels")
        ? ["append", "latest", "queue"]
        : ["memory", "sqlite"];
      for (const type of types.filter((type) => !key.only!.includes(type))) {
        const finding = about(key, documentWith(key, "1", type, {}))[0];
        assert.match(
          finding ?? "accepted",
          new RegExp(` does not go with type ${type}, only with `),
        );
      }
    });
  }
}

Deno.test("a key of a room that is not built yet is refused by name", () => {
  for (const path of NOT_BUILT) {
    const key = SCHEMA.find((row) => row.path === path);
    assert.ok(key !== undefined, `${path} is not in the table`);
    const document = documentWith(key, isScalarKind(key.kind) ? "x" : "{}");
    const built = NOT_BUILT.filter((other) => path.startsWith(`${other}.`));
    assert.deepEqual(built, [], `${path} lies under another one`);
    const found = findings(load(document, {}));
    const says = found.find((finding) => finding.includes("is not built yet; remove it"));
    assert.match(
      says ?? "accepted",
      new RegExp(` ${path.replaceAll(".", "\\.")} is not built yet`),
    );
  }
});

Deno.test("the table has a sentence for every key and says where nothing is built", () => {
  for (const { path, doc } of SCHEMA) assert.match(doc, /^\S.*\.$/, path);
  assert.ok(isNotBuilt("bridges"));
  assert.ok(!isNotBuilt("broker.mqtt.listen.tcp.address"));
});

Deno.test("a key refused with its own sentence is not in the table", () => {
  for (const { path } of REFUSED_KEYS) {
    assert.equal(SCHEMA.find((row) => row.path === path), undefined, path);
  }
});
