import assert from "node:assert/strict";
import type { OriginRules } from "../../../src/mqtt/doors/origin.ts";
import { LONGEST_HEAD_BYTES, readUpgrade } from "../../../src/mqtt/doors/upgrade.ts";
import { join } from "../../support/mqtt_bytes.ts";
import { seeded } from "../../support/random.ts";
import { pieces, Pipe } from "../../doors/pipe.ts";

const OPEN: OriginRules = { sameOrigin: false, allowedOrigins: [] };
const SAME: OriginRules = { sameOrigin: true, allowedOrigins: [] };

/** The fields of a request that is upgraded; undefined takes one away, a list writes it twice. */
type Fields = Readonly<Record<string, string | readonly string[] | undefined>>;

function request(fields: Fields = {}, line = "GET /mqtt HTTP/1.1"): Uint8Array<ArrayBuffer> {
  const all: Fields = {
    "Host": "broker.example:8083",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "mqtt",
    ...fields,
  };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((each) => `${name}: ${each}`)
  );
  return raw([line, ...lines, "", ""].join("\r\n"));
}

function raw(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
}

async function answer(
  bytes: Uint8Array,
  { rules = OPEN, secure = false, piece = bytes.length } = {},
) {
  const pipe = new Pipe();
  pipe.receive(pieces(bytes, piece));
  pipe.end();
  const upgrade = await readUpgrade(pipe, secure, () => rules);
  if (upgrade === undefined) return { status: 0, text: "", rest: undefined, origin: undefined };
  const opens = "response" in upgrade;
  const text = new TextDecoder().decode(opens ? upgrade.response : upgrade.refusal);
  assert.equal(pipe.written.length, 0);
  return {
    status: Number(/^HTTP\/1\.1 (\d{3}) \S/.exec(text)?.[1]),
    text,
    rest: opens ? upgrade.rest : undefined,
    origin: opens ? undefined : upgrade.origin,
  };
}

async function status(bytes: Uint8Array, options = {}): Promise<number> {
  return (await answer(bytes, options)).status;
}

Deno.test("RFC 6455 a request for the sub-protocol mqtt is upgraded, on any path", async () => {
  for (const path of ["/", "/mqtt", "/a/b?c=d", "*"]) {
    const { status, text } = await answer(request({}, `GET ${path} HTTP/1.1`));
    assert.equal(status, 101);
    // The example of RFC 6455 section 1.3.
    assert.match(text, /^Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r$/m);
    assert.match(text, /^Sec-WebSocket-Protocol: mqtt\r$/m);
    assert.doesNotMatch(text, /Extensions/i);
    assert.ok(text.endsWith("\r\n\r\n"));
  }
});

Deno.test("a request in pieces is read as a whole, and what follows it is kept", async () => {
  const after = Uint8Array.of(1, 2, 3);
  const bytes = join(request(), after);
  for (const piece of [1, 2, 5, bytes.length]) {
    const { status, rest } = await answer(bytes, { piece });
    assert.equal(status, 101);
    assert.deepEqual(rest, after.slice(0, rest!.length), "what came with the head's last piece");
    if (piece === bytes.length) assert.equal(rest!.length, after.length);
  }
});

Deno.test("field names and the tokens of Upgrade and Connection are of any case", async () => {
  const fields = {
    "Upgrade": undefined,
    "Connection": undefined,
    "uPGRADE": "WebSocket",
    "CONNECTION": ["close", "UPGRADE"],
  };
  assert.equal(await status(request(fields)), 101);
});

Deno.test("MQTT-6.0.0-3 a client that does not offer mqtt is refused", async () => {
  for (const offered of [undefined, "mqttv3.1", "MQTT", "mqtt5, amqp"]) {
    const { status, text } = await answer(request({ "Sec-WebSocket-Protocol": offered }));
    assert.equal(status, 400);
    assert.match(text, /sub-protocol "mqtt"/);
  }
  for (const offered of ["mqttv3.1, mqtt", ["amqp", "mqtt"], " mqtt ,x"]) {
    assert.equal(await status(request({ "Sec-WebSocket-Protocol": offered })), 101);
  }
});

Deno.test("02a 13.3 what asks for no WebSocket is answered, and told what to ask for", async () => {
  for (
    const fields of [
      { "Upgrade": undefined },
      { "Upgrade": "h2c" },
      { "Connection": undefined },
      { "Connection": "keep-alive" },
    ]
  ) {
    const { status, text } = await answer(request(fields));
    assert.equal(status, 426);
    assert.match(text, /^Upgrade: websocket\r$/m);
  }
  for (const version of [undefined, "8", ["13", "13"]]) {
    const { status, text } = await answer(request({ "Sec-WebSocket-Version": version }));
    assert.equal(status, 426);
    assert.match(text, /^Sec-WebSocket-Version: 13\r$/m);
  }
  const { status: method, text } = await answer(request({}, "POST / HTTP/1.1"));
  assert.equal(method, 405);
  assert.match(text, /^Allow: GET\r$/m);
});

Deno.test("02a 13.3 a ws door is HTTP/1.1 only", async () => {
  assert.equal(await status(request({}, "GET / HTTP/1.0")), 505);
  assert.equal(await status(raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), 505);
});

Deno.test("malformed requests are answered with 400", async () => {
  const good = new TextDecoder().decode(request());
  const malformed = [
    raw("\r\n\r\n"),
    raw("GET /\r\n\r\n"),
    raw("GET  / HTTP/1.1\r\n\r\n"),
    raw("GET / HTTP/1.1 \r\n\r\n"),
    raw("G(T / HTTP/1.1\r\n\r\n"),
    raw(good.replace("Host:", "Host :")),
    raw(good.replace("Upgrade: websocket\r\n", "Upgrade: websocket\r\n folded\r\n")),
    raw(good.replace("Upgrade: websocket\r\n", "Upgrade: websocket\n")),
    raw(good.replace("/mqtt", "/m\u0000qtt")),
    raw(good.replace("websocket", "web\u0000socket")),
    raw(good.replace("Host:", ":")),
    request({ "Host": undefined }),
    request({ "Host": ["a.example", "b.example"] }),
    request({ "Host": "a.example/b" }),
    request({ "Host": "user@a.example" }),
    request({ "Host": "" }),
    request({ "Sec-WebSocket-Key": undefined }),
    request({ "Sec-WebSocket-Key": "c2hvcnQ=" }),
    request({ "Sec-WebSocket-Key": ["dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=="] }),
    request({ "Transfer-Encoding": "chunked" }),
    request({ "Content-Length": "5" }),
    request({ "Content-Length": "-1" }),
    request({ "Content-Length": ["0", "7"] }),
  ];
  for (const bytes of malformed) {
    assert.equal(await status(bytes), 400, JSON.stringify(new TextDecoder().decode(bytes)));
  }
  assert.equal(await status(request({ "Content-Length": "0" })), 101);
});

Deno.test("a head over the bound is answered with 431, however it ends", async () => {
  const size = request({ "Cookie": "" }).length;
  const cookie = (length: number) => request({ "Cookie": "c".repeat(length) });
  assert.equal(await status(cookie(LONGEST_HEAD_BYTES - size)), 101);
  assert.equal(await status(cookie(LONGEST_HEAD_BYTES - size + 1)), 431);
  assert.equal(await status(new Uint8Array(LONGEST_HEAD_BYTES + 1).fill(0x61)), 431);
});

Deno.test("a stream that ends before its head does is not answered", async () => {
  assert.equal(await status(request().slice(0, -1)), 0);
});

Deno.test("02b 4.3 same_origin compares scheme, host and port with the request's own", async () => {
  const cases: [string | undefined, string, boolean, number][] = [
    [undefined, "broker.example:8083", false, 101],
    ["http://broker.example:8083", "broker.example:8083", false, 101],
    ["http://BROKER.example:8083", "broker.example:8083", false, 101],
    ["https://broker.example:8083", "broker.example:8083", true, 101],
    ["https://broker.example:8083", "broker.example:8083", false, 403],
    ["http://broker.example:8083", "broker.example:8083", true, 403],
    ["http://broker.example:8084", "broker.example:8083", false, 403],
    ["http://broker.example", "broker.example:8083", false, 403],
    ["http://broker.example", "broker.example:80", false, 101],
    ["https://broker.example:443", "broker.example", true, 101],
    ["http://evil.example", "broker.example:8083", false, 403],
    ["http://broker.example.evil.example:8083", "broker.example:8083", false, 403],
    ["http://[::1]:8083", "[::1]:8083", false, 101],
    ["null", "broker.example:8083", false, 403],
    ["", "broker.example:8083", false, 403],
    ["http://broker.example:8083/", "broker.example:8083", false, 101],
    ["http://broker.example:8083/path", "broker.example:8083", false, 403],
    ["http://user@broker.example:8083", "broker.example:8083", false, 403],
  ];
  for (const [origin, host, secure, expected] of cases) {
    const bytes = request({ "Origin": origin, "Host": host });
    assert.equal(await status(bytes, { rules: SAME, secure }), expected, `${origin} to ${host}`);
  }
});

Deno.test("02b 4.3 a refused page's origin is told, for the log", async () => {
  const bytes = request({ "Origin": "http://evil.example" });
  assert.equal((await answer(bytes, { rules: SAME })).origin, "http://evil.example");
  const twice = request({ "Origin": ["http://broker.example:8083", "http://evil.example"] });
  assert.equal(await status(twice, { rules: SAME }), 403);
});

Deno.test("02b 4.3 allowed_origins lists pages, port included", async () => {
  const rules = {
    sameOrigin: false,
    allowedOrigins: ["https://panel.example", "http://panel.example:8080"],
  };
  const cases: [string | undefined, number][] = [
    [undefined, 101],
    ["https://panel.example", 101],
    ["https://panel.example:443", 101],
    ["http://panel.example:8080", 101],
    ["https://panel.example:8080", 403],
    ["http://panel.example", 403],
    ["https://sub.panel.example", 403],
    ["null", 403],
  ];
  for (const [origin, expected] of cases) {
    assert.equal(await status(request({ "Origin": origin }), { rules }), expected, origin);
  }
});

Deno.test("02b 4.3 with both rules both must pass, with neither every page is admitted", async () => {
  const both = { sameOrigin: true, allowedOrigins: ["http://panel.example"] };
  const own = { sameOrigin: true, allowedOrigins: ["http://broker.example:8083"] };
  const page = (origin: string) => request({ "Origin": origin });
  assert.equal(await status(page("http://panel.example"), { rules: both }), 403);
  assert.equal(await status(page("http://broker.example:8083"), { rules: both }), 403);
  assert.equal(await status(page("http://broker.example:8083"), { rules: own }), 101);
  for (const origin of ["null", "http://anything.example", "chrome-extension://abc"]) {
    assert.equal(await status(page(origin), { rules: OPEN }), 101);
  }
});

Deno.test("spoiled requests are answered or waited for, never with an error", async () => {
  const random = seeded("upgrades");
  for (let i = 0; i < 3_000; i++) {
    const bytes = request({ "Origin": "http://broker.example:8083" });
    for (let count = random.between(1, 4); count > 0; count--) {
      bytes[random.below(bytes.length)] = random.below(256);
    }
    const answered = await status(bytes, { rules: SAME });
    assert.ok([0, 101, 400, 403, 405, 426, 505].includes(answered), `${answered}`);
  }
});
