import { createHash, pbkdf2Sync } from "node:crypto";
import { writeHash } from "../../src/auth/hash.ts";

/** A hash of `password` made with the least work, by other code than the broker's. */
export function cheapHash(password: string, form: "sha512" | "pbkdf2" = "pbkdf2"): string {
  const salt = new Uint8Array(12).fill(password.length);
  const digest = form === "sha512"
    ? createHash("sha512").update(password).update(salt).digest()
    : pbkdf2Sync(password, salt, 1, 64, "sha512");
  return writeHash({ form, iterations: 1, salt, digest: Uint8Array.from(digest) });
}
