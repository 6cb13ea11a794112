/**
 * Reply codes of AMQP 0-9-1 (1.2 of the standard's XML), and where each is raised: an exception ends a
 * channel or the whole connection. Three of the standard's codes are not raised by this broker (311,
 * 313, 402) and are not here.
 */
export const Reply = {
  Success: 200,
  NoRoute: 312,
  ConnectionForced: 320,
  AccessRefused: 403,
  NotFound: 404,
  ResourceLocked: 405,
  PreconditionFailed: 406,
  FrameError: 501,
  SyntaxError: 502,
  CommandInvalid: 503,
  ChannelError: 504,
  UnexpectedFrame: 505,
  ResourceError: 506,
  NotAllowed: 530,
  NotImplemented: 540,
  InternalError: 541,
} as const;

export type ReplyCode = typeof Reply[keyof typeof Reply];

const NAMES: Readonly<Record<ReplyCode, string>> = {
  200: "OK",
  312: "NO_ROUTE",
  320: "CONNECTION_FORCED",
  403: "ACCESS_REFUSED",
  404: "NOT_FOUND",
  405: "RESOURCE_LOCKED",
  406: "PRECONDITION_FAILED",
  501: "FRAME_ERROR",
  502: "SYNTAX_ERROR",
  503: "COMMAND_INVALID",
  504: "CHANNEL_ERROR",
  505: "UNEXPECTED_FRAME",
  506: "RESOURCE_ERROR",
  530: "NOT_ALLOWED",
  540: "NOT_IMPLEMENTED",
  541: "INTERNAL_ERROR",
};

/**
 * What an exception of this code ends where it is raised on an open channel. 540 is a connection error
 * in the standard; on the channel the client's other channels live on (A22).
 */
export function endsChannelOnly(code: ReplyCode): boolean {
  return code >= 403 && code <= 406 || code === Reply.NotImplemented;
}

/** Something asked for and turned away: a value, not an exception. */
export interface Refusal {
  readonly code: ReplyCode;
  /** What is wrong and what would do, without the code's name. */
  readonly detail: string;
}

export function refuse(code: ReplyCode, detail: string): Refusal {
  return { code, detail };
}

/** RabbitMQ's pseudo queue, which a client consumes from before it names it in reply-to. */
export const NO_DIRECT_REPLY = refuse(
  Reply.NotImplemented,
  "direct reply-to is not supported; declare an exclusive queue and reply to that",
);

export function isRefusal(outcome: unknown): outcome is Refusal {
  return typeof outcome === "object" && outcome !== null && "code" in outcome &&
    "detail" in outcome;
}

/** A short string holds no more (A1). */
const LONGEST_TEXT_BYTES = 255;

/** The reply-text of an exception: `NAME - detail`, cut between two characters (A21). */
export function replyText({ code, detail }: Refusal): string {
  return cutToShortString(`${NAMES[code]} - ${detail}`);
}

/** `text` as far as it fits a short string, cut between two characters. */
export function cutToShortString(text: string): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= LONGEST_TEXT_BYTES) return text;
  let end = LONGEST_TEXT_BYTES;
  while ((bytes[end] & 0xc0) === 0x80) end--;
  return new TextDecoder().decode(bytes.subarray(0, end));
}
