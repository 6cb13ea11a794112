/** What YAML may and may not hold here, with the place of each finding. */
import assert from "node:assert/strict";
import { LARGEST_FILE_BYTES, readDocument } from "../../src/config/document.ts";
import { Findings } from "../../src/config/finding.ts";
import { channels, FILE, findings, LEAST, load } from "./support.ts";

Deno.test("02a 12 the report is a header, the file, and one bullet a finding by line", () => {
  const loading = load("broker:\n  id: b\n  log_level: loud\nchanels: {}\n");
  assert.ok("findings" in loading);
  assert.deepEqual(loading.findings.split("\n"), [
    "configuration is invalid:",
    `${FILE}:`,
    "  - 1:1 broker.storage.default is missing; write the name of a provider",
    "  - 1:1 broker.storage.default_retention_period is missing; write a duration in whole seconds of at least 1s, or none for: keep everything",
    "  - 1:1 broker.storage.default_retention_bytes is missing; write a size of at least 1, or none for: keep everything",
    "  - 1:1 broker.storage.providers is missing; write a mapping of provider names",
    '  - 3:14 broker.log_level "loud" is not a log level; write debug, info, warn or error, or leave the key out for info',
    "  - 4:1 chanels is not a key here; did you mean channels?",
    "",
  ]);
});

function refused(text: string, ...expected: readonly string[]): void {
  assert.deepEqual(
    findings(load(text)).filter((finding) => !finding.includes("is missing")),
    expected,
  );
}

Deno.test("a file that is not YAML is refused at the line where reading stopped", () => {
  refused("broker:\n\tid: b\n", "2:1 is indented by a tab; indent with spaces");
  refused(
    "broker:\n  id: [a\n",
    "3:1 is not YAML: Flow sequence in block collection must be sufficiently indented and end with a ]",
  );
  refused(
    channels("a: {type: append, filter: a/{b,c}}", "b: {type: append, filter: [b/[c]]}"),
    "11:31 has a { or [ in the middle of a text; put the whole text in quotes",
  );
  refused("a: 'b\n", "2:1 is not YAML: Missing closing 'quote");
  refused("a: b: c\n", "1:4 is not YAML: Nested mappings are not allowed in compact mappings");
});

Deno.test("what stands in a list without a name is counted from 1, wherever it is told", () => {
  const text = `${LEAST}  mqtt:
    listen:
      tcp:
        - {name: a, address: ":1"}
        - {address: ":2"}
channels:
  - a: {type: append}
  - b: {type: append, type: latest}
ingest:
  routes: ["f:t", nothing]
`;
  const told = findings(load(text)).map((finding) => finding.split(" ")[1]);
  assert.deepEqual(told, [
    "broker.mqtt.listen.tcp[#2]",
    "channels[2].b.type",
    "ingest.routes[2].table",
  ]);
});

Deno.test("a second document is refused", () => {
  refused(
    `${LEAST}---\nbroker: {}\n`,
    "10:1 begins a second document; a configuration is one document, remove the --- line",
  );
});

Deno.test("a key written twice is refused at the second place", () => {
  refused(
    `${LEAST}  id: c\n`,
    "10:3 broker.id is written twice, first at line 2; keep one of them",
  );
  refused(
    channels("a: {type: append}", "b: {type: append}", "a: {type: latest}"),
    "13:3 channels.a is written twice, first at line 11; keep one of them",
  );
});

Deno.test("anchors, aliases, merge keys and tags are refused by name", () => {
  refused(
    channels("a: &x {type: append}", "b: *x", "c: {<<: {type: append}, type: append}"),
    '11:9 channels.a "&x" is an anchor, which is not read here; write each value out where it holds',
    '12:6 channels.b "*x" is an alias, which is not read here; write the value out',
    "13:7 channels.c.<< is a merge key, which is not read here; write the keys out",
  );
  refused(
    `${LEAST}  log_level: !!binary aW5mbw==\n`,
    '10:23 broker.log_level "tag:yaml.org,2002:binary" is a tag, which is not read here; the only one is !include',
  );
});

Deno.test("a key that is no plain name is refused", () => {
  refused(
    channels("? [a, b]", ": {type: append}"),
    "11:5 channels has a key that is not a plain name; write a name",
  );
});

Deno.test("a file of text that is no mapping is refused", () => {
  refused("just words\n", "1:1 is not a mapping of keys; write broker: first");
  refused("- broker\n", "1:1 is not a mapping of keys; write broker: first");
});

Deno.test("an empty file misses everything that must be written", () => {
  for (const text of ["", "# nothing\n", "---\n"]) {
    assert.equal(findings(load(text)).length, 5, JSON.stringify(text));
  }
});

Deno.test("bytes that are not UTF-8 are refused", () => {
  const found = new Findings();
  assert.equal(readDocument(new Uint8Array([0x61, 0x3a, 0x20, 0xff]), FILE, found), undefined);
  assert.match(found.report(FILE), /1:1 is not UTF-8 text; save it as UTF-8\n/);
});

Deno.test("half a surrogate pair is refused, so that every text can be encoded", () => {
  refused(
    channels('a: {type: append, filter: "x/\\ud800"}'),
    '11:29 channels.a.filter "x/\ud800" holds half of a character; write valid Unicode',
  );
  refused(
    channels('"\\ud800": {type: append}'),
    "11:3 channels.\ud800 holds half of a character; write valid Unicode",
  );
});

Deno.test("a file over the bound is refused before it is parsed", () => {
  const found = new Findings();
  const bytes = new Uint8Array(LARGEST_FILE_BYTES + 1).fill(0x23);
  assert.equal(readDocument(bytes, FILE, found), undefined);
  assert.match(found.report(FILE), /1:1 is larger than 16MiB; split it\n/);
});

Deno.test("endless nesting ends in a finding, not in an overflow", () => {
  for (const depth of [30, 1_000, 5_000]) {
    for (const open of ["[", "{a: "]) {
      const found = findings(load(`broker: ${open.repeat(depth)}`));
      assert.ok(found.length > 0 && found.length <= 12, `${depth} ${open}: ${found.length}`);
    }
  }
  const closed = findings(load(`broker:\n  id: ${"[".repeat(30)}${"]".repeat(30)}\n`));
  assert.ok(closed.some((finding) => finding.includes("is nested deeper than any key; remove it")));
});

Deno.test("a control character in a value reaches no terminal", () => {
  refused(
    `${LEAST}  log_level: "a\\e[31m\\nb"\n`,
    '10:14 broker.log_level "a\\u001b[31m\\nb" is not a log level; write debug, info, warn or error, or leave the key out for info',
  );
});

Deno.test("a long value is quoted by its beginning", () => {
  const [finding] = findings(load(`${LEAST}  log_level: ${"x".repeat(500)}\n`));
  assert.match(finding, new RegExp(`^10:14 broker.log_level "x{120}\\.\\.\\." is not a log level`));
});

Deno.test("an unreadable file is one finding", () => {
  const loading = load("", {}, {
    readFile: () => {
      throw new Deno.errors.PermissionDenied("Permission denied (os error 13): readfile 'x'");
    },
  });
  assert.deepEqual(findings(loading), [
    "cannot be read: Permission denied; let the user that runs the broker read it",
  ]);
});
