import assert from "node:assert/strict";
import { disagreements, newestEntry, type Stated } from "../../packaging/release_check.ts";

const CHANGELOG = `# Changes

## 1.2.0-rc.1 - 2026-11-30

- Something new.

## 1.1.0 - 2026-10-01

- Something old.
`;

const AGREED: Stated = {
  tag: "v1.2.0-rc.1",
  constant: "1.2.0-rc.1",
  manifest: "1.2.0-rc.1",
  changelog: CHANGELOG,
};

function refused(change: Partial<Stated>): string {
  return disagreements({ ...AGREED, ...change }).join("\n");
}

Deno.test("01 7 a release whose tag, constant, manifest and dated entry agree is one", () => {
  assert.deepEqual(disagreements(AGREED), []);
  assert.deepEqual(newestEntry(CHANGELOG), {
    version: "1.2.0-rc.1",
    says: "2026-11-30",
    text: "- Something new.",
  });
});

Deno.test("01 7 a release is refused when one of them says another version", () => {
  assert.match(refused({ constant: "1.2.0" }), /^VERSION of src\/version.ts is "1.2.0"/);
  assert.match(refused({ manifest: "1.2.0" }), /^"version" of deno.json is "1.2.0"/);
  const other = CHANGELOG.replace("1.2.0-rc.1", "1.2.0");
  assert.match(refused({ changelog: other }), /^the newest entry of CHANGELOG.md is "1.2.0"/);
  // An older entry of that version does not make up for a newer one of another.
  const early = `## 1.3.0 - 2026-12-01\n\n- More.\n\n${CHANGELOG}`;
  assert.match(refused({ changelog: early }), /^the newest entry of CHANGELOG.md is "1.3.0"/);
  assert.equal(disagreements({ ...AGREED, tag: "v9.9.9" }).length, 3);
});

Deno.test("01 7 a release is refused when its entry has no day or says nothing", () => {
  for (const says of ["not released", "2026-02-30", "30.11.2026", "2026-11-30 (late)"]) {
    assert.match(refused({ changelog: CHANGELOG.replace("2026-11-30", says) }), /has its day/);
  }
  assert.match(refused({ changelog: CHANGELOG.replace(" - 2026-11-30", "") }), /has its day/);
  assert.match(refused({ changelog: CHANGELOG.replace("- Something new.", "") }), /says nothing/);
  assert.equal(refused({ changelog: "# Changes\n" }), "CHANGELOG.md has no entry");
});

Deno.test("01 7 a release is refused when its tag is no version", () => {
  for (const tag of ["1.2.0-rc.1", "v1.2", "v01.2.0", "v1.2.0-01", "v1.2.0+build", "release", ""]) {
    assert.match(refused({ tag }), /is no "v" and a semantic version/, tag);
  }
});
