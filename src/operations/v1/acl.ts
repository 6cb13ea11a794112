import type { Acl } from "../../auth/acl/acl.ts";
import { EVERYTHING_ALLOWED_BODY, explain, explanationBody } from "../../auth/acl/explain.ts";
import { type HttpResponse, jsonResponse, textResponse } from "../http/message.ts";

/** `acl?user=&client_id=`: what a user may do, and which line of the file says so (05 7.1). */
export function acl(inForce: Acl | undefined, query: URLSearchParams): HttpResponse {
  const user = query.get("user");
  if (user === null) {
    return textResponse(400, "write ?user=<name>, and &client_id=<id> if needed\n");
  }
  if (inForce === undefined) return jsonResponse(200, EVERYTHING_ALLOWED_BODY);
  const clientId = query.get("client_id") ?? undefined;
  return jsonResponse(200, explanationBody(explain(inForce, user, clientId)));
}
