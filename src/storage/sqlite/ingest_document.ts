import { encodeBase64 } from "./base64.ts";

/** JSON nested deeper is kept as text: what SQLite takes differs from version to version (N7). */
const DEEPEST = 256;

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** What a payload is in an ingest table. */
export interface Document {
  readonly doc: string;
  /** Set where `doc` is JSON by the runtime's opinion: if SQLite has another, it is a text like any other. */
  readonly text?: string;
}

/**
 * What a payload is in an ingest table (07 section 11.2). An object keeps its text as it came; whatever
 * else is a member of one. Every payload becomes a document (N8).
 */
export function documentOf(payload: Uint8Array): Document {
  let text: string;
  try {
    text = DECODER.decode(payload);
  } catch {
    return { doc: `{"payload_b64":"${encodeBase64(payload)}"}` };
  }
  const json = text.startsWith("\u{feff}") ? text.slice(1) : text;
  if (!isJson(json)) return { doc: textDocument(text) };
  return { doc: /^[ \t\n\r]*\{/.test(json) ? json : `{"payload":${json}}`, text };
}

export function textDocument(text: string): string {
  return JSON.stringify({ payload: text });
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
  if (text.length <= DEEPEST) return true;
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
