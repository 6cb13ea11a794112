/** What the tests of this room share. */
import { type Configuration } from "../../src/config/configuration.ts";
import { Findings } from "../../src/config/finding.ts";
import { accepted, ALL_BUILT, channels, load } from "../config/support.ts";
import { Acl } from "../../src/auth/acl/acl.ts";
import { readAcl } from "../../src/auth/acl/read.ts";
import assert from "node:assert/strict";

export const ACL_FILE = "/etc/saguin/acl.yaml";

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

/** A hash of `password` in `$7$`, made with the least work. */
export { cheapHash } from "./cheap_hash.ts";

/** The channels of 02a 1.1 and some queues. */
export const PLANT = accepted(load(
  channels(
    "pump-state: {type: latest, filter: plant/pump/+/state/#}",
    "pump-log: {type: append, filter: plant/pump/+/+/#}",
    'tank-log: {type: append, filter: "plant/tank/+/{level,alarm}"}',
    "welds: {type: queue, filter: shop/+/weld}",
    "tasks: {type: queue, filter: tasks/#}",
  ),
  {},
  ALL_BUILT,
));

/** The bullets of what is wrong with an ACL file, without their dashes. */
export function aclFindings(text: string, world: Configuration = PLANT): string[] {
  const findings = new Findings();
  readAcl(utf8(text), ACL_FILE, world, findings);
  if (findings.empty) return [];
  const [header, file, ...bullets] = findings.report(ACL_FILE).trimEnd().split("\n");
  assert.equal(header, "configuration is invalid:");
  assert.equal(file, `${ACL_FILE}:`);
  return bullets.map((bullet) => bullet.slice("  - ".length));
}

/** The ACL of a text in which nothing is wrong. */
export function acl(text: string, world: Configuration = PLANT): Acl {
  const findings = new Findings();
  const document = readAcl(utf8(text), ACL_FILE, world, findings);
  assert.ok(findings.empty, findings.report(ACL_FILE));
  return new Acl(document, world);
}

/** An ACL of one role, whose rules are given one a line, for everybody. */
export function everybody(...rules: readonly string[]): Acl {
  return acl(oneRole(...rules));
}

/** Line 3 is the first rule. */
export function oneRole(...rules: readonly string[]): string {
  return `roles:\n  r:${rules.length === 0 ? " []" : ""}\n` +
    rules.map((rule) => `    - ${rule}\n`).join("") + 'users:\n  "*": [r]\n';
}
