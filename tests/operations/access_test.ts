import assert from "node:assert/strict";
import { PasswordChecker } from "../../src/auth/password_checker.ts";
import type { PasswordFile } from "../../src/auth/password_file.ts";
import { parseRequestHead, type RequestHead } from "../../src/doors/request_head.ts";
import { decide, type Peer } from "../../src/operations/access.ts";
import { ask, basic } from "../support/http.ts";
import { openDoor, operators } from "./listener.ts";

const TCP: Peer = { kind: "tcp", certificate: undefined };
const UNIX: Peer = { kind: "unix", certificate: undefined };
const named = (name: string): Peer => ({ kind: "tcp", certificate: { name } });
const NAMELESS: Peer = { kind: "tcp", certificate: { name: undefined } };

const FILE = operators({
  ada: ["engine"],
  scraper: ["s", "/metrics"],
  viewer: ["v", "/v1/operations/sessions,/v1/operations/queues/jobs"],
  "two words": ["x"],
});

function head(headers: Readonly<Record<string, string | readonly string[]>>): RequestHead {
  const lines = Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().map((value) => `${name}: ${value}\r\n`)
  );
  const text = `GET / HTTP/1.1\r\n${lines.join("")}\r\n`;
  const parsed = parseRequestHead(Uint8Array.from(text, (c) => c.charCodeAt(0)));
  if ("status" in parsed) throw new Error(parsed.reason);
  return parsed;
}

async function status(
  peer: Peer,
  file: PasswordFile | undefined,
  path: string,
  headers: Readonly<Record<string, string | readonly string[]>> = {},
): Promise<number> {
  const request = head({ Host: "127.0.0.1:9090", ...headers });
  const decision = await decide(request, path, peer, file, new PasswordChecker());
  return decision.served ? 200 : decision.status;
}

const V1 = "/v1/operations/users";

Deno.test("05 4.3 step 3 a credential that is offered is checked, and nothing stands in for it", async () => {
  assert.equal(await status(TCP, FILE, V1, basic("ada", "engine")), 200);
  assert.equal(await status(TCP, FILE, V1, basic("ada", "wrong")), 401);
  assert.equal(await status(TCP, FILE, V1, basic("nobody", "engine")), 401);
  assert.equal(await status(TCP, FILE, V1, basic("two words", "x")), 200);
  // A certificate or a proxy that names an operator does not mend a wrong password.
  assert.equal(await status(named("ada"), FILE, V1, basic("ada", "wrong")), 401);
  const both = { ...basic("ada", "wrong"), "X-Saguin-Principal": "ada" };
  assert.equal(await status(UNIX, FILE, V1, both), 401);
  for (
    const field of ["Bearer x", "Basic", "Basic !", "Basic YWRh", ["Basic YQ==", "Basic YQ=="]]
  ) {
    assert.equal(await status(TCP, FILE, V1, { Authorization: field }), 401, String(field));
  }
});

Deno.test("05 16 a credential at a door with no file is not looked at", async () => {
  assert.equal(await status(TCP, undefined, V1, basic("ada", "wrong")), 200);
  assert.equal(await status(named("ada"), undefined, "/metrics", basic("x", "y")), 200);
});

Deno.test("05 4.1 a scope reaches at the ends of levels, and no scope reaches everything", async () => {
  const scraper = basic("scraper", "s");
  assert.equal(await status(TCP, FILE, "/metrics", scraper), 200);
  assert.equal(await status(TCP, FILE, V1, scraper), 403);
  const viewer = basic("viewer", "v");
  assert.equal(await status(TCP, FILE, "/v1/operations/sessions", viewer), 200);
  assert.equal(await status(TCP, FILE, "/v1/operations/queues/jobs", viewer), 200);
  assert.equal(await status(TCP, FILE, "/v1/operations/queues/jobs2", viewer), 403);
  assert.equal(await status(TCP, FILE, "/metrics", viewer), 403);
  assert.equal(await status(TCP, FILE, "/", viewer), 200, "the page asks the routes itself");
});

Deno.test("05 4.3 steps 6 and 7 a certificate's name is looked up; without an entry, only /metrics", async () => {
  assert.equal(await status(named("ada"), FILE, V1), 200);
  assert.equal(await status(named("scraper"), FILE, V1), 403);
  assert.equal(await status(named("scraper"), FILE, "/metrics"), 200);
  assert.equal(await status(named("stranger"), FILE, "/metrics"), 200);
  assert.equal(await status(named("stranger"), FILE, V1), 403);
  assert.equal(await status(named("stranger"), FILE, "/"), 403);
  assert.equal(await status(named("stranger"), undefined, "/metrics"), 200);
  assert.equal(await status(named("stranger"), undefined, V1), 403);
  assert.equal(await status(NAMELESS, FILE, "/metrics"), 200);
  assert.equal(await status(NAMELESS, FILE, V1), 403);
  assert.equal(await status(NAMELESS, undefined, V1), 403);
});

Deno.test("05 4.2 X-Saguin-Principal names somebody on a Unix door and is not read on TCP", async () => {
  const says = (name: string | readonly string[]) => ({ "X-Saguin-Principal": name });
  assert.equal(await status(UNIX, FILE, V1, says("ada")), 200);
  assert.equal(await status(UNIX, FILE, V1, says("stranger")), 403);
  assert.equal(await status(UNIX, FILE, "/metrics", says("stranger")), 200);
  assert.equal(await status(TCP, FILE, V1, says("ada")), 401);
  assert.equal(await status(TCP, undefined, V1, says("stranger")), 200);
  assert.equal(await status(UNIX, FILE, V1, says("")), 401);
  assert.equal(await status(UNIX, undefined, V1, says("")), 200);
  assert.equal(await status(UNIX, FILE, V1, says(["ada", "viewer"])), 400);
  assert.equal(await status(UNIX, FILE, V1, says("\xff")), 400);
  // A certificate, or the proxy's header, stands above it.
  const proxied: Peer = { kind: "unix", certificate: { name: "stranger" } };
  assert.equal(await status(proxied, FILE, V1, says("ada")), 403);
});

Deno.test("05 4.2 a name with a control character is refused from any source", async () => {
  assert.equal(await status(named("a\u0085da"), FILE, "/metrics"), 403);
  assert.equal(await status(named("a\x01"), undefined, "/metrics"), 403);
  assert.equal(await status(UNIX, FILE, V1, { "X-Saguin-Principal": "a\xc2\x9fda" }), 403);
  assert.equal(await status(TCP, FILE, V1, basic("ada\x7f", "engine")), 403);
});

Deno.test("05 4.3 steps 8 and 9 nobody is served where there is no file, and asked where there is one", async () => {
  assert.equal(await status(TCP, FILE, "/metrics"), 401);
  assert.equal(await status(UNIX, FILE, "/metrics"), 401);
  assert.equal(await status(TCP, undefined, V1), 200);
  assert.equal(await status(UNIX, undefined, V1), 200);
});

Deno.test("05 4.4 an unnamed caller on TCP comes by address or as localhost, against rebound names", async () => {
  const by = (host: string) => status(TCP, undefined, "/metrics", { Host: host });
  for (
    const host of ["127.0.0.1", "127.0.0.1:9090", "localhost", "LocalHost:1", "[::1]:9", "10.0.0.7"]
  ) {
    assert.equal(await by(host), 200, host);
  }
  for (
    const host of [
      "evil.example",
      "evil.example:9090",
      "127.0.0.1.evil.example",
      "[evil",
      "256.1.1.1",
    ]
  ) {
    assert.equal(await by(host), 403, host);
  }
  assert.equal(await status(UNIX, undefined, V1, { Host: "evil.example" }), 200);
  assert.equal(
    await status(TCP, FILE, V1, { Host: "ops.example", ...basic("ada", "engine") }),
    200,
  );
  assert.equal(await status(named("x"), undefined, "/metrics", { Host: "ops.example" }), 200);
});

Deno.test("05 4 over the wire: the challenge, the setting named, /health open, no credential in the log", async () => {
  using closed = openDoor(FILE);
  const asked = await ask(closed.where, "/metrics");
  assert.equal(asked.status, 401);
  assert.equal(asked.headers.get("www-authenticate"), 'Basic realm="saguin"');
  assert.equal((await ask(closed.where, "/health")).status, 200);
  assert.equal((await ask(closed.where, "/nowhere")).status, 404);
  assert.equal((await ask(closed.where, "/metrics", {}, "POST")).status, 405);
  assert.equal((await ask(closed.where, "/metrics", basic("ada", "engine"))).body, "metrics");
  await ask(closed.where, "/metrics", basic("ada", "hunter2"));
  await ask(closed.where, "/metrics", basic("hunter3", "x"));
  const warnings = closed.log.lines.filter(({ level }) => level === "warn");
  assert.equal(warnings.length, 2);
  assert.equal(warnings[0].fields.user, "ada");
  assert.doesNotMatch(
    JSON.stringify(closed.log.lines),
    new RegExp("hunter|" + basic("ada", "hunter2").Authorization.slice(6, 20)),
  );

  using open = openDoor();
  const rebound = await ask(open.where, "/metrics", { Host: "evil.example" });
  assert.equal(rebound.status, 403);
  assert.match(rebound.body, /broker\.operations\.password_file/);
  assert.equal((await ask(open.where, "/health", { Host: "evil.example" })).status, 200);
});
