/** Compiled rules against the naive evaluator, over generated files, clients and questions. */
import assert from "node:assert/strict";
import { Acl } from "../../../src/auth/acl/acl.ts";
import { FEATURES } from "../../../src/auth/acl/document.ts";
import { readAcl } from "../../../src/auth/acl/read.ts";
import { Findings } from "../../../src/config/finding.ts";
import { accepted, ALL_BUILT, channels, load } from "../../config/support.ts";
import { type Random, seeded } from "../../support/random.ts";
import { everyFilter, everySequence } from "../../topics/oracle.ts";
import { ACL_FILE, utf8 } from "../support.ts";
import { Oracle, Universe, type WrittenAcl, type WrittenRule, type WrittenUser } from "./oracle.ts";

const WORLD = accepted(load(
  channels(
    "log: {type: append, filter: a/+}",
    'state: {type: latest, filter: "a/{b,u1}/#"}',
    "jobs: {type: queue, filter: q/#}",
    "wide: {type: append, filter: a/#}",
  ),
  {},
  ALL_BUILT,
));

const LEVELS = ["a", "b", "q", "u1", "__dlq", "z", ""];
const DEPTH = 4;
const TOPICS = everySequence(LEVELS, 3);
const SUBSCRIPTIONS = everyFilter(["a", "b", "q", "u1"], 3);
const CHANNELS = [undefined, "log", "state", "jobs", "jobs__dlq", "wide"];
const VERBS: Readonly<Record<string, readonly string[]>> = {
  log: ["write", "read", "seek"],
  wide: ["write", "read", "seek"],
  jobs__dlq: ["write", "read", "seek"],
  state: ["write", "read", "delete"],
  jobs: ["write", "consume"],
};
const USERS = ["u1", "b", "+", "a/b", "z", "", "x*", "%c"];
const CLIENT_IDS = ["u1", "b", "#", "z-1", "%u", "{a,b}"];

function some<T>(random: Random, from: readonly T[], most: number): T[] {
  return random.shuffled(from).slice(0, random.between(1, most));
}

function filter(random: Random): string {
  const level = () =>
    random.pick(["a", "a", "b", "q", "u1", "+", "+", "%u", "%c", "{a,q}", "{b,u1,%u}", "__dlq"]);
  const levels = Array.from({ length: random.between(1, 3) }, level);
  if (random.chance(0.4)) levels[random.chance(0.6) ? levels.length : 0] = "#";
  return levels.slice(0, levels.indexOf("#") + 1 || levels.length).join("/");
}

function rule(random: Random): WrittenRule {
  if (random.chance(0.1)) return { broker: "features", deny: some(random, FEATURES, 2) };
  if (random.chance(0.4)) {
    return { topic: filter(random), allow: some(random, ["read", "write"], 2) };
  }
  const channel = random.pick(Object.keys(VERBS));
  const allow = some(random, VERBS[channel], 3);
  return random.chance(0.4) ? { channel, allow } : { channel, filter: filter(random), allow };
}

function user(random: Random, roles: readonly string[]): WrittenUser {
  return {
    roles: some(random, roles, 2),
    ...random.chance(0.3) ? { client_ids: some(random, ["%u", "%u-*", "z*", "*"], 2) } : {},
  };
}

/** A file that is no file of findings; rules that would be are left out one by one. */
function generate(random: Random): { written: WrittenAcl; acl: Acl } {
  const roles: Record<string, WrittenRule[]> = {};
  for (const name of ["one", "two", "three"]) {
    roles[name] = Array.from({ length: random.between(0, 5) }, () => rule(random))
      .filter((each) => findings({ roles: { r: [each] }, users: {} }).empty);
  }
  for (;;) {
    const patterns = some(random, ["*", "u*", "*1", "u1", "b", "z", "*b*", "x*", "a/*"], 5);
    const written = {
      roles,
      users: Object.fromEntries(patterns.map((each) => [each, user(random, Object.keys(roles))])),
    };
    const found = findings(written);
    if (!found.empty) continue;
    const document = readAcl(utf8(JSON.stringify(written)), ACL_FILE, WORLD, found);
    return { written, acl: new Acl(document, WORLD) };
  }
}

function findings(written: WrittenAcl): Findings {
  const found = new Findings();
  readAcl(utf8(JSON.stringify(written)), ACL_FILE, WORLD, found);
  return found;
}

Deno.test("02b 7 compiled rules answer as every rule read one by one", () => {
  const random = seeded("compiled rules");
  const universe = new Universe(LEVELS, DEPTH);
  let granted = 0;
  let asked = 0;
  for (let round = 0; round < 50; round++) {
    const { written, acl } = generate(random);
    const oracle = new Oracle(written, WORLD.channels, universe);
    const text = JSON.stringify(written);
    for (let client = 0; client < 6; client++) {
      const name = random.pick(USERS);
      const id = random.pick(CLIENT_IDS);
      const rules = acl.rules(name, id);
      const same = (question: string, answer: boolean, wanted: boolean) => {
        asked++;
        if (wanted) granted++;
        assert.equal(answer, wanted, `${question} as ${name} ${id}: ${text}`);
      };
      same("admits", acl.admits(name, id), oracle.admits(name, id));
      for (const feature of FEATURES) {
        same(feature, rules.denies(feature), oracle.denies(feature, name));
      }
      same("consume", rules.mayConsume("jobs"), oracle.mayConsume("jobs", name, id));
      for (let i = 0; i < 60; i++) {
        const topic = random.pick(TOPICS);
        const channel = random.pick(CHANNELS);
        const on = `${topic} on ${channel}`;
        const may = (verb: string) => oracle.may(verb, topic, channel, name, id);
        same(`read ${on}`, rules.mayRead(topic, channel), may("read"));
        same(`write ${on}`, rules.mayPublish(topic, channel, false), may("write"));
        const empty = channel === "state" ? "delete" : "write";
        same(`${empty} ${on}`, rules.mayPublish(topic, channel, true), may(empty));
      }
      for (let i = 0; i < 40; i++) {
        const subscription = random.pick(SUBSCRIPTIONS);
        same(
          `subscribe ${subscription}`,
          rules.maySubscribe(subscription),
          oracle.maySubscribe(subscription, name, id),
        );
      }
    }
  }
  assert.ok(granted > asked / 50 && granted < asked / 2, `${granted} of ${asked} were granted`);
});
