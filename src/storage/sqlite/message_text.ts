import { decodeBase64, encodeBase64 } from "./base64.ts";
import type { Headers, PublishProperties } from "../record.ts";
import { NO_HEADERS, NO_PROPERTIES } from "../record.ts";

/**
 * User Properties as an operator reads them: a JSON array of `[name, value]`, publisher order, repeats
 * kept; empty for none, which becomes NULL (S94).
 */
export function headersText(headers: Headers): string {
  return headers.length === 0 ? "" : JSON.stringify(headers);
}

export function parseHeaders(text: string): Headers {
  return text === "" ? NO_HEADERS : JSON.parse(text);
}

/** One JSON object of the publish properties, correlation data in base64; empty for none (S95). */
export function propertiesText(properties: PublishProperties): string {
  if (properties === NO_PROPERTIES) return "";
  const { correlationData, ...plain } = properties;
  if (correlationData !== undefined) {
    return JSON.stringify({ ...plain, correlationData: encodeBase64(correlationData) });
  }
  const text = JSON.stringify(plain);
  return text === "{}" ? "" : text;
}

export function parseProperties(text: string): PublishProperties {
  if (text === "") return NO_PROPERTIES;
  const parsed = JSON.parse(text);
  if (parsed.correlationData === undefined) return parsed;
  return { ...parsed, correlationData: decodeBase64(parsed.correlationData) };
}
