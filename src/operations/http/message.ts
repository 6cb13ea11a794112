import type { RequestHead } from "../../doors/request_head.ts";

/** A request of the operations listener: a head, since no route takes a body. */
export interface HttpRequest {
  readonly method: string;
  /** As sent, percent-encoding included, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly head: RequestHead;
}

/** An answer; what every answer carries (`Date`, `Content-Length`, ...) is added on the wire. */
export interface HttpResponse {
  readonly status: number;
  readonly contentType: string;
  readonly body: Uint8Array;
  /** The same body compressed, for a client that asks for it. */
  readonly gzipped?: Uint8Array;
  readonly headers?: readonly (readonly [name: string, value: string])[];
}

const encoder = new TextEncoder();

export function textResponse(
  status: number,
  text: string,
  headers?: HttpResponse["headers"],
): HttpResponse {
  return {
    status,
    contentType: "text/plain; charset=utf-8",
    body: encoder.encode(text),
    ...headers === undefined ? {} : { headers },
  };
}

export function jsonResponse(status: number, value: unknown): HttpResponse {
  return {
    status,
    contentType: "application/json",
    body: encoder.encode(JSON.stringify(value)),
  };
}
