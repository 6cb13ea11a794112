/** Who may read what on the operations listener (05 section 4). */
import { Buffer } from "node:buffer";
import type { PasswordChecker } from "../auth/password_checker.ts";
import type { PasswordFile } from "../auth/password_file.ts";
import { hasControlCharacter } from "../auth/password_lines.ts";
import { scopeCovers } from "../auth/scopes.ts";
import { type RequestHead, single } from "../doors/request_head.ts";

/** What the connection that a request came in by says of its peer, whatever the request says. */
export interface Peer {
  readonly kind: "tcp" | "unix";
  /**
   * A verified certificate, the peer's own or one that a proxy verified: its name, or undefined for one
   * that names nobody. The whole is undefined where there was none.
   */
  readonly certificate: { readonly name: string | undefined } | undefined;
}

/** Served, or an answer; `why` is for the log and holds nothing of a credential. */
export type Decision =
  | { readonly served: true }
  | {
    readonly served: false;
    readonly status: 400 | 401 | 403;
    readonly text: string;
    readonly why: string;
    /** Undefined where nobody is named, or by a name that no log line is to hold. */
    readonly user: string | undefined;
  };

const SERVED: Decision = { served: true };

/** The route that somebody without an entry in the file may read (05 section 4.3). */
const OPEN_TO_NAMED = "/metrics";

/** The page holds no figure by itself: it asks the routes, each with its own scope. */
const OPEN_TO_OPERATORS = "/";

/**
 * The order of 05 section 4.3 from its third step on; `/health` never comes here.
 *
 * @param operators the file in force at the door; undefined where it has none
 */
export async function decide(
  head: RequestHead,
  path: string,
  peer: Peer,
  operators: PasswordFile | undefined,
  checker: PasswordChecker,
): Promise<Decision> {
  if (operators !== undefined && head.fields.has("authorization")) {
    return await byPassword(head, path, operators, checker);
  }
  const principals = head.fields.get("x-saguin-principal") ?? [];
  if (peer.kind === "unix" && principals.length > 1) {
    return refused(400, "X-Saguin-Principal stands there more than once", undefined);
  }
  const principal = peer.kind === "unix" ? principals[0] : undefined;
  const name = peer.certificate?.name ?? fieldText(principal);
  if (name === NOT_TEXT) return refused(400, "X-Saguin-Principal is not UTF-8", undefined);
  if (name !== undefined && hasControlCharacter(name)) {
    return refused(403, "the name holds a control character", undefined);
  }
  if (name !== undefined && name !== "") return byName(name, path, operators);
  if (peer.certificate !== undefined) {
    return path === OPEN_TO_NAMED
      ? SERVED
      : refused(403, "the certificate names nobody, who may read /metrics only", undefined);
  }
  if (operators !== undefined) return refused(401, "this door asks for a password", undefined);
  return peer.kind === "tcp" ? byHost(head) : SERVED;
}

async function byPassword(
  head: RequestHead,
  path: string,
  operators: PasswordFile,
  checker: PasswordChecker,
): Promise<Decision> {
  const basic = readBasic(single(head, "authorization"));
  if (basic === undefined) return refused(401, "the credential is not HTTP Basic", undefined);
  const { user, password } = basic;
  if (hasControlCharacter(user)) {
    return refused(403, "the name holds a control character", undefined);
  }
  const verdict = await checker.check(operators, user, password);
  if (verdict !== "right") {
    // To whoever asked, both are the same; a name that nobody has may be a password in the wrong field.
    const known = verdict === "wrong" ? user : undefined;
    return refused(401, "the user name or the password is wrong", known, `password ${verdict}`);
  }
  return byName(user, path, operators);
}

function byName(name: string, path: string, operators: PasswordFile | undefined): Decision {
  const entry = operators?.credentials.get(name);
  if (entry === undefined) {
    return path === OPEN_TO_NAMED
      ? SERVED
      : refused(403, "the name has no entry in the password file of this door", name);
  }
  const { scopes } = entry;
  if (scopes === undefined || path === OPEN_TO_OPERATORS) return SERVED;
  if (scopes.some((scope) => scopeCovers(scope, path))) return SERVED;
  return refused(403, "the scopes of this name do not reach this route", name);
}

/** A page of another site that had this name resolved to this machine is not to read (05 section 4.4). */
function byHost(head: RequestHead): Decision {
  const host = single(head, "host") ?? "";
  const name = host.replace(/:\d*$/, "").toLowerCase();
  const literal = name === "localhost" || /^\[[0-9a-f:.]+\]$/.test(name) || isIPv4(name);
  // HTTP/1.0 knows no Host, and no browser speaks it.
  if (literal || (host === "" && head.version === "1.0")) return SERVED;
  return refused(
    403,
    "this door asks nobody for a password and answers to an address or localhost only; to reach it " +
      "by name, set broker.operations.password_file",
    undefined,
    "the Host is a name",
  );
}

function isIPv4(text: string): boolean {
  return /^\d{1,3}(?:\.\d{1,3}){3}$/.test(text) && text.split(".").every((part) => +part < 256);
}

/** The realm is fixed: a browser keeps a password under it. */
export const CHALLENGE = ["WWW-Authenticate", 'Basic realm="saguin"'] as const;

function refused(
  status: 400 | 401 | 403,
  text: string,
  user: string | undefined,
  why = text,
): Decision {
  return { served: false, status, text, why, user };
}

/** RFC 7617; undefined for anything else. The password stays bytes. */
function readBasic(
  field: string | undefined,
): { readonly user: string; readonly password: Uint8Array } | undefined {
  const [, text] = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(field ?? "") ?? [];
  if (text === undefined) return undefined;
  const bytes = Buffer.from(text, "base64");
  const colon = bytes.indexOf(0x3a);
  if (colon < 0) return undefined;
  const user = decode(bytes.subarray(0, colon));
  return user === undefined ? undefined : { user, password: bytes.subarray(colon + 1) };
}

const NOT_TEXT: unique symbol = Symbol("not text");

/** A field's bytes, which the head's reader has as one character each, as the text that they are. */
function fieldText(field: string | undefined): string | undefined | typeof NOT_TEXT {
  return field === undefined ? undefined : decode(Buffer.from(field, "latin1")) ?? NOT_TEXT;
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
