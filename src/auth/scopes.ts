/** What an operator may read: the third field of a line in an operations password file (05 section 4.1). */
import { quoted } from "../config/finding.ts";

/** The routes that a scope can be about (05 section 3); `/health` asks nobody who they are. */
export const SCOPED_ROUTES: readonly string[] = [
  "/metrics",
  "/v1/operations/acl",
  "/v1/operations/config",
  "/v1/operations/consumers",
  "/v1/operations/ingest",
  "/v1/operations/overview",
  "/v1/operations/position-lost",
  "/v1/operations/queues",
  "/v1/operations/refused",
  "/v1/operations/sessions",
  "/v1/operations/users",
];

/** Routes with a name in one level more, of a queue or of a table. */
const NAMING: readonly string[] = ["/v1/operations/ingest", "/v1/operations/queues"];

/** Reads the comma list of a third field; the fault is the end of a sentence. */
export function readScopes(text: string): readonly string[] | { readonly fault: string } {
  const scopes = text.split(",");
  for (const scope of scopes) {
    if (scope === "") {
      return {
        fault: "has an empty scope; write routes with commas between, or no field for every route",
      };
    }
    if (!isServed(scope)) {
      return {
        // What is no path may be a password that has come to stand here.
        fault:
          `has ${scope.startsWith("/") ? `the scope ${quoted(scope)}, which` : "a scope that"} ` +
          `names no route; the routes are ${SCOPED_ROUTES.join(", ")}`,
      };
    }
  }
  return scopes;
}

function isServed(scope: string): boolean {
  if (SCOPED_ROUTES.some((route) => scopeCovers(scope, route))) return true;
  return NAMING.some((route) =>
    scope.startsWith(`${route}/`) && /^[A-Za-z0-9_.-]+$/.test(scope.slice(route.length + 1))
  );
}

/**
 * Whether `scope` reaches the path of a request: it is that path, or ends where one of the path's levels
 * does.
 */
export function scopeCovers(scope: string, path: string): boolean {
  return path === scope || (scope !== "" && path.startsWith(scope) && path[scope.length] === "/");
}
