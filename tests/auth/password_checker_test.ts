import assert from "node:assert/strict";
import { hashPassword, writeHash } from "../../src/auth/hash.ts";
import { CHECKS_AT_ONCE, PasswordChecker, type Verdict } from "../../src/auth/password_checker.ts";
import { type PasswordFile, readPasswordFile } from "../../src/auth/password_file.ts";
import { Findings } from "../../src/config/finding.ts";
import { cheapHash, utf8 } from "./support.ts";

function file(lines: string): PasswordFile {
  const findings = new Findings();
  const read = readPasswordFile(utf8(lines), "clients.passwd", "clients", findings);
  assert.ok(findings.empty, findings.report(""));
  return read;
}

const USERS = file(`alice:${cheapHash("pw")}\nbob:${cheapHash("wp", "sha512")}\n`);

/** Hashing that ends when the test says so. */
class Held {
  readonly ends: (() => void)[] = [];
  most = 0;
  readonly offered: string[] = [];

  readonly isRight = async (_hash: unknown, password: Uint8Array): Promise<boolean> => {
    this.offered.push(new TextDecoder().decode(password));
    await new Promise<void>((end) => {
      this.ends.push(end);
      this.most = Math.max(this.most, this.ends.length);
    });
    return true;
  };

  /** Ends the hashings under way one by one until nothing comes after. */
  async finish(): Promise<void> {
    while (this.ends.length > 0) {
      this.ends.shift()!();
      for (let turns = 0; turns < 5; turns++) await Promise.resolve();
    }
  }
}

Deno.test("02b 6 right, wrong and unknown are told apart", async () => {
  const checker = new PasswordChecker();
  const verdicts: [string, string, Verdict][] = [
    ["alice", "pw", "right"],
    ["alice", "wp", "wrong"],
    ["bob", "wp", "right"],
    ["bob", "", "wrong"],
    ["carol", "pw", "unknown"],
    ["", "", "unknown"],
    ["__proto__", "pw", "unknown"],
  ];
  for (const [user, password, verdict] of verdicts) {
    assert.equal(await checker.check(USERS, user, utf8(password)), verdict, `${user} ${password}`);
  }
  assert.equal(checker.outstanding, 0);
});

Deno.test("an unknown user costs the hash that a known one costs, also in an empty file", async () => {
  const hashed: unknown[] = [];
  const checker = new PasswordChecker({}, (hash) => {
    hashed.push([hash.form, hash.iterations, hash.salt.length]);
    return Promise.resolve(false);
  });
  await checker.check(USERS, "alice", utf8("x"));
  await checker.check(USERS, "nobody", utf8("x"));
  await checker.check(file(""), "nobody", utf8("x"));
  assert.deepEqual(hashed, [["pbkdf2", 1, 12], ["pbkdf2", 1, 12], ["pbkdf2", 1_000, 12]]);
});

Deno.test("two hashings at a time, in the order of the offers, whatever comes at once", async () => {
  const held = new Held();
  const checker = new PasswordChecker({}, held.isRight);
  const offers = Array.from({ length: 50 }, (_, i) => `pw${i}`);
  const checks = offers.map((password) => checker.check(USERS, "alice", utf8(password)));
  assert.equal(checker.outstanding, 50);
  await held.finish();
  assert.deepEqual(await Promise.all(checks), offers.map(() => "right"));
  assert.deepEqual(held.offered, offers);
  assert.equal(held.most, CHECKS_AT_ONCE);
  assert.equal(checker.outstanding, 0);
});

Deno.test("a check beyond the bound on checks is answered busy, and the next after one ends is not", async () => {
  const held = new Held();
  const checker = new PasswordChecker({ checks: 3 }, held.isRight);
  const offer = () => checker.check(USERS, "alice", utf8("pw"));
  const taken = [offer(), offer(), offer(), offer(), offer()];
  assert.equal(await offer(), "busy");
  held.ends.shift()!();
  assert.equal(await taken[0], "right");
  taken.push(offer());
  assert.equal(await offer(), "busy");
  await held.finish();
  assert.deepEqual(await Promise.all(taken), taken.map(() => "right"));
});

Deno.test("waiting passwords are bounded in bytes, and copied", async () => {
  const held = new Held();
  const checker = new PasswordChecker({ bytes: 10 }, held.isRight);
  const buffer = utf8("12345");
  const checks = [1, 2, 3, 4].map(() => checker.check(USERS, "alice", buffer));
  buffer.fill(0);
  assert.equal(await checker.check(USERS, "alice", utf8("1")), "busy");
  await held.finish();
  assert.deepEqual(await Promise.all(checks), checks.map(() => "right"));
  assert.deepEqual(held.offered, ["12345", "12345", "12345", "12345"]);
});

Deno.test("a client that left while it waited costs no hash", async () => {
  const held = new Held();
  const checker = new PasswordChecker({}, held.isRight);
  let gone = false;
  const checks = [1, 2, 3, 4].map((i) =>
    checker.check(USERS, "alice", utf8(`pw${i}`), () => gone && i === 3)
  );
  gone = true;
  await held.finish();
  assert.deepEqual(await Promise.all(checks), ["right", "right", "gone", "right"]);
  assert.deepEqual(held.offered, ["pw1", "pw2", "pw4"]);
});

Deno.test("a hashing that fails costs its own client and no place", async () => {
  let calls = 0;
  const checker = new PasswordChecker({}, () => {
    calls++;
    return calls <= 2 ? Promise.reject(new Error("no memory")) : Promise.resolve(true);
  });
  const checks = [1, 2, 3].map(() => checker.check(USERS, "alice", utf8("pw")));
  await assert.rejects(checks[0], /no memory/);
  await assert.rejects(checks[1], /no memory/);
  assert.equal(await checks[2], "right");
  assert.equal(checker.outstanding, 0);
});

Deno.test("a storm of 2000 logins does not keep the loop from turning", async () => {
  const hash = writeHash(await hashPassword(utf8("pw")));
  const users = file(`alice:${hash}\n`);
  const checker = new PasswordChecker();
  const gaps: number[] = [];
  let last = performance.now();
  const ticks = setInterval(() => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }, 1);
  const began = performance.now();
  const verdicts = await Promise.all(
    Array.from(
      { length: 2_000 },
      (_, i) => checker.check(users, "alice", utf8(i % 2 ? "pw" : "no")),
    ),
  );
  const took = performance.now() - began;
  clearInterval(ticks);
  assert.equal(verdicts.filter((verdict) => verdict === "right").length, 1_000);
  assert.equal(verdicts.filter((verdict) => verdict === "wrong").length, 1_000);
  gaps.sort((a, b) => a - b);
  const median = gaps[gaps.length >> 1];
  const p99 = gaps[Math.floor(gaps.length * 0.99)];
  console.log(
    `2000 checks in ${took.toFixed(0)} ms, gaps of the loop: median ${median.toFixed(2)} ms, ` +
      `p99 ${p99.toFixed(2)} ms, longest ${gaps.at(-1)!.toFixed(2)} ms`,
  );
  // Hashed on the loop, or all handed over at once, the gap would be the storm itself.
  assert.ok(gaps.length > took / 20, `only ${gaps.length} turns in ${took} ms`);
  assert.ok(gaps.at(-1)! < took / 2, `one turn took ${gaps.at(-1)} of ${took} ms`);
});
