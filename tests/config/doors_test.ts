/** Doors: names, clashes, and who may come in. */
import assert from "node:assert/strict";
import type { MqttDoor } from "../../src/config/configuration.ts";
import { accepted, ALL_BUILT, broker, FILE, findings, load } from "./support.ts";

/** Lines under `broker.mqtt`, beginning at line 11. */
function mqtt(...lines: readonly string[]): string {
  return broker("mqtt:", ...lines.map((line) => `  ${line}`));
}

function found(text: string): string[] {
  return findings(load(text, {}, ALL_BUILT));
}

function doors(text: string): readonly MqttDoor[] {
  return accepted(load(text, {}, ALL_BUILT)).mqtt.doors;
}

Deno.test("02b 4.1 one door is a mapping or a list of one, named after its kind", () => {
  for (const tcp of ["tcp: {address: 127.0.0.1:1}", "tcp: [{address: 127.0.0.1:1}]"]) {
    const configuration = accepted(load(mqtt("listen:", `  ${tcp}`)));
    assert.deepEqual(configuration.mqtt.doors, [{
      name: "tcp",
      path: "broker.mqtt.listen.tcp",
      passwordFile: undefined,
      allowAnonymous: true,
      kind: "tcp",
      address: { host: "127.0.0.1", port: 1, text: "127.0.0.1:1" },
      tls: undefined,
    }]);
  }
});

Deno.test("02b 4.1 several doors of a kind are a list, each with its name", () => {
  const configuration = accepted(load(mqtt(
    "listen:",
    "  tcp:",
    "    - {name: in, address: 127.0.0.1:1}",
    "    - {name: out, address: 127.0.0.1:2}",
  )));
  assert.deepEqual(configuration.mqtt.doors.map(({ name, path }) => [name, path]), [
    ["in", "broker.mqtt.listen.tcp[in]"],
    ["out", "broker.mqtt.listen.tcp[out]"],
  ]);
});

Deno.test("02a 16.1 a door without a name among several, and a name twice, are refused", () => {
  assert.deepEqual(
    findings(load(mqtt(
      "listen:",
      "  tcp:",
      "    - {address: 127.0.0.1:1}",
      "    - {name: a, address: 127.0.0.1:2}",
      "    - {name: a, address: 127.0.0.1:3}",
    ))),
    [
      "13:11 broker.mqtt.listen.tcp[#1] has no name; each of several tcp doors needs its own, write name:",
      `15:18 broker.mqtt.listen.tcp[a].name "a" is also the name of broker.mqtt.listen.tcp[a] at ${FILE}:14; give each door its own`,
    ],
  );
  assert.deepEqual(
    found(mqtt("listen:", "  tcp: [{name: ws, address: :1}]", "  ws: {address: :2}")),
    [
      `13:7 broker.mqtt.listen.ws.name "ws" is also the name of broker.mqtt.listen.tcp[ws] at ${FILE}:12; give each door its own`,
    ],
  );
});

Deno.test("02b 4.1 MQTT and operations names are separate", () => {
  assert.deepEqual(
    found(broker(
      "mqtt: {listen: {tcp: {address: 127.0.0.1:1}}}",
      "operations: {listen: {tcp: {address: 127.0.0.1:2}}}",
    )),
    [],
  );
});

Deno.test("02b 4.1 a block without an address is refused", () => {
  assert.deepEqual(findings(load(mqtt("listen:", "  tcp:"))), [
    "12:7 broker.mqtt.listen.tcp.address is missing; write host:port",
  ]);
  assert.deepEqual(
    accepted(load(mqtt("listen: {tcp: {name: tcp, address: :1}}"))).mqtt.doors[0].path,
    "broker.mqtt.listen.tcp",
  );
  assert.deepEqual(findings(load(mqtt("listen: {tcp: []}"))), [
    "11:19 broker.mqtt.listen.tcp is an empty list; write a mapping of keys, or a list of them",
  ]);
});

Deno.test("02b 4.1 two doors on one port are refused, quoting both", () => {
  assert.deepEqual(
    findings(load(mqtt(
      "listen:",
      "  tcp:",
      "    - {name: a, address: 127.0.0.1:1883}",
      "    - {name: b, address: 0.0.0.0:01883}",
    ))),
    [
      `14:30 broker.mqtt.listen.tcp[b].address "0.0.0.0:01883" wants the port of ` +
      `broker.mqtt.listen.tcp[a] "127.0.0.1:1883" at ${FILE}:13; give each door its own address`,
    ],
  );
});

Deno.test("02b 4.1 ports clash across kinds, with operations, and with the default door", () => {
  assert.deepEqual(
    found(broker(
      "mqtt: {listen: {ws: {address: 127.0.0.1:9090}}}",
      "operations: {listen: {tcp: {address: localhost:9090}}}",
    )),
    [],
  );
  assert.match(
    found(broker(
      "mqtt: {listen: {ws: {address: :9090}}}",
      "operations: {listen: {tcp: {address: 127.0.0.1:9090}}}",
    ))[0],
    /^11:40 broker\.operations\.listen\.tcp\.address "127\.0\.0\.1:9090" wants the port of broker\.mqtt\.listen\.ws ":9090"/,
  );
  assert.match(
    found(broker("operations: {listen: {tcp: {address: 127.0.0.1:1883}}}"))[0],
    /wants the port of the MQTT door ":1883" that opens when none is written; give each/,
  );
});

Deno.test("02a 16.1 two sockets on one cleaned path are refused, a directory too", () => {
  assert.deepEqual(
    found(broker(
      "mqtt: {listen: {unix: {path: /run/a.sock}}}",
      "operations: {listen: {unix: {path: /run/./a.sock}}}",
    )),
    [
      `11:38 broker.operations.listen.unix.path "/run/./a.sock" is the socket of ` +
      `broker.mqtt.listen.unix "/run/a.sock" at ${FILE}:10; give each door its own`,
    ],
  );
  for (const path of ["/run/", "/run/.", "/run/.."]) {
    assert.match(
      found(mqtt("listen:", `  unix: {path: ${path}}`))[0],
      / names a directory; write /,
    );
  }
  const [door] = doors(
    mqtt("listen:", '  unix: {path: "@saguin", mode: "0600", proxy_protocol: true}'),
  );
  assert.ok(door.kind === "unix");
  assert.deepEqual([door.socket, door.mode, door.proxyProtocol], ["@saguin", 0o600, true]);
});

Deno.test("keys of another kind of door are refused with where they belong", () => {
  assert.deepEqual(
    found(mqtt(
      "listen:",
      "  unix: {path: /run/a.sock, tls: {}}",
      "  tcp: {address: :1, proxy_protocol: true, same_origin: true, acl_file: /a}",
    )),
    [
      "12:33 broker.mqtt.listen.unix.tls is refused: a Unix socket is guarded by its mode; remove it, or write it on a tcp or ws door",
      "13:26 broker.mqtt.listen.tcp.proxy_protocol is refused: only a Unix socket takes the PROXY protocol; write it on a unix door",
      "13:48 broker.mqtt.listen.tcp.same_origin is refused: only a web page has an origin; write it on a ws door",
      "13:67 broker.mqtt.listen.tcp.acl_file holds for every door; write it as broker.mqtt.acl_file",
    ],
  );
});

Deno.test("02a 16.3 a TLS block resolves, and a rule without its authority is refused", () => {
  const [plain, mutual, lax] = doors(mqtt(
    "listen:",
    "  tcp:",
    "    - {name: a, address: :1, tls: {cert_file: /c, key_file: /k}}",
    "    - {name: b, address: :2, tls: {cert_file: /c, key_file: /k, client_ca_file: /ca, min_version: 1.3}}",
    "    - {name: c, address: :3, tls: {cert_file: /c, key_file: /k, client_ca_file: /ca, require_certificate: false}}",
  ));
  const base = { certFile: "/c", keyFile: "/k", minVersion: "1.2" };
  assert.ok(plain.kind === "tcp" && mutual.kind === "tcp" && lax.kind === "tcp");
  assert.deepEqual(plain.tls, { ...base, clientCaFile: undefined, requireCertificate: false });
  assert.deepEqual(mutual.tls, {
    ...base,
    minVersion: "1.3",
    clientCaFile: "/ca",
    requireCertificate: true,
  });
  assert.deepEqual(lax.tls, { ...base, clientCaFile: "/ca", requireCertificate: false });
  assert.match(
    found(
      mqtt(
        "listen:",
        "  tcp: {address: :1, tls: {cert_file: /c, key_file: /k, require_certificate: true}}",
      ),
    )[0],
    /require_certificate "true" stands without client_ca_file.*; write both$/,
  );
});

Deno.test("02a 16.2 an origin is scheme, host and port and nothing else", () => {
  const origins = (...list: readonly string[]) =>
    mqtt(
      "listen:",
      `  ws: {address: :1, allowed_origins: [${list.map((o) => `"${o}"`).join(", ")}]}`,
    );
  const [door] = doors(origins("https://a.example", "http://b.example:8080", "http://[::1]:80"));
  assert.ok(door.kind === "ws");
  assert.equal(door.sameOrigin, true);
  assert.deepEqual(door.allowedOrigins, [
    "https://a.example",
    "http://b.example:8080",
    "http://[::1]:80",
  ]);
  for (
    const wrong of [
      "null",
      "*",
      "https://*.example",
      "https://a.example/",
      "a.example",
      "https://u@a.example",
      "https://a.example?x",
      "ftp://a.example",
      "https://a.example:99999",
    ]
  ) {
    assert.match(found(origins(wrong))[0] ?? "accepted", /; write scheme:\/\/host/, wrong);
  }
});

Deno.test("02b 6 the file in force decides who may come in, unless it is written", () => {
  const admits = (keys: string, door: string) => {
    const [it] = doors(mqtt(keys, "listen:", `  tcp: {address: :1${door}}`));
    return [it.passwordFile, it.allowAnonymous];
  };
  assert.deepEqual(admits("min_protocol_version: 5", ""), [undefined, true]);
  assert.deepEqual(admits("allow_anonymous: true", ""), [undefined, true]);
  assert.deepEqual(admits("password_file: /p", ""), ["/p", false]);
  assert.deepEqual(admits("password_file: /p", ", allow_anonymous: true"), ["/p", true]);
  assert.deepEqual(admits("password_file: /p", ", password_file: /own"), ["/own", false]);
});

Deno.test("02b 6 a door with a file of its own does not inherit allow_anonymous", () => {
  const [own, inherits, written] = doors(mqtt(
    "password_file: /p",
    "allow_anonymous: true",
    "listen:",
    "  tcp:",
    "    - {name: a, address: :1, password_file: /own}",
    "    - {name: b, address: :2}",
    "    - {name: c, address: :3, password_file: /own, allow_anonymous: true}",
  ));
  assert.deepEqual([own.passwordFile, own.allowAnonymous], ["/own", false]);
  assert.deepEqual([inherits.passwordFile, inherits.allowAnonymous], ["/p", true]);
  assert.deepEqual([written.passwordFile, written.allowAnonymous], ["/own", true]);
});

Deno.test("02b 6, 19 allow_anonymous false where nobody can be known is refused", () => {
  const says = '"false" admits nobody: there is no password_file to know anybody by; ' +
    "write a password_file, or leave the key out";
  assert.deepEqual(findings(load(mqtt("allow_anonymous: false"))), [
    `11:22 broker.mqtt.allow_anonymous ${says}`,
  ]);
  assert.deepEqual(found(mqtt("allow_anonymous: false", "listen: {tcp: {address: :1}}")), [
    `11:22 broker.mqtt.allow_anonymous ${says}`,
  ]);
  assert.deepEqual(found(mqtt("listen: {tcp: {address: :1, allow_anonymous: false}}")), [
    `11:50 broker.mqtt.listen.tcp.allow_anonymous ${says}`,
  ]);
  assert.deepEqual(found(mqtt("allow_anonymous: false", "password_file: /p")), []);
  assert.deepEqual(
    found(mqtt("allow_anonymous: false", "listen: {unix: {path: /s, proxy_protocol: true}}")),
    [],
  );
  assert.deepEqual(
    found(mqtt(
      "allow_anonymous: false",
      "listen: {tcp: {address: :1, tls: {cert_file: /c, key_file: /k, client_ca_file: /ca}}}",
    )),
    [],
  );
});

Deno.test("02b 7.1 an ACL file needs names, and no anonymous clients", () => {
  assert.match(
    found(mqtt("acl_file: /acl"))[0],
    /^11:15 broker\.mqtt\.acl_file "\/acl" grants by user name, and no door proves one; write /,
  );
  assert.match(
    found(mqtt("acl_file: /acl", "listen: {unix: {path: /s, proxy_protocol: true}}"))[0],
    /no door proves one/,
  );
  assert.deepEqual(found(mqtt("acl_file: /acl", "password_file: /p")), []);
  assert.match(
    found(mqtt("acl_file: /acl", "password_file: /p", "allow_anonymous: true"))[0],
    /^13:22 broker\.mqtt\.allow_anonymous "true" cannot stand beside acl_file/,
  );
});

Deno.test("02b 9 operations beyond this machine must authenticate, and must open something", () => {
  const operations = (...lines: readonly string[]) =>
    found(broker("operations:", ...lines.map((line) => `  ${line}`)));
  assert.deepEqual(operations("listen: {tcp: {address: 127.0.0.1:9090}}"), []);
  assert.deepEqual(operations("listen: {tcp: {address: :9090}}", "password_file: /p"), []);
  assert.deepEqual(operations("listen: {unix: {path: /s}}"), []);
  assert.match(
    operations("listen: {tcp: {address: 0.0.0.0:9090}}")[0],
    /can be reached from other machines and asks nobody who they are; write a password_file/,
  );
  const tls = "cert_file: /c, key_file: /k, client_ca_file: /ca";
  assert.deepEqual(operations(`listen: {tcp: {address: :9090, tls: {${tls}}}}`), []);
  assert.equal(
    operations(`listen: {tcp: {address: :9090, tls: {${tls}, require_certificate: false}}}`).length,
    1,
  );
  assert.deepEqual(operations("listen: {}"), [
    "10:3 broker.operations opens no door; write listen: with tcp: or unix:, or remove the block",
  ]);
  assert.match(
    operations("listen: {ws: {address: :1}}")[0],
    /is no operations door; write tcp or unix/,
  );
});

Deno.test("02b 9 operations doors come resolved: the block's file, or the door's own", () => {
  const { operations } = accepted(load(
    broker(
      "operations:",
      "  password_file: /all",
      "  min_scrape_interval: 90s",
      "  listen:",
      "    unix: {path: /ops.sock, proxy_protocol: true}",
      "    tcp:",
      "      - {name: box, address: 127.0.0.1:9090, password_file: /box}",
      "      - {name: plant, address: :9443, tls: {cert_file: /c, key_file: /k}}",
    ),
    {},
    ALL_BUILT,
  ));
  assert.equal(operations?.minScrapeIntervalMs, 90_000);
  assert.deepEqual(
    operations.doors.map(({ kind, name, passwordFile }) => [kind, name, passwordFile]),
    [["tcp", "box", "/box"], ["tcp", "plant", "/all"], ["unix", "unix", "/all"]],
  );
  const [, plant, unix] = operations.doors;
  assert.equal(plant.kind === "tcp" && plant.tls?.certFile, "/c");
  assert.ok(unix.kind === "unix" && unix.proxyProtocol && unix.mode === 0o660);
  assert.equal(accepted(load(broker(), {}, ALL_BUILT)).operations, undefined);
});

Deno.test("a door's name holds nothing that a label or a log line could not", () => {
  for (const name of ['"a]b"', '"a\\nb"', "x".repeat(129)]) {
    assert.match(
      found(mqtt("listen:", `  tcp: [{name: ${name}, address: :1}]`))[0],
      / holds a bracket or a control character; write | is longer than 128 characters; write /,
    );
  }
});
