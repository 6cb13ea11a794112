import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { pageResponse } from "../../src/operations/page/page.ts";

const PAGE = pageResponse();
const TEXT = new TextDecoder().decode(PAGE.body);

function inside(tag: string): string {
  const [, text] = new RegExp(`<${tag}[^>]*>([^]*?)</${tag}>`).exec(TEXT) ?? [];
  return text;
}

Deno.test("the page is one answer: style and script stand in it, and it names no other place", () => {
  assert.equal(PAGE.status, 200);
  assert.ok(inside("style").length > 1_000 && inside("script").length > 1_000);
  assert.doesNotMatch(inside("script"), /^(?:import|export) /m);
  const others = TEXT.match(/(?:https?:)?\/\/[a-z][\w.-]+/g) ?? [];
  assert.deepEqual(others.filter((each) => each !== "http://www.w3.org"), []);
  assert.equal(new TextDecoder().decode(gunzipSync(PAGE.gzipped!)), TEXT);
});

Deno.test("the page lets nothing run but its own script, and asks nobody but its own listener", () => {
  const policy = new Map(PAGE.headers!.map(([name, value]) => [name, value]))
    .get("Content-Security-Policy")!;
  for (const tag of ["script", "style"]) {
    const digest = createHash("sha256").update(inside(tag)).digest("base64");
    assert.ok(policy.includes(`${tag}-src 'sha256-${digest}'`), tag);
  }
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /connect-src 'self'/);
  assert.match(policy, /frame-ancestors 'none'/);
});

Deno.test("the page writes text and never markup, and sends nothing but GET", () => {
  assert.doesNotMatch(
    inside("script"),
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/,
  );
  assert.doesNotMatch(inside("script"), /method:|XMLHttpRequest|sendBeacon|WebSocket/);
});

Deno.test("the page asks by its origin, since an address with a password in it can fetch nothing", () => {
  const asked = inside("script").match(/fetch\([^`]*`[^`]*`[^)]*\)/g);
  assert.deepEqual(asked, ["fetch(new URL(`/v1/operations/${route}`, location.origin)"]);
});
