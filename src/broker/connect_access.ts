import type { AccessControl } from "../auth/acl/access.ts";
import type { ClientRules } from "../auth/acl/client_rules.ts";
import type { Log } from "../platform/log.ts";
import { Reason, type Refusal } from "./reason.ts";
import type { Routes } from "./routes.ts";
import { SessionAccess } from "./session_access.ts";
import type { ConnectRequest } from "./sessions.ts";

/** The same words as for a wrong password: which of the two it was, only the log says. */
export const BAD_CREDENTIALS = {
  code: Reason.BadUserNameOrPassword,
  reason: "the user name and password are not accepted",
} as const satisfies Refusal;

/**
 * What an ACL file makes of a CONNECT whose user is known: refused for its client id (02b 7.4), or with
 * what the client may do, and without a session that is kept where that is denied (02b 8.2).
 */
export function permit(
  request: ConnectRequest,
  control: AccessControl,
  routes: Routes,
  log: Log,
): ConnectRequest | Refusal {
  if (control.acl === undefined) return request;
  const { user, clientId, sentClientId } = request;
  if (!control.admits(user, sentClientId)) {
    return { ...BAD_CREDENTIALS, cause: "the user may not have this client id" };
  }
  const access = new SessionAccess(control, routes, user, clientId);
  sayWithheld(access.rules, request, log);
  if (!access.rules.denies("persistent")) return { ...request, access };
  const cleanStart = request.cleanStart || request.level === 4;
  return { ...request, access, cleanStart, expiry: 0 };
}

function sayWithheld({ withheld }: ClientRules, request: ConnectRequest, log: Log): void {
  for (const { role, rule } of withheld) {
    const { file, line } = rule.place;
    log.warn("a rule grants this client nothing, for a name in it holds +, # or /", {
      client: request.clientId,
      user: request.user,
      role,
      rule: `${file}:${line}`,
    });
  }
}
