/** Loading configurations that stand in the test. */
import assert from "node:assert/strict";
import type { Configuration } from "../../src/config/configuration.ts";
import { loadConfiguration, type Loading } from "../../src/config/load.ts";
import { REAL_SURROUNDINGS, type Surroundings } from "../../src/config/walk.ts";

export const FILE = "/etc/saguin/saguin.yaml";

/** As the rooms to come will load: every key of the table may be written. */
export const ALL_BUILT: Partial<Surroundings> = { notBuilt: [] };

/** Loads `text` as `FILE`, with `others` beside it by full path. */
export function load(
  text: string,
  others: Readonly<Record<string, string>> = {},
  surroundings: Partial<Surroundings> = {},
): Loading {
  const files = new Map([[FILE, text], ...Object.entries(others)]);
  return loadConfiguration(FILE, {
    ...REAL_SURROUNDINGS,
    readFile: (path) => {
      const file = files.get(path);
      if (file === undefined) throw new Deno.errors.NotFound("No such file (os error 2)");
      return new TextEncoder().encode(file);
    },
    ...surroundings,
  });
}

/** The configuration, where the test is not about findings. */
export function accepted(loading: Loading): Configuration {
  if ("findings" in loading) assert.fail(loading.findings);
  return loading.configuration;
}

/** The bullets of the report without their dashes; the report is of `FILE` alone. */
export function findings(loading: Loading): string[] {
  if (!("findings" in loading)) return [];
  const [header, file, ...bullets] = loading.findings.trimEnd().split("\n");
  assert.equal(header, "configuration is invalid:");
  assert.equal(file, `${FILE}:`);
  return bullets.map((bullet) => {
    assert.ok(bullet.startsWith("  - "), bullet);
    return bullet.slice(4);
  });
}

/** The least that loads; what a test is about is added at the end, at line 10. */
export const LEAST = `broker:
  id: b
  storage:
    default: disk
    default_retention_period: none
    default_retention_bytes: none
    providers:
      disk: {type: sqlite, file_path: /data/b.db}
      ram: {type: memory, snapshot_dir: none}
`;

/** `LEAST` with more keys of `broker`, each line as it stands under it; they begin at line 10. */
export function broker(...lines: readonly string[]): string {
  return LEAST + lines.map((line) => `  ${line}\n`).join("");
}

/** `LEAST` with channels; line 10 is the heading, line 11 the first of them. */
export function channels(...lines: readonly string[]): string {
  return `${LEAST}channels:\n` + lines.map((line) => `  ${line}\n`).join("");
}
