/** HTTP/1.1 on the wire (RFC 9112), as far as a listener that only answers GET and HEAD needs it. */
import { type BadRequest, listed, type RequestHead, single } from "../../doors/request_head.ts";
import type { HttpRequest, HttpResponse } from "./message.ts";

const REASONS: ReadonlyMap<number, string> = new Map([
  [200, "OK"],
  [400, "Bad Request"],
  [401, "Unauthorized"],
  [403, "Forbidden"],
  [404, "Not Found"],
  [405, "Method Not Allowed"],
  [431, "Request Header Fields Too Large"],
  [500, "Internal Server Error"],
  [503, "Service Unavailable"],
  [505, "HTTP Version Not Supported"],
]);

/** Whether the head belongs to a request that can be answered; HTTP/1.0 needs no Host. */
export function readRequest(head: RequestHead): HttpRequest | BadRequest {
  if (head.version !== "1.1" && head.version !== "1.0") {
    return { status: 505, reason: "this listener speaks HTTP/1.1" };
  }
  const hosts = head.fields.get("host")?.length ?? 0;
  if (hosts > 1 || (hosts === 0 && head.version === "1.1")) {
    return { status: 400, reason: "a request has exactly one Host" };
  }
  const target = originForm(head.target);
  if (target === undefined) return { status: 400, reason: "the request target is not a path" };
  const mark = target.indexOf("?");
  return {
    method: head.method,
    path: mark < 0 ? target : target.slice(0, mark),
    query: new URLSearchParams(mark < 0 ? "" : target.slice(mark + 1)),
    head,
  };
}

/** The path and query, also of a target with scheme and authority, which a server has to accept. */
function originForm(target: string): string | undefined {
  if (target.startsWith("/")) return target;
  const absolute = /^https?:\/\/[^/?#]+(.*)$/i.exec(target);
  if (absolute === null) return undefined;
  const [, rest] = absolute;
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** What follows the head belongs to this request, and is not read. */
export function hasBody(head: RequestHead): boolean {
  if (head.fields.has("transfer-encoding")) return true;
  return head.fields.has("content-length") && single(head, "content-length") !== "0";
}

/** Whether another request may follow on the connection. */
export function staysOpen(head: RequestHead): boolean {
  const options = listed(head, "connection");
  if (hasBody(head) || options.includes("close")) return false;
  return head.version === "1.1" || options.includes("keep-alive");
}

/** Whether the client takes gzip (RFC 9110 section 12.5.3): named, or by `*`, and not at weight 0. */
export function acceptsGzip(head: RequestHead): boolean {
  let byWildcard = false;
  for (const element of listed(head, "accept-encoding")) {
    const [coding, ...parameters] = element.split(";").map((part) => part.trim());
    const refused = parameters.some((parameter) => /^q=0(?:\.0{0,3})?$/.test(parameter));
    if (coding === "gzip" || coding === "x-gzip") return !refused;
    if (coding === "*") byWildcard = !refused;
  }
  return byWildcard;
}

/** The bytes of an answer. `request` is undefined when there was none that could be read. */
export function encodeResponse(
  response: HttpResponse,
  request: RequestHead | undefined,
  open: boolean,
  now: Date,
): Uint8Array {
  const zip = response.gzipped !== undefined && request !== undefined && acceptsGzip(request);
  const body = zip ? response.gzipped! : response.body;
  let head = `HTTP/1.1 ${response.status} ${REASONS.get(response.status) ?? ""}\r\n` +
    `Date: ${now.toUTCString()}\r\n` +
    `Content-Type: ${response.contentType}\r\n` +
    `Content-Length: ${body.length}\r\n` +
    "Cache-Control: no-store\r\n" +
    "X-Content-Type-Options: nosniff\r\n";
  if (response.gzipped !== undefined) head += "Vary: Accept-Encoding\r\n";
  if (zip) head += "Content-Encoding: gzip\r\n";
  for (const [name, value] of response.headers ?? []) head += `${name}: ${value}\r\n`;
  if (!open) head += "Connection: close\r\n";
  else if (request?.version === "1.0") head += "Connection: keep-alive\r\n";
  head += "\r\n";
  const bare = request?.method === "HEAD";
  const bytes = new Uint8Array(head.length + (bare ? 0 : body.length));
  new TextEncoder().encodeInto(head, bytes);
  if (!bare) bytes.set(body, head.length);
  return bytes;
}
