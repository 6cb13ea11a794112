/** `GET /`: one page with everything in it. It shows what the routes say, and asks nobody else. */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { HttpResponse } from "../http/message.ts";
import html from "./index.html" with { type: "text" };
import lists from "./lists.js" with { type: "text" };
import sections from "./sections.js" with { type: "text" };
import figures from "./figures.js" with { type: "text" };
import table from "./table.js" with { type: "text" };
import screen from "./style.css" with { type: "text" };
import phone from "./phone.css" with { type: "text" };

/** The modules as one script: each uses what those before it export. */
const script = [figures, table, sections, lists].map(withoutModule).join("\n");

const style = `${screen}\n${phone}`;

function withoutModule(text: string): string {
  return text.replace(/^import [^;]*;\n/gm, "").replace(/^export /gm, "");
}

/** Made once; the page holds no figure of its own. */
export function pageResponse(): HttpResponse {
  // Replaced by a function: a text may hold what `replace` would read as a pattern.
  const text = html.replace("<style></style>", () => `<style>${style}</style>`)
    .replace('<script type="module"></script>', () => `<script type="module">${script}</script>`);
  const body = new TextEncoder().encode(text);
  return {
    status: 200,
    contentType: "text/html; charset=utf-8",
    body,
    gzipped: gzipSync(body),
    headers: [
      [
        "Content-Security-Policy",
        [
          "default-src 'none'",
          `script-src 'sha256-${digest(script)}'`,
          `style-src 'sha256-${digest(style)}'`,
          "connect-src 'self'",
          "img-src data:",
          "base-uri 'none'",
          "form-action 'none'",
          "frame-ancestors 'none'",
        ].join("; "),
      ],
      ["Referrer-Policy", "no-referrer"],
    ],
  };
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
