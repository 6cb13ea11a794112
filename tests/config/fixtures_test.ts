/** The configurations that are shipped load, from disk. */
import assert from "node:assert/strict";
import { loadCredentials } from "../../src/auth/credentials.ts";
import { Findings } from "../../src/config/finding.ts";
import { loadConfiguration } from "../../src/config/load.ts";
import { isScalarKind } from "../../src/config/reading.ts";
import type { Block, Setting } from "../../src/config/settings.ts";
import { SCHEMA } from "../../src/config/table/schema.ts";
import { cheapHash } from "../auth/support.ts";
import { accepted, ALL_BUILT, FILE, findings, load } from "./support.ts";

const FIXTURES = new URL("../../fixtures/", import.meta.url);

function fixture(name: string): string {
  return Deno.readTextFileSync(new URL(name, FIXTURES));
}

/** Every key that a file writes. */
function* written(block: Block): Generator<Setting> {
  for (const setting of block.settings.values()) {
    if (setting.written) yield setting;
  }
  for (const under of block.blocks.values()) yield* written(under);
  for (const items of block.lists.values()) {
    for (const item of items) yield* written(item);
  }
}

Deno.test("01 section 8: the quickstart loads and holds one channel of each type", () => {
  const path = new URL("../../fixtures/quickstart.yaml", import.meta.url).pathname;
  const configuration = accepted(loadConfiguration(path));
  assert.deepEqual(configuration.channels.map(({ name, type, filter }) => [name, type, filter]), [
    ["events", "append", "iot/+/devices/telemetry/#"],
    ["jobs", "queue", "iot/+/work/+"],
    ["jobs__dlq", "append", "iot/+/work/+/__dlq"],
    ["state", "latest", "iot/+/devices/state"],
  ]);
  assert.equal(configuration.mqtt.doors[0].allowAnonymous, true);
  const jobs = configuration.channels[1];
  assert.ok(jobs.type === "queue");
  assert.deepEqual([jobs.visibilityTimeoutMs, jobs.maxAttempts], [30_000, 5]);
});

for (
  const [name, aclName] of [
    ["home-hub.yaml", undefined],
    ["plant-gateway.yaml", undefined],
    ["fleet-broker.yaml", "fleet-broker.acl.yaml"],
    ["annotated.yaml", "annotated.acl.yaml"],
  ] as const
) {
  Deno.test(`${name} loads, and so does what it names`, () => {
    const configuration = accepted(load(fixture(name)));
    const found = new Findings();
    const users = new TextEncoder().encode(`someone:${cheapHash("pw")}\n`);
    loadCredentials(configuration, (path) => {
      if (path !== configuration.mqtt.aclFile) return users;
      return new TextEncoder().encode(fixture(aclName!));
    }, found);
    assert.equal(found.empty ? "" : found.report(FILE), "");
    assert.equal(configuration.mqtt.aclFile === undefined, aclName === undefined);
  });
}

/** What is commented out as not built yet, put in force. */
function whole(text: string): string {
  return text.replaceAll(/^( *)#(?=[a-z-])/gm, "$1");
}

/** The keys of the annotated file, with everything in it in force. */
function annotated(): readonly Setting[] {
  const loading = load(whole(fixture("annotated.yaml")), {}, ALL_BUILT);
  assert.deepEqual(findings(loading), []);
  if ("findings" in loading) throw new TypeError("it has findings");
  return [...written(loading.settings)];
}

Deno.test("the annotated file names every key of the table", () => {
  const paths = new Set(annotated().map(({ key }) => key.path));
  const missing = SCHEMA.map(({ path }) => path).filter((path) =>
    !paths.has(path) && ![...paths].some((other) => other.startsWith(`${path}.`))
  );
  assert.deepEqual(missing, []);
});

Deno.test("the annotated file writes the default of every key that has one", () => {
  for (const { key, path, text } of annotated()) {
    if (typeof key.default === "string" && isScalarKind(key.kind)) {
      assert.equal(text, key.default, path);
    }
  }
});
