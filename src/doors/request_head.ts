/** The head of an HTTP/1.1 request, read strictly: RFC 9112 without what it tolerates of old software. */

/** A request line and its header fields, names in lower case, values without the space around them. */
export interface RequestHead {
  readonly method: string;
  readonly target: string;
  /** `1.1` */
  readonly version: string;
  readonly fields: ReadonlyMap<string, readonly string[]>;
}

/** Why it is no request: an HTTP status and the end of a sentence. */
export interface BadRequest {
  readonly status: number;
  readonly reason: string;
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP\/(\d\.\d)$/;
// deno-lint-ignore no-control-regex
const FORBIDDEN = /[\x00-\x08\x0a-\x1f\x7f]/;

const CR = 0x0d;
const LF = 0x0a;

/** Where the head ends: behind its empty line; -1 when that is not there yet. Looks from `from` on. */
export function headEnd(bytes: Uint8Array, from: number): number {
  for (let at = Math.max(from, 3); at < bytes.length; at++) {
    if (
      bytes[at] === LF && bytes[at - 1] === CR && bytes[at - 2] === LF && bytes[at - 3] === CR
    ) return at + 1;
  }
  return -1;
}

/** @param head up to and with its empty line */
export function parseRequestHead(head: Uint8Array): RequestHead | BadRequest {
  let text = "";
  for (const byte of head) text += String.fromCharCode(byte);
  const [first, ...lines] = text.slice(0, -4).split("\r\n");
  const line = REQUEST_LINE.exec(first);
  if (line === null) return bad("the request line is not one of HTTP/1.1");
  const [, method, target, version] = line;
  const fields = new Map<string, string[]>();
  for (const field of lines) {
    const colon = field.indexOf(":");
    const name = field.slice(0, Math.max(colon, 0));
    const value = field.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, "");
    if (!TOKEN.test(name) || FORBIDDEN.test(value)) return bad("a header field is malformed");
    const key = name.toLowerCase();
    const values = fields.get(key);
    if (values === undefined) fields.set(key, [value]);
    else values.push(value);
  }
  return { method, target, version, fields };
}

function bad(reason: string): BadRequest {
  return { status: 400, reason };
}

/** The elements of a comma-separated field, over all its lines, in lower case. */
export function listed(head: RequestHead, name: string): string[] {
  return (head.fields.get(name) ?? []).flatMap((value) => value.split(","))
    .map((element) => element.trim().toLowerCase()).filter((element) => element !== "");
}

/** The value of a field that stands there once; undefined otherwise. */
export function single(head: RequestHead, name: string): string | undefined {
  const values = head.fields.get(name);
  return values?.length === 1 ? values[0] : undefined;
}
