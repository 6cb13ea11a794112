/** `--check-config --output` loads again to the same thing (02b 16). */
import assert from "node:assert/strict";
import { writeOut } from "../../src/config/output.ts";
import { isScalarKind } from "../../src/config/reading.ts";
import { writeReference } from "../../src/config/reference.ts";
import { SCHEMA } from "../../src/config/table/schema.ts";
import { documentWith } from "./samples.ts";
import { accepted, ALL_BUILT, channels, findings, load } from "./support.ts";

const NORTH = "/etc/saguin/north.yaml";

/** Channels and providers without their places, which a rewritten file moves. */
function resolved(text: string, others: Record<string, string> = {}) {
  return JSON.stringify(accepted(load(text, others, ALL_BUILT)), (key, value) => {
    if (key === "place" || key === "file") return undefined;
    return value instanceof Map ? [...value] : value;
  });
}

function output(text: string, others: Record<string, string> = {}): string {
  const loading = load(text, others, ALL_BUILT);
  if ("findings" in loading) assert.fail(loading.findings);
  return writeOut(loading.settings);
}

Deno.test("the document of a file with includes is one, says where from, and loads the same", () => {
  const text = channels(
    "- !include north.yaml",
    "- q:",
    "    type: queue",
    "    filter: shop/+/weld",
    "    retry: {backoff: linear, backoff_base: 90s}",
  );
  const others = {
    [NORTH]: '"1": {type: append, filter: "a/{b,c}/#", retention_period: none}\n' +
      "true: {type: latest, storage: ram}\n",
  };
  const written = output(text, others);
  assert.equal(resolved(written), resolved(text, others));
  assert.equal(
    output(written).replaceAll(/# from .*/g, "#"),
    written.replaceAll(/# from .*/g, "#"),
  );
  const at = written.indexOf("channels:");
  assert.equal(
    written.slice(at),
    [
      "channels:",
      "  # from /etc/saguin/north.yaml",
      "  1:",
      "    type: append",
      '    filter: "a/{b,c}/#"',
      "    storage: disk",
      "    start: floor",
      "    retention_period: none",
      "  # from /etc/saguin/north.yaml",
      "  true:",
      "    type: latest",
      '    filter: "true/#"',
      "    storage: ram",
      "    deletion_retention_period: 1d",
      "  # from /etc/saguin/saguin.yaml",
      "  q:",
      "    type: queue",
      "    filter: shop/+/weld",
      "    storage: disk",
      "    visibility_timeout: 30s",
      "    retry:",
      "      max_attempts: 5",
      "      backoff: linear",
      "      backoff_base: 90s",
      "",
    ].join("\n").replace('"true/#"', '"true/#"'),
  );
});

Deno.test("no half of a pair is printed, and no derived channel", () => {
  const written = output(channels("q: {type: queue}"));
  assert.ok(!/backoff|publish_commit|__dlq|retention_period: none\n\s*dlq/.test(written), written);
  assert.deepEqual(findings(load(written)), []);
});

for (const key of SCHEMA.filter(({ kind }) => isScalarKind(kind) || kind.of === "texts")) {
  Deno.test(`${key.path} as printed loads again to the same`, () => {
    const samples: Record<string, readonly string[]> = {
      text: ['"null"', '"a: b # c"', "5", '"\\u0085\\u2028é"'],
      filter: ['"a/+/{b,c}/#"', "a/~"],
      mode: ['"0600"'],
      texts: ['["https://a.example:1", "http://[::1]"]', "[]"],
      path: ['"/a b/#c"', "/x"],
      address: ['"[::1]:1"', ":0"],
      flag: ["true", "false"],
    };
    const { kind } = key;
    const texts = key.path.endsWith(".peer") || key.path.endsWith(".columns")
      ? ["tls://peer.example:1"]
      : kind.of === "word"
      ? kind.words
      : samples[kind.of] ?? [];
    for (const text of texts) {
      const document = documentWith(key, text);
      const loading = load(document, {}, ALL_BUILT);
      // What a rule of the key refuses is not printed either.
      if ("findings" in loading) continue;
      const written = writeOut(loading.settings);
      assert.equal(resolved(written), resolved(document), written);
      assert.equal(output(written), written);
    }
  });
}

Deno.test("rfcs/configuration.md is what the table says", () => {
  const page = Deno.readTextFileSync(new URL("../../rfcs/configuration.md", import.meta.url));
  assert.equal(
    page,
    writeReference(),
    "run deno run --allow-write=rfcs src/config/reference_main.ts",
  );
});
