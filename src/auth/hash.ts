/**
 * One hash of a password file, in mosquitto's notation (02b section 6):
 *
 *     $6$<salt>$<digest>               SHA-512 of the password followed by the salt, once
 *     $7$<iterations>$<salt>$<digest>  PBKDF2 with HMAC-SHA-512
 *
 * Salt and digest are base64. No message of this file holds any part of a hash.
 */
import { Buffer } from "node:buffer";
import { pbkdf2, timingSafeEqual } from "node:crypto";

export interface PasswordHash {
  readonly form: "sha512" | "pbkdf2";
  /** 1 for `sha512`. */
  readonly iterations: number;
  readonly salt: Uint8Array<ArrayBuffer>;
  readonly digest: Uint8Array<ArrayBuffer>;
}

const DIGEST_BYTES = 64;

/** mosquitto wrote 12 bytes of salt up to version 2.0, and 64 since. */
const SALT_BYTES: readonly number[] = [12, 64];

/** Of new hashes: 12 is what every version of mosquitto reads. */
const NEW_SALT_BYTES = 12;

/** Of new hashes. They are paid for at every CONNECT. */
export const NEW_ITERATIONS = 1_000;

/** About three seconds of work; a check beyond that would outlast every client's patience. */
export const MOST_ITERATIONS = 10_000_000;

const SET_AGAIN = "set the password again with saguin --passwd add";

/** Reads the second field of a line. The fault is the end of a sentence: what is wrong; what to do. */
export function readHash(text: string): PasswordHash | { readonly fault: string } {
  if (text.startsWith("$argon2")) {
    return { fault: `has an argon2id hash, which is not read here; ${SET_AGAIN}` };
  }
  const parts = text.split("$");
  const [before, kind] = parts;
  if (before !== "" || parts.length < 3) {
    return { fault: `has no hash where one belongs; ${SET_AGAIN}` };
  }
  if (kind === "6" && parts.length === 4) return build("sha512", 1, parts[2], parts[3]);
  if (kind === "7" && parts.length === 5) {
    const iterations = /^[1-9]\d{0,7}$/.test(parts[2]) ? Number(parts[2]) : Infinity;
    if (iterations > MOST_ITERATIONS) {
      return {
        fault: `has a hash whose iterations are not a whole number from 1 to ${MOST_ITERATIONS}; ` +
          SET_AGAIN,
      };
    }
    return build("pbkdf2", iterations, parts[3], parts[4]);
  }
  if (kind === "6" || kind === "7") {
    return { fault: `has a $${kind}$ hash that is cut or has parts too many; ${SET_AGAIN}` };
  }
  return { fault: `has a hash of a kind that is not read here, only $6$ and $7$; ${SET_AGAIN}` };
}

function build(
  form: PasswordHash["form"],
  iterations: number,
  saltText: string,
  digestText: string,
): PasswordHash | { readonly fault: string } {
  const salt = base64(saltText);
  const digest = base64(digestText);
  if (salt === undefined || !SALT_BYTES.includes(salt.length)) {
    return { fault: `has a hash whose salt is not 12 or 64 bytes in base64; ${SET_AGAIN}` };
  }
  if (digest?.length !== DIGEST_BYTES) {
    return { fault: `has a hash that is not 64 bytes in base64; ${SET_AGAIN}` };
  }
  return { form, iterations, salt, digest };
}

/** Undefined for anything that the encoder would not have written. */
function base64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? Uint8Array.from(bytes) : undefined;
}

/** The notation of a hash, as `readHash` takes it. */
export function writeHash({ form, iterations, salt, digest }: PasswordHash): string {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
  const rounds = form === "sha512" ? "6" : `7$${iterations}`;
  return `$${rounds}$${text(salt)}$${text(digest)}`;
}

/** A `$7$` hash of a password under a salt of its own, made off the event loop. */
export async function hashPassword(
  password: Uint8Array,
  iterations = NEW_ITERATIONS,
): Promise<PasswordHash> {
  const salt = crypto.getRandomValues(new Uint8Array(NEW_SALT_BYTES));
  return { form: "pbkdf2", iterations, salt, digest: await stretch(password, salt, iterations) };
}

/** Whether `hash` was made from `password`: hashed off the event loop, compared in constant time. */
export async function isPassword(hash: PasswordHash, password: Uint8Array): Promise<boolean> {
  const digest = hash.form === "sha512"
    ? await once(password, hash.salt)
    : await stretch(password, hash.salt, hash.iterations);
  return timingSafeEqual(digest, hash.digest);
}

async function once(password: Uint8Array, salt: Uint8Array): Promise<Uint8Array> {
  const salted = new Uint8Array(password.length + salt.length);
  salted.set(password);
  salted.set(salt, password.length);
  const digest = await crypto.subtle.digest("SHA-512", salted);
  salted.fill(0);
  return new Uint8Array(digest);
}

function stretch(
  password: Uint8Array,
  salt: Uint8Array,
  iterations: number,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    pbkdf2(password, salt, iterations, DIGEST_BYTES, "sha512", (error, digest) => {
      if (error === null) resolve(Uint8Array.from(digest));
      else reject(error);
    });
  });
}
