import assert from "node:assert/strict";
import { MOST_CONNECTIONS } from "../../src/operations/door.ts";
import {
  ANSWER_MS,
  HEAD_MS,
  IDLE_MS,
  LONGEST_HEAD_BYTES,
} from "../../src/operations/http/connection.ts";
import { textResponse } from "../../src/operations/http/message.ts";
import { ask, RawHttp } from "../support/http.ts";
import { sleep, until } from "../support/wait.ts";
import { openDoor, ROUTES } from "./listener.ts";

Deno.test("one connection answers one request after another, also when they come in one piece", async () => {
  using door = openDoor();
  using http = await RawHttp.open(door.where);
  await http.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  assert.equal((await http.answer()).body, "healthy");
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  await http.write(get("/metrics") + get("/nowhere") + get("/v1/operations/users"));
  assert.equal((await http.answer()).body, "metrics");
  assert.equal((await http.answer()).status, 404);
  assert.equal((await http.answer()).body, "users");
});

Deno.test("a request may come a byte at a time", async () => {
  using door = openDoor();
  using http = await RawHttp.open(door.where);
  for (const byte of new TextEncoder().encode("GET /health HTTP/1.1\r\nHost: a\r\n\r\n")) {
    await http.write(Uint8Array.of(byte));
  }
  assert.equal((await http.answer()).body, "healthy");
});

Deno.test("an answer says how long it is, that nothing keeps it, and when it was made", async () => {
  using door = openDoor();
  const { status, headers } = await ask(door.where, "/health");
  assert.equal(status, 200);
  assert.equal(headers.get("content-length"), "7");
  assert.equal(headers.get("cache-control"), "no-store");
  assert.equal(headers.get("x-content-type-options"), "nosniff");
  assert.equal(headers.get("date"), "Fri, 02 Jan 2026 03:04:05 GMT");
  assert.equal(headers.get("connection"), "close");
});

Deno.test("HEAD is answered as GET is, without the body", async () => {
  using door = openDoor();
  using http = await RawHttp.open(door.where);
  await http.write(
    "HEAD /health HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n",
  );
  const head = await http.answer(true);
  assert.deepEqual([head.status, head.headers.get("content-length")], [200, "7"]);
  assert.equal((await http.answer()).body, "healthy");
});

Deno.test("a connection closes after the answer to HTTP/1.0 and to Connection: close", async () => {
  using door = openDoor();
  for (
    const request of [
      "GET /health HTTP/1.0\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ]
  ) {
    using http = await RawHttp.open(door.where);
    await http.write(request);
    assert.match(await http.closed(), /^HTTP\/1\.1 200 OK\r\n[^]*healthy$/);
  }
  using http = await RawHttp.open(door.where);
  const request = "GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  await http.write(request + request);
  assert.equal((await http.answer()).headers.get("connection"), "keep-alive");
  assert.equal((await http.answer()).body, "healthy");
});

Deno.test("what is no request is refused and ends the connection", async () => {
  using door = openDoor();
  const refused = async (request: string) => {
    using http = await RawHttp.open(door.where);
    await http.write(request);
    const { status } = await http.answer();
    await door.time.pass(2_000);
    assert.equal(await http.closed(), "");
    return status;
  };
  assert.equal(await refused("hello\r\n\r\n"), 400);
  assert.equal(await refused("GET /health HTTP/1.1\r\n\r\n"), 400);
  assert.equal(await refused("GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  assert.equal(await refused("GET /health HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n"), 400);
  assert.equal(await refused("GET health HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  assert.equal(await refused("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  assert.equal(await refused("GET /health HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  const long = `GET /health HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(LONGEST_HEAD_BYTES)}\r\n\r\n`;
  assert.equal(await refused(long), 431);
});

Deno.test("a head may be as long as it may be, and the next one starts small again", async () => {
  using door = openDoor();
  using http = await RawHttp.open(door.where);
  const start = "GET /health HTTP/1.1\r\nHost: a\r\nX: ";
  const rest = LONGEST_HEAD_BYTES - start.length - 4;
  for (let i = 0; i < 2; i++) {
    await http.write(`${start}${"x".repeat(rest)}\r\n\r\n`);
    assert.equal((await http.answer()).status, 200);
  }
});

Deno.test("a target with scheme and authority is its path", async () => {
  using door = openDoor();
  assert.equal((await ask(door.where, "http://127.0.0.1:1/health")).body, "healthy");
  assert.equal((await ask(door.where, "http://127.0.0.1:1")).body, "page");
  assert.equal((await ask(door.where, "/health?probe=1")).body, "healthy");
});

Deno.test("a body is not read: the route is answered and the connection ends", async () => {
  using door = openDoor();
  for (const framing of ["Content-Length: 40000", "Transfer-Encoding: chunked"]) {
    using http = await RawHttp.open(door.where);
    const head = `POST /metrics HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n`;
    // A second request hides in the body; it must not be answered.
    const body = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n".padEnd(40_000, "x");
    await http.write(head + body);
    const answer = await http.answer();
    assert.equal(answer.status, 405);
    assert.equal(answer.headers.get("connection"), "close");
    // Not closed on bytes that were not read: that would be a reset, which takes the answer back.
    for (let i = 0; i < 3; i++) {
      await sleep(20);
      await http.write("more of the body");
    }
    await door.time.pass(2_000);
    assert.equal(await http.closed(), "");
  }
});

Deno.test("05 3 an unknown path is 404, a known one with another method 405, before any credential", async () => {
  using door = openDoor();
  assert.equal((await ask(door.where, "/ready")).status, 404);
  assert.equal((await ask(door.where, "/health/")).status, 404);
  assert.equal((await ask(door.where, "/v1/operations/queues")).status, 404);
  assert.equal((await ask(door.where, "/v1/operations/queues/")).status, 404);
  assert.equal((await ask(door.where, "/v1/operations/queues/a/b")).status, 404);
  assert.equal((await ask(door.where, "/v1/operations/queues/a%2Fb")).body, "queue a%2Fb");
  const post = await ask(door.where, "/health", {}, "POST");
  assert.deepEqual([post.status, post.headers.get("allow")], [405, "GET, HEAD"]);
  const head = await ask(door.where, "/v1/operations/users", {}, "HEAD");
  assert.deepEqual([head.status, head.headers.get("allow")], [405, "GET"]);
});

Deno.test("a route that fails costs a 500 and a line in the log", async () => {
  using door = openDoor();
  const { status, body } = await ask(door.where, "/fails");
  assert.equal(status, 500);
  assert.doesNotMatch(body, /on purpose/);
  assert.match(String(door.log.lines.at(-1)?.fields.error), /on purpose/);
});

Deno.test("a connection that asks nothing, or never finishes asking, is closed in time", async () => {
  using door = openDoor();
  using silent = await RawHttp.open(door.where);
  using slow = await RawHttp.open(door.where);
  await slow.write("GET /health HTTP/1.1\r\n");
  await until("both to have deadlines", () => door.time.armed === 2);
  await sleep(50);
  await door.time.pass(HEAD_MS);
  assert.equal(await slow.closed(), "");
  await door.time.pass(IDLE_MS - HEAD_MS - 1);
  await silent.write("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal((await silent.answer()).status, 200);
  await door.time.pass(IDLE_MS);
  assert.equal(await silent.closed(), "");
});

Deno.test("a route that does not come back does not hold its connection for ever", async () => {
  let ended = () => {};
  const routes = new Map([...ROUTES, ["/stuck", {
    methods: ["GET"] as const,
    answer: async () => {
      await new Promise<void>((resolve) => ended = resolve);
      return textResponse(200, "late");
    },
  }]]);
  using door = openDoor(undefined, {}, routes);
  using http = await RawHttp.open(door.where);
  await http.write("GET /stuck HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  await sleep(50);
  await door.time.pass(ANSWER_MS);
  assert.equal(await http.closed(), "");
  ended();
});

Deno.test("a newcomer takes the place of the connection that has asked nothing for longest", async () => {
  using door = openDoor();
  const open: RawHttp[] = [];
  try {
    for (let i = 0; i < MOST_CONNECTIONS; i++) {
      const http = await RawHttp.open(door.where);
      open.push(http);
      await http.write("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
      await http.answer();
    }
    assert.equal((await ask(door.where, "/health")).status, 200);
    assert.equal(await open[0].closed(), "");
    await open[1].write("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert.equal((await open[1].answer()).status, 200);
  } finally {
    for (const http of open) http[Symbol.dispose]();
  }
});

Deno.test("stopping a door ends its connections and frees its address", async () => {
  const door = openDoor();
  using http = await RawHttp.open(door.where);
  await http.write("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  await http.answer();
  door.door.stop();
  assert.equal(await http.closed(), "");
  Deno.listen(door.where).close();
});
