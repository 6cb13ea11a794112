import assert from "node:assert/strict";
import { intersection } from "../../../src/auth/acl/coverage.ts";
import { everyFilter, everySequence, plainMatches } from "../../topics/oracle.ts";

Deno.test("the intersection of two filters is a filter that matches what both match", () => {
  const filters = everyFilter(["a", ""], 3);
  const topics = everySequence(["a", "b", ""], 4);
  const matched = new Map<string, string>();
  const bits = (filter: string) => {
    let found = matched.get(filter);
    if (found === undefined) {
      found = topics.map((topic) => plainMatches(filter, topic) ? "1" : "0").join("");
      matched.set(filter, found);
    }
    return found;
  };
  for (const a of filters) {
    for (const b of filters) {
      const both = intersection(a, b);
      const [one, two] = [bits(a), bits(b)];
      const wanted = [...one].map((bit, i) => bit === "1" && two[i] === "1" ? "1" : "0").join("");
      const had = both === undefined ? "0".repeat(topics.length) : bits(both);
      assert.equal(had, wanted, `${a} and ${b} are ${both}`);
    }
  }
});

Deno.test("the intersection of two filters is written as narrow as it is", () => {
  assert.equal(intersection("plant/#", "plant/pump/+/state/#"), "plant/pump/+/state/#");
  assert.equal(intersection("+/b/#", "a/+"), "a/b");
  assert.equal(intersection("a/#", "a"), "a");
  assert.equal(intersection("#", "$x"), undefined);
  assert.equal(intersection("a/b", "a/c"), undefined);
});
