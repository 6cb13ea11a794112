import assert from "node:assert/strict";
import { expandBraces, MAX_EXPANSIONS } from "../../src/topics/braces.ts";
import { isFault } from "../../src/topics/filter.ts";

Deno.test("02a 1.2 braced levels expand to every combination, in the order written", () => {
  assert.deepEqual(expandBraces("plant/+/readings/#"), ["plant/+/readings/#"]);
  assert.deepEqual(expandBraces("plant/tank/+/{level,alarm}"), [
    "plant/tank/+/level",
    "plant/tank/+/alarm",
  ]);
  assert.deepEqual(expandBraces("{a,b}/x/{1,2}/#"), ["a/x/1/#", "a/x/2/#", "b/x/1/#", "b/x/2/#"]);
  assert.deepEqual(expandBraces("a/{b}"), ["a/b"]);
  assert.deepEqual(expandBraces("a,b/c"), ["a,b/c"]);
  assert.deepEqual(expandBraces("a/{b,c}/"), ["a/b/", "a/c/"]);
});

Deno.test("02a 1.2, 02b 3.6 what braces may not hold", () => {
  const refused = [
    "a/{}",
    "a/{b,}",
    "a/{,b}",
    "a/{b,,c}",
    "a/{b/c,d}",
    "a/{b,c",
    "a/b,c}",
    "a/{",
    "a/}",
    "a/x{b,c}",
    "a/{b,c}x",
    "a/{b}{c}",
    "a/{{b,c},d}",
    "a/x{b}y",
    "a/}b{",
    "a/{b,b}",
    "a/{b,c,b}",
  ];
  for (const filter of refused) {
    const outcome = expandBraces(filter);
    assert.ok(isFault(outcome), `${filter} gave ${JSON.stringify(outcome)}`);
  }
});

Deno.test("I13 the number of expansions is bounded before any is made", () => {
  const level = "{0,1,2,3}";
  const most = Array(5).fill(level).join("/");
  const expanded = expandBraces(most);
  assert.ok(!isFault(expanded));
  assert.equal(expanded.length, MAX_EXPANSIONS);
  assert.equal(new Set(expanded).size, MAX_EXPANSIONS);
  assert.ok(isFault(expandBraces(`${most}/{a,b}`)));
  assert.ok(isFault(expandBraces(Array(500).fill(level).join("/"))));
});
