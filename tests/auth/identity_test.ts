import assert from "node:assert/strict";
import {
  type Claimed,
  type DoorAccess,
  type Identification,
  identify,
} from "../../src/auth/identity.ts";
import { PasswordChecker } from "../../src/auth/password_checker.ts";
import { readPasswordFile } from "../../src/auth/password_file.ts";
import { Findings } from "../../src/config/finding.ts";
import { cheapHash, utf8 } from "./support.ts";

const passwords = readPasswordFile(
  utf8(`alice:${cheapHash("pw")}\n`),
  "clients.passwd",
  "clients",
  new Findings(),
);

const CLOSED: DoorAccess = { passwords, allowAnonymous: false };
const MIXED: DoorAccess = { passwords, allowAnonymous: true };
const OPEN: DoorAccess = { passwords: undefined, allowAnonymous: true };
const CERTIFICATES: DoorAccess = { passwords: undefined, allowAnonymous: false };

function claimed(claim: { proved?: string; user?: string; password?: string }): Claimed {
  const { proved, user, password } = claim;
  return { proved, user, password: password === undefined ? undefined : utf8(password) };
}

const bad = (cause: string): Identification => ({ refused: "bad credentials", cause });

type Case = readonly [
  rule: string,
  claim: Parameters<typeof claimed>[0],
  outcomes: Readonly<Partial<Record<"closed" | "mixed" | "open" | "certificates", Identification>>>,
];

const CASES: readonly Case[] = [
  ["the right password makes the name an identity where it is checked, nowhere else", {
    user: "alice",
    password: "pw",
  }, {
    closed: { user: "alice" },
    mixed: { user: "alice" },
    open: { user: "" },
    certificates: bad("this door takes certificates, not passwords"),
  }],
  ["a wrong password is refused, also where nameless clients come in", {
    user: "alice",
    password: "wp",
  }, {
    closed: bad("the password is wrong"),
    mixed: bad("the password is wrong"),
    open: { user: "" },
  }],
  ["an unknown user is refused likewise", { user: "bob", password: "pw" }, {
    closed: bad("no such user"),
    mixed: bad("no such user"),
    open: { user: "" },
  }],
  ["a name without a password is refused", { user: "alice" }, {
    closed: bad("no password was offered"),
    mixed: bad("no password was offered"),
    open: { user: "" },
  }],
  ["no name at all", {}, {
    closed: bad("no user name was offered"),
    mixed: { user: "" },
    open: { user: "" },
    certificates: bad("no user name was offered"),
  }],
  ["a password without a name is no name", { password: "pw" }, {
    closed: bad("no user name was offered"),
    mixed: { user: "" },
    open: { user: "" },
  }],
  ["02b 4.4 a proved name stands, whatever the CONNECT says", {
    proved: "cn=1 é",
    user: "alice",
    password: "wrong",
  }, {
    closed: { user: "cn=1 é" },
    mixed: { user: "cn=1 é" },
    open: { user: "cn=1 é" },
    certificates: { user: "cn=1 é" },
  }],
  ["02b 4.4 a proved name with a control character is refused", { proved: "a\x7fb" }, {
    closed: bad("the name holds a control character"),
    mixed: bad("the name holds a control character"),
    open: bad("the name holds a control character"),
  }],
  ["02b 4.4 so is an offered one", { user: "a\x01", password: "pw" }, {
    closed: bad("the name holds a control character"),
    open: bad("the name holds a control character"),
  }],
  ["02b 4.4 and one with NUL", { proved: "\0" }, {
    open: bad("the name holds a control character"),
  }],
  ["an empty offered name is checked like any other", { user: "", password: "pw" }, {
    closed: bad("no such user"),
    mixed: bad("no such user"),
    open: { user: "" },
  }],
];

const DOORS = { closed: CLOSED, mixed: MIXED, open: OPEN, certificates: CERTIFICATES };

for (const [rule, claim, outcomes] of CASES) {
  for (const [door, outcome] of Object.entries(outcomes)) {
    Deno.test(`02b 6 ${rule}: ${door}`, async () => {
      const access = DOORS[door as keyof typeof DOORS];
      assert.deepEqual(await identify(claimed(claim), access, new PasswordChecker()), outcome);
    });
  }
}

Deno.test("02a 10 a full queue of checks is busy, which is no word about the credentials", async () => {
  const checker = new PasswordChecker({ checks: 0 });
  assert.deepEqual(await identify(claimed({ user: "alice", password: "pw" }), CLOSED, checker), {
    refused: "server busy",
    cause: "too many passwords wait to be checked",
  });
});

Deno.test("a client that left is not answered", async () => {
  const claim = claimed({ user: "alice", password: "pw" });
  const outcome = await identify(claim, CLOSED, new PasswordChecker(), () => true);
  assert.equal("refused" in outcome && outcome.refused, "gone");
});

Deno.test("no cause repeats what the client offered", async () => {
  for (const door of Object.values(DOORS)) {
    const claim = claimed({ user: "user-name-of-mine", password: "password-of-mine" });
    const outcome = JSON.stringify(await identify(claim, door, new PasswordChecker()));
    assert.ok(!outcome.includes("of-mine"), outcome);
  }
});
