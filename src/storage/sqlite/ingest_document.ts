import { encodeBase64 } from "./base64.ts";

/** JSON nested deeper is kept as text: what SQLite takes differs from version to version (N7). */
const DEEPEST = 256;

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * What a payload is in an ingest table (07 section 11.2). An object keeps its text as it came; whatever
 * else is a member of one. Every payload becomes a document that `json_valid` takes (N8).
 *
 * @param isValid SQLite's opinion of a JSON text
 */
export function documentOf(payload: Uint8Array, isValid: (json: string) => boolean): string {
  let text: string;
  try {
    text = DECODER.decode(payload);
  } catch {
    return `{"payload_b64":"${encodeBase64(payload)}"}`;
  }
  const json = text.startsWith("\u{feff}") ? text.slice(1) : text;
  if (!isJson(json) || !isValid(json)) return JSON.stringify({ payload: text });
  return /^[ \t\n\r]*\{/.test(json) ? json : `{"payload":${json}}`;
}

function isJson(text: string): boolean {
  if (!isShallow(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether brackets outside of strings nest no deeper than `DEEPEST`; decided before anybody parses. */
function isShallow(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (inString) {
      if (char === "\\") i++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === "{" || char === "[") {
      if (++depth > DEEPEST) return false;
    } else if (char === "}" || char === "]") depth--;
  }
  return true;
}
