/** Who a client is, decided once, at its CONNECT (02b sections 5 and 6). */
import type { PasswordChecker } from "./password_checker.ts";
import type { PasswordFile } from "./password_file.ts";
import { hasControlCharacter } from "./password_lines.ts";

/** What is in force at one door. */
export interface DoorAccess {
  /** Undefined: there is nothing to check a password against. */
  readonly passwords: PasswordFile | undefined;
  readonly allowAnonymous: boolean;
}

/** What a connection says and shows of itself. */
export interface Claimed {
  /** A name proved before the CONNECT: of a verified certificate, or vouched for by the proxy. */
  readonly proved: string | undefined;
  /** The CONNECT's User Name. */
  readonly user: string | undefined;
  /** The CONNECT's Password; may be a view of a read buffer. */
  readonly password: Uint8Array | undefined;
}

/**
 * The identity, empty for an anonymous client whatever name it typed; or why it is refused: `bad
 * credentials` is `0x86`, `server busy` is `0x89`, and `gone` needs no answer. `cause` is for the log and
 * tells apart what the client must not be able to.
 */
export type Identification =
  | { readonly user: string }
  | { readonly refused: "bad credentials" | "server busy" | "gone"; readonly cause: string };

/** Decides who a client is. A proved name stands above the password file, which is not even asked. */
export async function identify(
  { proved, user, password }: Claimed,
  door: DoorAccess,
  checker: PasswordChecker,
  gone?: () => boolean,
): Promise<Identification> {
  const name = proved ?? user;
  if (name !== undefined && hasControlCharacter(name)) {
    return badCredentials("the name holds a control character");
  }
  if (proved !== undefined) return { user: proved };
  const { passwords, allowAnonymous } = door;
  if (user === undefined) {
    return allowAnonymous ? ANONYMOUS : badCredentials("no user name was offered");
  }
  if (passwords === undefined) {
    return allowAnonymous
      ? ANONYMOUS
      : badCredentials("this door takes certificates, not passwords");
  }
  if (password === undefined) return badCredentials("no password was offered");
  switch (await checker.check(passwords, user, password, gone)) {
    case "right":
      return { user };
    case "wrong":
      return badCredentials("the password is wrong");
    case "unknown":
      return badCredentials("no such user");
    case "busy":
      return { refused: "server busy", cause: "too many passwords wait to be checked" };
    case "gone":
      return { refused: "gone", cause: "the client left before its password was checked" };
  }
}

const ANONYMOUS: Identification = { user: "" };

function badCredentials(cause: string): Identification {
  return { refused: "bad credentials", cause };
}
