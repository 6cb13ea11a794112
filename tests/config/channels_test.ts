/** Channel names, filters, queues and what is derived from them. */
import assert from "node:assert/strict";
import { nameFault } from "../../src/config/checks/channels.ts";
import { accepted, broker, channels, FILE, findings, LEAST, load } from "./support.ts";

function one(line: string): string[] {
  return findings(load(channels(line)));
}

Deno.test("02a 1.3, S61 a channel name is one level of letters, digits, - _ and .", () => {
  for (const name of ["a", "A-Z_0.9", "x".repeat(128), "..a", "a..", "__dlq_", "0"]) {
    assert.equal(nameFault(name), undefined, name);
  }
  const faults: readonly (readonly [string, RegExp])[] = [
    ["", /^is an empty channel name; write /],
    ["a/b", /^is no channel name; write letters/],
    ["a b", /^is no channel name; write letters/],
    ["größe", /^is no channel name; write letters/],
    ["$a", /^is no channel name; write letters/],
    ["a+", /^is no channel name; write letters/],
    ["a\0", /^is no channel name; write letters/],
    ["x".repeat(129), /^is longer than 128 characters; write /],
    [".", /^is no channel name; write one with a letter/],
    ["..", /^is no channel name; write one with a letter/],
    ["jobs__dlq", /^ends in __dlq, which names a queue's dead letters; write /],
    ["__dlq", /^ends in __dlq/],
    ["broadcast", /^is the name of the topics that no channel claims; write /],
    [".".repeat(100), /^has a snapshot file name of 309 characters/],
  ];
  for (const [name, says] of faults) assert.match(nameFault(name) ?? "accepted", says, name);
});

Deno.test("S61 the longest file name that still fits is accepted", () => {
  // 82 dots of three characters and nine for the ending.
  assert.equal(nameFault(".".repeat(82)), undefined);
  assert.match(nameFault(".".repeat(83)) ?? "accepted", /258 characters/);
});

Deno.test("a refused name is refused once, at the name", () => {
  assert.deepEqual(one("a__dlq: {type: append}"), [
    "11:3 channels.a__dlq ends in __dlq, which names a queue's dead letters; write another name",
  ]);
});

Deno.test("02a 1.1 without a filter a channel claims what lies under its name", () => {
  const [channel] = accepted(load(channels("orders: {type: append}"))).channels;
  assert.equal(channel.filter, "orders/#");
  assert.deepEqual(channel.filters, ["orders/#"]);
});

Deno.test("02a 1.2 braces stand for every combination, and the written form is kept", () => {
  const [channel] = accepted(
    load(channels('c: {type: append, filter: "a/{b,c}/+/{d,e}/#"}')),
  ).channels;
  assert.equal(channel.filter, "a/{b,c}/+/{d,e}/#");
  assert.deepEqual(channel.filters, ["a/b/+/d/#", "a/b/+/e/#", "a/c/+/d/#", "a/c/+/e/#"]);
});

Deno.test("02b 3.6 what is no channel filter is refused where it is written", () => {
  const refused: readonly (readonly [string, RegExp])[] = [
    ['"#"', /^11:29 channels\.c\.filter "#" begins with a wildcard; write the first level out$/],
    ["+/a", / begins with a wildcard; write /],
    ["$SYS/a", / begins with \$, which no channel can claim; write /],
    ["a/#/b", / is no topic filter: .*; write whole levels/],
    ["a/b#", / is no topic filter: .*; write whole levels/],
    ["a/b+/c", / is no topic filter: .*; write whole levels/],
    ['"a/\\0"', / is no topic filter: .*; write whole levels/],
    ["a/__dlq/b", / has a level __dlq, which marks dead letters; write /],
    ['"a/{b/c}"', / is no topic filter: .*; write every spelling/],
    ['"a/{}"', / is no topic filter: .*; write every spelling/],
    ['"a/{b,}"', / is no topic filter: .*; write every spelling/],
    ['"a/{b,b}"', / is no topic filter: .*; write every spelling/],
    ['"{$a,b}/c"', / begins with \$/],
    ['"{+,b}/c"', / begins with a wildcard/],
    ['""', / is empty; write /],
    ["[a, b]", / is a list; write a topic filter/],
  ];
  for (const [filter, says] of refused) {
    const found = one(`c: {type: append, filter: ${filter}}`);
    assert.equal(found.length, 1, filter);
    assert.match(found[0], says, filter);
  }
});

Deno.test("02a 1.2 a queue's filter holds no braces", () => {
  assert.deepEqual(one('q: {type: queue, filter: "a/{b,c}"}'), [
    '11:28 channels.q.filter "a/{b,c}" holds braces, which a queue\'s filter cannot; write one queue for each spelling',
  ]);
});

Deno.test("02a 1.4 two equal filters are refused, whatever expansion or name they come from", () => {
  const clash = (channel: string, filter: string, other: string) =>
    `claims "${filter}" for channel "${channel}", and so does channel "${other}" at ${FILE}:11; ` +
    "change one of the two filters";
  assert.deepEqual(
    findings(load(channels("a: {type: append}", 'b: {type: latest, filter: "a/#"}'))),
    [`12:29 channels.b.filter "a/#" ${clash("b", "a/#", "a")}`],
  );
  assert.deepEqual(
    findings(load(channels('a: {type: append, filter: "{b,c}/#"}', "c: {type: append}"))),
    [`12:3 channels.c.filter "c/#" ${clash("c", "c/#", "a")}`],
  );
  accepted(load(channels("a: {type: append, filter: x/+}", 'b: {type: append, filter: "x/#"}')));
});

Deno.test("02a 13.7 a filter deeper than max_topic_levels is refused", () => {
  const text = channels("a: {type: append, filter: a/b/c}", "b: {type: append, filter: a/b/c/d}")
    .replace("  storage:", "  limits: {max_topic_levels: 3}\n  storage:");
  assert.deepEqual(findings(load(text)), [
    '13:29 channels.b.filter "a/b/c/d" has 4 levels, more than limits.max_topic_levels (3); ' +
    "shorten it, or raise the limit",
  ]);
  assert.deepEqual(findings(load(broker("limits: {max_topic_levels: 1}"))), []);
});

Deno.test("02b 3.5 a filter that no topic of max_topic_length fits is refused", () => {
  const text = channels(
    "a: {type: append, filter: größe/+}",
    'b: {type: append, filter: "grösse/#"}',
  )
    .replace("  storage:", "  limits: {max_topic_length: 9}\n  storage:");
  // g r ö(2) ß(2) e / + is nine bytes, g r ö(2) s s e / # too.
  assert.deepEqual(findings(load(text)), []);
  assert.deepEqual(findings(load(text.replace("grösse/#", "grössen/#"))), [
    '13:29 channels.b.filter "grössen/#" claims no topic that fits limits.max_topic_length (9); ' +
    "shorten it, or raise the limit",
  ]);
  assert.deepEqual(findings(load(broker("limits: {max_topic_length: 1}"))), []);
});

Deno.test("02b 3.6 an append channel has these keys and defaults", () => {
  const [least, full] = accepted(load(channels(
    "a: {type: append}",
    "b: {type: append, filter: b/x, storage: ram, start: tail, retention_period: 7d, retention_bytes: 1GiB, max_bytes: 2GiB}",
  ))).channels;
  assert.deepEqual(least, {
    name: "a",
    filter: "a/#",
    filters: ["a/#"],
    storage: "disk",
    place: { file: FILE, line: 11, column: 3 },
    type: "append",
    start: "floor",
    retentionPeriodMs: undefined,
    retentionBytes: undefined,
    maxBytes: undefined,
    deadLetterOf: undefined,
  });
  assert.deepEqual(full, {
    name: "b",
    filter: "b/x",
    filters: ["b/x"],
    storage: "ram",
    place: { file: FILE, line: 12, column: 3 },
    type: "append",
    start: "tail",
    retentionPeriodMs: 7 * 86_400_000,
    retentionBytes: 1024 ** 3,
    maxBytes: 2 * 1024 ** 3,
    deadLetterOf: undefined,
  });
});

Deno.test("02b 3.6 a latest channel keeps deletions for a day, or as long as it lives", () => {
  const [least, full] = accepted(load(channels(
    "a: {type: latest}",
    "b: {type: latest, retention_period: 1h, deletion_retention_period: none}",
  ))).channels;
  assert.ok(least.type === "latest" && full.type === "latest");
  assert.equal(least.deletionRetentionPeriodMs, 86_400_000);
  assert.equal(full.deletionRetentionPeriodMs, undefined);
  assert.equal(full.retentionPeriodMs, 3_600_000);
});

Deno.test("02a 9 a queue brings its dead-letter channel, on its provider, under its filter", () => {
  const [queue, letters, ...more] = accepted(load(channels(
    "welds: {type: queue, filter: shop/+/weld, storage: ram, max_bytes: 1MiB, " +
      "visibility_timeout: 1m, job_expires_after: 6h, " +
      "retry: {max_attempts: 1, backoff: exponential, backoff_base: 2s}, " +
      "dlq_retention_period: 30d, dlq_retention_bytes: 1GiB}",
  ))).channels;
  const place = { file: FILE, line: 11, column: 3 };
  assert.deepEqual(queue, {
    name: "welds",
    filter: "shop/+/weld",
    filters: ["shop/+/weld"],
    storage: "ram",
    place,
    type: "queue",
    maxBytes: 1_048_576,
    visibilityTimeoutMs: 60_000,
    jobExpiresAfterMs: 21_600_000,
    maxAttempts: 1,
    backoff: { kind: "exponential", baseMs: 2_000 },
    deadLetter: "welds__dlq",
  });
  assert.deepEqual(letters, {
    name: "welds__dlq",
    filter: "shop/+/weld/__dlq",
    filters: ["shop/+/weld/__dlq"],
    storage: "ram",
    place,
    type: "append",
    start: "floor",
    retentionPeriodMs: 30 * 86_400_000,
    retentionBytes: 1024 ** 3,
    maxBytes: undefined,
    deadLetterOf: "welds",
  });
  assert.deepEqual(more, []);
});

Deno.test("02a 9 the dead-letter level stands where the queue's filter has its #", () => {
  const filters = accepted(load(channels("welds: {type: queue}"))).channels.map(({ filter }) =>
    filter
  );
  assert.deepEqual(filters, ["welds/#", "welds/__dlq/#"]);
});

Deno.test("02b 3.6 a queue without further keys takes the defaults", () => {
  const [queue] = accepted(load(channels("q: {type: queue}"))).channels;
  assert.ok(queue.type === "queue");
  assert.equal(queue.visibilityTimeoutMs, 30_000);
  assert.equal(queue.jobExpiresAfterMs, undefined);
  assert.equal(queue.maxAttempts, 5);
  assert.deepEqual(queue.backoff, { kind: "none" });
});

Deno.test("02b 3.3 channels take the broker's retention unless they write none themselves", () => {
  const text = channels(
    "a: {type: append}",
    "b: {type: append, retention_period: none, retention_bytes: none}",
    "q: {type: queue}",
  )
    .replace("default_retention_period: none", "default_retention_period: 14d")
    .replace("default_retention_bytes: none", "default_retention_bytes: 1MiB");
  const bounds = accepted(load(text)).channels.map((channel) =>
    channel.type === "append"
      ? [channel.name, channel.retentionPeriodMs, channel.retentionBytes]
      : []
  );
  assert.deepEqual(bounds, [
    ["a", 14 * 86_400_000, 1_048_576],
    ["b", undefined, undefined],
    [],
    ["q__dlq", 14 * 86_400_000, 1_048_576],
  ]);
});

Deno.test("02b 3.6 a job must outlive its visibility timeout", () => {
  accepted(load(channels("q: {type: queue, job_expires_after: 31s}")));
  accepted(load(channels("q: {type: queue, visibility_timeout: 1s, job_expires_after: 2s}")));
  assert.deepEqual(one("q: {type: queue, job_expires_after: 30s}"), [
    '11:39 channels.q.job_expires_after "30s" is not longer than visibility_timeout (30s), so that no worker could finish; write a longer one',
  ]);
  assert.equal(
    one("q: {type: queue, visibility_timeout: 1s, job_expires_after: 1s}").length,
    1,
  );
});

Deno.test("02b 19 backoff and its base are written together or not at all", () => {
  accepted(load(channels("q: {type: queue, retry: {backoff: none, backoff_base: 1s}}")));
  const says = (key: string, value: string, missing: string) =>
    `channels.q.retry.${key} "${value}" stands without ${missing}; write both or neither`;
  assert.deepEqual(one("q: {type: queue, retry: {backoff: none}}"), [
    `11:37 ${says("backoff", "none", "backoff_base")}`,
  ]);
  assert.deepEqual(one("q: {type: queue, retry: {backoff_base: 1s}}"), [
    `11:42 ${says("backoff_base", "1s", "backoff")}`,
  ]);
  assert.equal(one("q: {type: queue, retry: {backoff: cubic, backoff_base: 1s}}").length, 1);
});

Deno.test("02a 1.1 there is no type broadcast, and a channel without a type is refused", () => {
  assert.deepEqual(one("a: {type: broadcast}"), [
    '11:13 channels.a.type "broadcast" is not a channel type; write append, latest or queue',
  ]);
  for (const line of ["a:", "a: {}", "a: ~"]) {
    assert.deepEqual(one(line), ["11:3 channels.a.type is missing; write append, latest or queue"]);
  }
});

Deno.test("the channels stand by name, each dead-letter channel behind its queue", () => {
  const names = accepted(load(channels(
    "z: {type: append}",
    "b: {type: queue}",
    "B: {type: append}",
    "b-: {type: latest}",
  ))).channels.map(({ name }) => name);
  assert.deepEqual(names, ["B", "b", "b__dlq", "b-", "z"]);
});

Deno.test("an empty channels block is no channel", () => {
  assert.deepEqual(accepted(load(`${LEAST}channels:\n`)).channels, []);
});
