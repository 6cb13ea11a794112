import assert from "node:assert/strict";
import { createHash, pbkdf2Sync } from "node:crypto";
import {
  hashPassword,
  isPassword,
  MOST_ITERATIONS,
  NEW_ITERATIONS,
  type PasswordHash,
  readHash,
  writeHash,
} from "../../src/auth/hash.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);

/** Made by mosquitto_passwd 2.0.11. */
const FROM_MOSQUITTO = [
  {
    password: "s3cret!",
    hash: "$7$101$zNhVLYhTRZYGxfD8$vUNQRh8fXtBYgEgkxACcQICeIEHjmFEJ9dt9ukqYe9mt0KMRQs+0mf0srt+ar4" +
      "S5/Nvbbnj7z+HbSIiJ9wx0ng==",
  },
  {
    password: "pä:ss word",
    hash:
      "$6$ByfGFFBPfRLWC276$BbWIk2kG/Vp0KwbvjENzoRkmRbmQcPSTNxokSrPVxsJOXfcmpvMOAmGtV0aBqkKpBYL" +
      "V8EQqjX/JLjThym9qeg==",
  },
];

function good(text: string): PasswordHash {
  const hash = readHash(text);
  if ("fault" in hash) assert.fail(hash.fault);
  return hash;
}

function fault(text: string): string {
  const hash = readHash(text);
  return "fault" in hash ? hash.fault : "accepted";
}

for (const { password, hash } of FROM_MOSQUITTO) {
  Deno.test(`02b 6 mosquitto's ${hash.slice(0, 3)} hash admits its password and no other`, async () => {
    assert.equal(await isPassword(good(hash), utf8(password)), true);
    for (const other of ["", `${password} `, password.slice(1), password.toUpperCase()]) {
      assert.equal(await isPassword(good(hash), utf8(other)), false, other);
    }
    assert.equal(writeHash(good(hash)), hash);
  });
}

for (const length of [12, 64]) {
  Deno.test(`02b 6 a salt of ${length} bytes is read in both forms`, async () => {
    const salt = crypto.getRandomValues(new Uint8Array(length));
    const text = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));
    const once = createHash("sha512").update("pw").update(salt).digest();
    const stretched = pbkdf2Sync("pw", salt, 7, 64, "sha512");
    for (
      const hash of [
        `$6$${text(salt)}$${text(once)}`,
        `$7$7$${text(salt)}$${text(stretched)}`,
      ]
    ) {
      assert.equal(await isPassword(good(hash), utf8("pw")), true);
      assert.equal(await isPassword(good(hash), utf8("pv")), false);
    }
  });
}

Deno.test("02b 16 a new hash is $7$ with 1000 iterations and a salt of its own", async () => {
  const [one, two] = [await hashPassword(utf8("pw")), await hashPassword(utf8("pw"))];
  assert.match(writeHash(one), /^\$7\$1000\$[A-Za-z0-9+/]{16}\$[A-Za-z0-9+/]{86}==$/);
  assert.equal(NEW_ITERATIONS, 1_000);
  assert.notDeepEqual(one.salt, two.salt);
  assert.equal(await isPassword(good(writeHash(one)), utf8("pw")), true);
  assert.equal(await isPassword(good(writeHash(one)), utf8("pW")), false);
});

Deno.test("a password of no bytes and one that is no UTF-8 are hashed like any other", async () => {
  for (const password of [new Uint8Array(0), Uint8Array.of(0xff, 0, 0xc3)]) {
    const hash = await hashPassword(password);
    assert.equal(await isPassword(hash, password), true);
    assert.equal(await isPassword({ ...hash, form: "sha512" }, password), false);
    assert.equal(await isPassword(hash, utf8("x")), false);
  }
});

const SALT = "zNhVLYhTRZYGxfD8";
const DIGEST =
  "vUNQRh8fXtBYgEgkxACcQICeIEHjmFEJ9dt9ukqYe9mt0KMRQs+0mf0srt+ar4S5/Nvbbnj7z+HbSIiJ9wx0ng==";
const NOT_64 = "has a hash that is not 64 bytes in base64";
const NOT_SALT = "has a hash whose salt is not 12 or 64 bytes in base64";
const NOT_COUNT = `has a hash whose iterations are not a whole number from 1 to ${MOST_ITERATIONS}`;

const REFUSED: readonly (readonly [text: string, says: string])[] = [
  ["", "has no hash where one belongs"],
  ["hunter2hunter2", "has no hash where one belongs"],
  ["x$6$a$b", "has no hash where one belongs"],
  ["$6", "has no hash where one belongs"],
  ["$argon2id$v=19$m=47104,t=1,p=1$c2FsdA$aGFzaA", "has an argon2id hash, which is not read here"],
  ["$2y$10$abcdefgh", "has a hash of a kind that is not read here, only $6$ and $7$"],
  [`$6$${SALT}`, "has a $6$ hash that is cut or has parts too many"],
  [`$6$${SALT}$${DIGEST}$`, "has a $6$ hash that is cut or has parts too many"],
  [`$7$${SALT}$${DIGEST}`, "has a $7$ hash that is cut or has parts too many"],
  [`$7$0$${SALT}$${DIGEST}`, NOT_COUNT],
  [`$7$-1$${SALT}$${DIGEST}`, NOT_COUNT],
  [`$7$1e3$${SALT}$${DIGEST}`, NOT_COUNT],
  [`$7$10000001$${SALT}$${DIGEST}`, NOT_COUNT],
  [`$7$99999999999999999999$${SALT}$${DIGEST}`, NOT_COUNT],
  [`$7$101$${SALT.slice(4)}$${DIGEST}`, NOT_SALT],
  [`$7$101$${SALT}A$${DIGEST}`, NOT_SALT],
  [`$6$$${DIGEST}`, NOT_SALT],
  [`$6$${SALT}$${DIGEST.slice(4)}`, NOT_64],
  [`$6$${SALT}$${DIGEST.replace("==", "")}`, NOT_64],
  [`$6$${SALT}$${DIGEST.replace("+", "-")}`, NOT_64],
  [`$6$${SALT}$${DIGEST.replace("vU", "v ")}`, NOT_64],
];

for (const [text, says] of REFUSED) {
  Deno.test(`02b 6 ${JSON.stringify(text).slice(0, 40)} is no hash, and no word of it is repeated`, () => {
    const said = fault(text);
    assert.equal(said, `${says}; set the password again with saguin --passwd add`);
    for (const part of text.split("$")) {
      if (part.length > 3 && part !== "argon2id") assert.ok(!said.includes(part), part);
    }
  });
}

Deno.test("02b 6 a hash just inside the bound on iterations is read", () => {
  assert.equal(good(`$7$${MOST_ITERATIONS}$${SALT}$${DIGEST}`).iterations, MOST_ITERATIONS);
  assert.equal(good(`$7$1$${SALT}$${DIGEST}`).iterations, 1);
});
