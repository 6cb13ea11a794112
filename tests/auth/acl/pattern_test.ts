import assert from "node:assert/strict";
import { Pattern, ties } from "../../../src/auth/acl/pattern.ts";
import { seeded } from "../../support/random.ts";

/** The same by a regular expression. */
function plainMatches(pattern: string, name: string): boolean {
  const escaped = pattern.split("*").map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${escaped.join(".*")}$`, "su").test(name);
}

Deno.test("02b 7.4 a star is any run of characters, none included", () => {
  const table: readonly (readonly [string, string, boolean])[] = [
    ["*", "", true],
    ["*", "anybody", true],
    ["meter-*", "meter-", true],
    ["meter-*", "meter-7", true],
    ["meter-*", "meter", false],
    ["meter-*", "a meter-7", false],
    ["*-desk", "night-desk", true],
    ["*-desk", "night-desks", false],
    ["a*a", "a", false],
    ["a*a", "aa", true],
    ["a*b*c", "abc", true],
    ["a*b*c", "axxbyyc", true],
    ["a*b*c", "acb", false],
    ["a**c", "ac", true],
    ["ab*bc", "abc", false],
    ["a.c", "abc", false],
    ["night-desk", "night-desk", true],
    ["night-desk", "Night-desk", false],
    ["a*", "a/+#", true],
  ];
  for (const [pattern, name, matches] of table) {
    assert.equal(new Pattern(pattern).matches(name), matches, `${pattern} ${name}`);
  }
});

Deno.test("02b 7.4 patterns match as the regular expressions they stand for", () => {
  const random = seeded("pattern");
  const some = (letters: string, longest: number) =>
    Array.from({ length: random.between(0, longest) }, () => random.pick([...letters])).join("");
  for (let i = 0; i < 20_000; i++) {
    const pattern = some("aab**", 7);
    const name = some("aab", 9);
    assert.equal(
      new Pattern(pattern).matches(name),
      plainMatches(pattern, name),
      `${pattern} ${name}`,
    );
  }
});

Deno.test("02b 7.4 literal characters are counted, stars are not", () => {
  assert.equal(new Pattern("a*b**").literals, 2);
  assert.equal(new Pattern("*").literals, 0);
  assert.equal(new Pattern("grün-🙂*").literals, 6);
});

function pairs(...patterns: readonly string[]): string[] {
  return ties(patterns.map((text) => new Pattern(text))).map(({ first, second }) =>
    `${first.text} ${second.text}`
  );
}

Deno.test("02b 7.2 patterns tie where some name matches both and neither is more literal", () => {
  assert.deepEqual(pairs("a*", "*a"), ["a* *a"]);
  assert.deepEqual(pairs("a*", "b*"), []);
  assert.deepEqual(pairs("ab", "ab*"), ["ab ab*"]);
  assert.deepEqual(pairs("ab*", "ab"), ["ab* ab"]);
  assert.deepEqual(pairs("ab", "a*c"), []);
  assert.deepEqual(pairs("ab", "cd"), []);
  assert.deepEqual(pairs("a*", "ab*"), []);
  assert.deepEqual(pairs("a*c", "*ac"), ["a*c *ac"]);
  assert.deepEqual(pairs("*", "**"), ["* **"]);
  assert.deepEqual(pairs("x*z", "xy*", "y*z"), ["x*z xy*"]);
});

Deno.test("02b 7.2 ties are those that trying every name finds", () => {
  const random = seeded("ties");
  const names = [""];
  for (let i = 0; names[i].length < 8; i++) names.push(`${names[i]}a`, `${names[i]}b`);
  for (let i = 0; i < 400; i++) {
    const texts = new Set(
      Array.from(
        { length: 4 },
        () =>
          Array.from({ length: random.between(1, 4) }, () => random.pick(["a", "b", "*"])).join(""),
      ),
    );
    const patterns = [...texts].map((text) => new Pattern(text));
    const tied = patterns.filter((second, at) =>
      patterns.slice(0, at).some((first) =>
        first.literals === second.literals &&
        names.some((name) => first.matches(name) && second.matches(name))
      )
    );
    assert.deepEqual(
      ties(patterns).map(({ second }) => second.text),
      tied.map(({ text }) => text),
      [
        ...texts,
      ].join(" "),
    );
  }
});

Deno.test("ties among many patterns are found in looks that grow with their number", () => {
  const patterns = Array.from(
    { length: 4_000 },
    (_, i) => new Pattern(`site-${String(i).padStart(5, "0")}-*`),
  );
  patterns.push(new Pattern("site-00017-?"), new Pattern("*site-00017-"));
  let looks = 0;
  for (const pattern of patterns) {
    const { beginning } = pattern;
    Object.defineProperty(pattern, "beginning", { get: () => (looks++, beginning) });
  }
  assert.deepEqual(ties(patterns).map(({ second }) => second.text), ["*site-00017-"]);
  // Each with each other would be eight million pairs; sorting them takes a dozen looks a pattern or two.
  assert.ok(looks < 100 * patterns.length, `${looks} looks at ${patterns.length} patterns`);
  assert.ok(looks > patterns.length, "the looks are counted");
});
