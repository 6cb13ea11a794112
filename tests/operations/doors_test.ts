/** Operations doors of the executable: every kind, every source of a name, reloads and refusals. */
import assert from "node:assert/strict";
import { connect as tlsConnect } from "node:tls";
import { cheapHash } from "../auth/cheap_hash.ts";
import { haproxy, proxyHeader } from "../doors/proxy_bytes.ts";
import {
  BrokerProcess,
  configurationText,
  type Parts,
  type Place,
  runToEnd,
  temporaryPlace,
} from "../support/broker_process.ts";
import { Certified } from "../support/certificates.ts";
import { ask, basic, RawHttp } from "../support/http.ts";
import { freePort } from "../support/ports.ts";
import { until } from "../support/wait.ts";

const AUTHORITY = Certified.authority("plant");
const V1 = "/v1/operations/users";

/** The status of one request over TLS; an error where the handshake fails. */
function overTls(
  port: number,
  path: string,
  client?: Certified,
  headers = "",
): Promise<number | "refused"> {
  return new Promise((resolve) => {
    const socket = tlsConnect({
      host: "127.0.0.1",
      port,
      rejectUnauthorized: false,
      ...client === undefined ? {} : { cert: client.cert, key: client.key },
    });
    let text = "";
    socket.on("data", (bytes) => text += bytes);
    socket.on("error", () => resolve("refused"));
    socket.on("close", () => resolve(text === "" ? "refused" : Number(text.slice(9, 12))));
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ops\r\nConnection: close\r\n${headers}\r\n`);
  });
}

function write(place: Place, name: string, text: string): string {
  const path = `${place.directory}/${name}`;
  Deno.writeTextFileSync(path, text);
  return path;
}

function tlsBlock(place: Place, certified: Certified, more = ""): string {
  const cert = write(place, "ops.crt", certified.cert);
  const key = write(place, "ops.key", certified.key);
  return `tls: {cert_file: ${cert}, key_file: ${key}${more}}`;
}

const operator = (user: string, password: string, scope = "") =>
  `${user}:${cheapHash(password)}${scope === "" ? "" : `:${scope}`}\n`;

Deno.test("05 4.2 every source of a name, each at the doors where it is believed", async (t) => {
  const [plain, tls, required] = [freePort(), freePort(), freePort()];
  const server = AUTHORITY.issue({ commonName: "broker", dns: ["localhost"] });
  await using broker = await BrokerProcess.start((place) => {
    const file = write(place, "operators", operator("ada", "engine") + operator("cn", "x"));
    const users = write(place, "users", operator("plc", "secret of the line"));
    const ca = write(place, "ca.crt", AUTHORITY.cert);
    const block = (more: string) => tlsBlock(place, server, `, client_ca_file: ${ca}${more}`);
    return configurationText(place, {
      listen: `tcp: {address: "127.0.0.1:${place.port}", password_file: ${users}}`,
      broker: "operations:\n  listen:\n    tcp:\n" +
        `      - {name: box, address: "127.0.0.1:${plain}"}\n` +
        `      - {name: maybe, address: "127.0.0.1:${tls}", password_file: ${file}, ` +
        `${block(", require_certificate: false")}}\n` +
        `      - {name: sure, address: "0.0.0.0:${required}", ${block("")}}\n` +
        "    unix:\n" +
        `      - {name: own, path: ${place.directory}/own.sock, password_file: ${file}}\n` +
        `      - {name: open, path: ${place.directory}/open.sock, mode: "0600"}\n` +
        `      - {name: proxy, path: ${place.directory}/proxy.sock, password_file: ${file}, ` +
        "proxy_protocol: true}\n",
    });
  });
  const at = (name: string) =>
    ({ path: `${broker.directory}/${name}.sock`, transport: "unix" }) as const;
  const box = { hostname: "127.0.0.1", port: plain };

  await t.step("each door says in the log where it listens", async () => {
    for (const name of ["box", "maybe", "sure", "own", "open", "proxy"]) {
      await broker.line(new RegExp(`listening for operations" listener=${name} `));
    }
  });

  await t.step("a loopback door without a file serves whoever comes by address", async () => {
    assert.equal((await ask(box, V1)).status, 200);
    assert.equal((await ask(box, V1, { "X-Saguin-Principal": "stranger" })).status, 200);
    assert.equal((await ask(box, V1, { Host: "evil.example" })).status, 403);
    assert.equal((await ask(box, V1, basic("ada", "wrong"))).status, 200);
  });

  await t.step("a certificate's name, where one may be shown", async () => {
    const named = AUTHORITY.issue({ commonName: "cn" });
    const stranger = AUTHORITY.issue({ commonName: "stranger" });
    const nameless = AUTHORITY.issue({});
    assert.equal(await overTls(tls, V1, named), 200);
    assert.equal(await overTls(tls, V1, stranger), 403);
    assert.equal(await overTls(tls, "/metrics", stranger), 200);
    assert.equal(await overTls(tls, "/metrics", nameless), 200);
    assert.equal(await overTls(tls, V1, nameless), 403);
    assert.equal(await overTls(tls, V1), 401);
    assert.equal(await overTls(tls, "/health"), 200);
    const { Authorization } = basic("ada", "wrong");
    assert.equal(await overTls(tls, V1, named, `Authorization: ${Authorization}\r\n`), 401);
  });

  await t.step("05 4.5 a required certificate is asked of a probe too", async () => {
    assert.equal(await overTls(required, "/health"), "refused");
    assert.equal(await overTls(required, "/health", AUTHORITY.issue({ commonName: "x" })), 200);
    assert.equal(await overTls(required, V1, AUTHORITY.issue({ commonName: "x" })), 403);
    const foreign = Certified.authority("foreign").issue({ commonName: "cn" });
    assert.equal(await overTls(required, "/health", foreign), "refused");
  });

  await t.step(
    "X-Saguin-Principal on a Unix door, whose mode is the gate where it has no file",
    async () => {
      const principal = (name: string) => ({ "X-Saguin-Principal": name });
      assert.equal((await ask(at("own"), V1, principal("cn"))).status, 200);
      assert.equal((await ask(at("own"), V1, principal("stranger"))).status, 403);
      assert.equal((await ask(at("own"), V1, principal(""))).status, 401);
      assert.equal((await ask(at("own"), V1, basic("ada", "engine"))).status, 200);
      assert.equal((await ask(at("open"), V1, { Host: "evil.example" })).status, 200);
      assert.equal((await ask(at("open"), V1, principal("stranger"))).status, 403);
      assert.equal(Deno.statSync(at("open").path).mode! & 0o777, 0o600);
    },
  );

  await t.step(
    "a proxy's header names a client, and a connection without one is refused",
    async () => {
      const through = async (header: Uint8Array, path: string, extra = "") => {
        using http = await RawHttp.open(at("proxy"));
        await http.write(header);
        await http.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${extra}\r\n`);
        return Number((await http.closed()).slice(9, 12));
      };
      assert.equal(await through(haproxy("cn"), V1), 200);
      assert.equal(await through(haproxy("stranger"), V1), 403);
      assert.equal(await through(haproxy("stranger"), V1, "X-Saguin-Principal: cn\r\n"), 403);
      assert.equal(await through(haproxy("cn", 1), V1), 401, "a certificate that was not verified");
      assert.equal(await through(proxyHeader(), V1), 401);
      using bare = await RawHttp.open(at("proxy"));
      await bare.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
      assert.equal(await bare.closed(), "");
      await broker.line(/refused a connection by its PROXY header/);
    },
  );

  await t.step(
    "05 14 nothing that a file of the configuration holds leaves by a route",
    async () => {
      const bodies = [(await ask(box, "/metrics")).body, (await ask(box, "/")).body];
      for (
        const route of [
          "acl?user=plc",
          "config",
          "consumers",
          "overview",
          "position-lost",
          "refused",
          "sessions",
          "users",
        ]
      ) {
        const { status, body } = await ask(box, `/v1/operations/${route}`);
        assert.equal(status, 200, route);
        bodies.push(body);
      }
      const said = bodies.join("\n");
      const paths = new Set(
        JSON.stringify(JSON.parse(bodies[3])).match(/"\/[^"]+"/g)!.map((text) => JSON.parse(text)),
      );
      const read: string[] = [];
      for (const path of paths) {
        // The database is no text, and no socket is a file.
        if (/\.(db|sock)$/.test(path)) continue;
        for (const piece of Deno.readTextFileSync(path).split(/[\n:$]/)) {
          if (piece.length >= 12) assert.ok(!said.includes(piece), `a part of ${path} is shown`);
        }
        read.push(path.slice(path.lastIndexOf("/") + 1));
      }
      assert.deepEqual(read.sort(), ["ca.crt", "operators", "ops.crt", "ops.key", "users"]);
      assert.doesNotMatch(said, /"ada"|"cn"/, "an operator's name is shown");
    },
  );
});

Deno.test("05 2.4, 05 12.3 SIGHUP reads operators and certificates again, all of them or none", async () => {
  const port = freePort();
  let tls = "";
  await using broker = await BrokerProcess.start((place) => {
    const file = write(place, "operators", operator("ada", "engine"));
    tls = tlsBlock(place, AUTHORITY.issue({ commonName: "first" }));
    return configurationText(place, {
      broker: `operations:\n  password_file: ${file}\n` +
        `  listen: {tcp: {address: "127.0.0.1:${port}", ${tls}}}\n`,
    });
  });
  const as = (user: string, password: string) =>
    overTls(port, V1, undefined, `Authorization: ${basic(user, password).Authorization}\r\n`);
  const served = () =>
    new Promise<string>((resolve) => {
      const socket = tlsConnect({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
        resolve(String(socket.getPeerCertificate().subject.CN));
        socket.destroy();
      });
    });
  assert.equal(await as("ada", "engine"), 200);
  assert.equal(await served(), "first");

  write(broker.place, "operators", "ada:broken\n");
  tlsBlock(broker.place, AUTHORITY.issue({ commonName: "second" }));
  broker.signal("SIGHUP");
  await broker.line(/nothing was reloaded/);
  assert.equal(await as("ada", "engine"), 200);
  assert.equal(await served(), "first");

  write(broker.place, "operators", operator("eve", "new"));
  broker.signal("SIGHUP");
  await broker.line(/password file of operators" file=\S+ users=1/);
  await broker.line(/certificate of an operations listener" listener=tcp expires=/);
  assert.equal(await as("ada", "engine"), 401);
  assert.equal(await as("eve", "new"), 200);
  assert.equal(await served(), "second");
});

Deno.test("05 12.3 a reload says what is in force now: the level, the pages of a ws door, what waits for a restart", async () => {
  const web = freePort();
  const text = (pages: string, logLevel: Parts["logLevel"]) => (place: Place) =>
    configurationText(place, {
      logLevel,
      listen: `tcp: {address: "127.0.0.1:${place.port}"}\n` +
        `ws: {name: web, address: "127.0.0.1:${web}", ${pages}}`,
    });
  await using broker = await BrokerProcess.start(text("same_origin: true", "info"));
  const pages = "same_origin: false, allowed_origins: [https://a.example, https://b.example]";
  broker.configure(text(pages, "warn"));
  broker.signal("SIGHUP");
  await broker.line(/pages that may connect" listener=web same_origin=false allowed_origins=2$/);
  await broker.line(/msg="log level" from=info to=warn$/);
  await broker.line(/reloaded; .*addresses.* with a restart/);
});

Deno.test("05 2.3 a start and --check-config refuse the same operations block, in the same words", async () => {
  const refused = async (
    block: (place: Place) => string,
    pattern: RegExp,
    mqtt: Partial<Parts> = {},
  ) => {
    const place = temporaryPlace();
    try {
      const file = write(
        place,
        "saguin.yaml",
        configurationText(place, { ...mqtt, broker: block(place) }),
      );
      for (const flag of ["--check-config", "--config"]) {
        const { code, stderr } = await runToEnd([flag, file]);
        assert.equal(code, 1, stderr);
        assert.match(stderr, pattern);
      }
    } finally {
      Deno.removeSync(place.directory, { recursive: true });
    }
  };
  const loopback = 'listen: {tcp: {address: "127.0.0.1:0"}}';
  const withFile = (text: string) => (place: Place) =>
    `operations: {password_file: ${write(place, "ops", text)}, ${loopback}}`;
  await refused(withFile(""), /names no user, and nobody else is admitted at broker\.operations/);
  await refused(
    withFile(operator("a", "x", "/nowhere")),
    /has the scope "\/nowhere", which names no route/,
  );
  await refused(withFile(operator("a", "x", "/")), /names no route/);
  await refused(
    () => `operations: {password_file: /nonexistent, ${loopback}}`,
    /:\n {2}- \d+:\d+ broker\.operations\.password_file "\/nonexistent" cannot be read: No such file/,
  );
  await refused(
    () => `operations: {min_scrape_interval: 10s, ${loopback}}`,
    /min_scrape_interval "10s" is below 1m/,
  );
});

Deno.test("05 2.2 an address that is taken stops the start, and says which", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr;
  const place = temporaryPlace();
  try {
    const file = write(
      place,
      "saguin.yaml",
      configurationText(place, {
        broker: `operations: {listen: {tcp: {address: "127.0.0.1:${port}"}}}`,
      }),
    );
    const { code, stderr } = await runToEnd(["--config", file]);
    assert.equal(code, 1);
    assert.match(
      stderr,
      new RegExp(`broker\\.operations\\.listen\\.tcp: cannot listen on 127\\.0\\.0\\.1:${port}: `),
    );
  } finally {
    Deno.removeSync(place.directory, { recursive: true });
  }
});

Deno.test("05 2.1 without the block nothing of operations listens, and a stop frees its address", async () => {
  const port = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      broker: `operations: {listen: {tcp: {address: "127.0.0.1:${port}"}}}`,
    })
  );
  assert.equal((await ask({ hostname: "127.0.0.1", port }, "/health")).body, '{"status":"ok"}');
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  broker.configure((place) => configurationText(place));
  await broker.startAgain();
  assert.ok(!broker.lines.slice(-8).some((line) => line.includes("operations")));
  await until("the port to be free", () => {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
    return true;
  });
});
