import { createHash } from "node:crypto";
import type { ByteLink } from "../../doors/byte_link.ts";
import { originAllowed, type OriginRules } from "./origin.ts";
import {
  type BadRequest,
  headEnd,
  listed,
  parseRequestHead,
  type RequestHead,
  single,
} from "../../doors/request_head.ts";

/** The longest request head that is read; browsers send 1 KiB, with cookies a few. */
export const LONGEST_HEAD_BYTES = 16 * 1024;
const FIRST_HEAD_BYTES = 1_024;

/** The sub-protocol that MQTT clients offer (MQTT 5 section 6). */
const SUB_PROTOCOL = "mqtt";
/** RFC 6455 section 1.3 */
const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const REASONS: ReadonlyMap<number, string> = new Map([
  [400, "Bad Request"],
  [403, "Forbidden"],
  [405, "Method Not Allowed"],
  [426, "Upgrade Required"],
  [431, "Request Header Fields Too Large"],
  [505, "HTTP Version Not Supported"],
]);

export type Upgrade =
  /** `response` opens the WebSocket; `rest` is what followed the head. */
  | { readonly response: Uint8Array; readonly rest: Uint8Array }
  | Refused;

/** `refusal` is the only answer; `reason` is the end of a sentence, `origin` that of a refused page. */
interface Refused {
  readonly refusal: Uint8Array;
  /** HTTP's. */
  readonly status: number;
  readonly reason: string;
  readonly origin: string | undefined;
}

/**
 * Reads one request and decides about it; writes nothing. Undefined when the stream ended first.
 */
export async function readUpgrade(
  link: ByteLink,
  secure: boolean,
  rules: () => OriginRules,
): Promise<Upgrade | undefined> {
  let bytes = new Uint8Array(FIRST_HEAD_BYTES);
  for (let have = 0;;) {
    if (have === bytes.length) {
      if (have >= LONGEST_HEAD_BYTES) {
        return refused({ status: 431, reason: `the head is over ${LONGEST_HEAD_BYTES} bytes` });
      }
      const grown = new Uint8Array(have * 4);
      grown.set(bytes);
      bytes = grown;
    }
    const count = await link.read(bytes.subarray(have));
    if (count === null) return undefined;
    const end = headEnd(bytes.subarray(0, have + count), have);
    have += count;
    if (end < 0) continue;
    const head = parseRequestHead(bytes.subarray(0, end));
    if ("status" in head) return refused(head);
    return judge(head, bytes.slice(end, have), secure, rules());
  }
}

/** RFC 6455 section 4.2.1, then the origin, then the sub-protocol. */
function judge(
  head: RequestHead,
  rest: Uint8Array,
  secure: boolean,
  rules: OriginRules,
): Upgrade {
  if (head.version !== "1.1") return refused({ status: 505, reason: "this door speaks HTTP/1.1" });
  const host = single(head, "host");
  if (host === undefined || !isHost(host)) {
    return refused({ status: 400, reason: "the request has no valid Host" });
  }
  if (head.fields.has("transfer-encoding") || !hasNoBody(head)) {
    return refused({ status: 400, reason: "the request has a body" });
  }
  if (head.method !== "GET") return refused({ status: 405, reason: "the method is not GET" });
  if (!listed(head, "upgrade").includes("websocket") || !isUpgrade(head)) {
    return refused({ status: 426, reason: "the request asks for no WebSocket" });
  }
  if (single(head, "sec-websocket-version") !== "13") {
    return refused({ status: 426, reason: "the WebSocket version is not 13" });
  }
  const key = single(head, "sec-websocket-key");
  if (key === undefined || !/^[+/0-9A-Za-z]{22}==$/.test(key)) {
    return refused({ status: 400, reason: "the Sec-WebSocket-Key is malformed" });
  }
  const origins = head.fields.get("origin");
  const origin = origins === undefined ? undefined : origins.length === 1 ? origins[0] : null;
  if (!originAllowed(origin, host, secure, rules)) {
    const reason =
      "pages of this origin may not connect; same_origin and allowed_origins of the door say which may";
    return { ...refused({ status: 403, reason }), origin: origins!.join(", ") };
  }
  // Names of sub-protocols are case-sensitive; `listed` is not.
  const offered = (head.fields.get("sec-websocket-protocol") ?? []).flatMap((value) =>
    value.split(",").map((name) => name.trim())
  );
  if (!offered.includes(SUB_PROTOCOL)) {
    return refused({ status: 400, reason: 'the client does not offer the sub-protocol "mqtt"' });
  }
  const accept = createHash("sha1").update(key + ACCEPT_SUFFIX).digest("base64");
  const response = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" +
    `Connection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n` +
    `Sec-WebSocket-Protocol: ${SUB_PROTOCOL}\r\n\r\n`;
  return { response: encode(response), rest };
}

function hasNoBody(head: RequestHead): boolean {
  return !head.fields.has("content-length") || single(head, "content-length") === "0";
}

function isUpgrade(head: RequestHead): boolean {
  return listed(head, "connection").includes("upgrade");
}

/** `name[:port]`, and nothing that would make it more than an authority. */
function isHost(host: string): boolean {
  return /^(?:\[[0-9A-Fa-f:.]+\]|[^\s/?#@:[\]\\]+)(?::\d{0,5})?$/.test(host) &&
    URL.canParse(`http://${host}`);
}

function refused({ status, reason }: BadRequest): Refused {
  const body = `${reason}\n`;
  const extra = status === 405
    ? "Allow: GET\r\n"
    : status === 426
    ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    : "";
  const refusal = `HTTP/1.1 ${status} ${REASONS.get(status)}\r\n${extra}Connection: ` +
    `${status === 426 ? "Upgrade, close" : "close"}\r\n` +
    `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  return { refusal: encode(refusal), status, reason, origin: undefined };
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
