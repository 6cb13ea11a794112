/** Routes that tell of files: what they say, and what of the files they never say. */
import assert from "node:assert/strict";
import { loadCredentials } from "../../src/auth/credentials.ts";
import { Findings } from "../../src/config/finding.ts";
import { loadConfiguration } from "../../src/config/load.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import type { HttpResponse } from "../../src/operations/http/message.ts";
import { acl } from "../../src/operations/v1/acl.ts";
import { ConfigRoute } from "../../src/operations/v1/config.ts";
import { users } from "../../src/operations/v1/users.ts";
import { cheapHash } from "../auth/cheap_hash.ts";
import { ALL_BUILT, broker, FILE, LEAST } from "../config/support.ts";

const USERS = `ada:${cheapHash("engine")}\nbob:${cheapHash("builder")}\n`;
const OWN = `carol:${cheapHash("vault")}\n`;
const OPERATORS = `op:${cheapHash("root")}:/metrics\n`;
const ACL = `roles:
  reader:
    - {channel: events, allow: [read]}
  own:
    - {topic: "home/%u/#", allow: [read, write]}
users:
  ada: [reader, own]
  "*": [reader]
`;
const CONFIGURATION = broker(
  "mqtt:",
  "  password_file: /users",
  "  acl_file: /acl",
  "  listen:",
  "    tcp:",
  "      - {name: plain, address: 127.0.0.1:1883}",
  "      - {name: own, address: 127.0.0.1:1884, password_file: /own}",
  "      - {name: open, address: 127.0.0.1:1885, tls: {cert_file: /c, key_file: /k, client_ca_file: /ca, require_certificate: false}}",
  "      - {name: shut, address: 127.0.0.1:1886, tls: {cert_file: /c, key_file: /k, client_ca_file: /ca}}",
  "    unix: {path: /run/s.sock}",
  "operations:",
  "  password_file: /operators",
  "  listen: {tcp: {address: 127.0.0.1:9090}}",
) + "channels:\n  - !include /more.yaml\n";
const FILES: Readonly<Record<string, string>> = {
  [FILE]: CONFIGURATION,
  "/more.yaml":
    "events: {type: append}\nstate: {type: latest, storage: ram, retention_period: 90s}\n" +
    "jobs: {type: queue, max_bytes: 1MiB}\n",
  "/users": USERS,
  "/own": OWN,
  "/operators": OPERATORS,
  "/acl": ACL,
};

function load() {
  const readFile = (path: string) => {
    if (!(path in FILES)) throw new Deno.errors.NotFound(`no ${path}`);
    return new TextEncoder().encode(FILES[path]);
  };
  const loading = loadConfiguration(FILE, { ...REAL_SURROUNDINGS, ...ALL_BUILT, readFile });
  if ("findings" in loading) assert.fail(loading.findings);
  const findings = new Findings();
  const credentials = loadCredentials(loading.configuration, readFile, findings);
  assert.ok(findings.empty, findings.report(FILE));
  return { ...loading, credentials };
}

function text({ body }: HttpResponse): string {
  return new TextDecoder().decode(body);
}

const LOADED = load();

Deno.test("05 7.8 users: by door, names only, every door with its whole answer", () => {
  const answer = users(LOADED.configuration, LOADED.credentials.doors);
  const both = { users: ["ada", "bob"], anonymous_allowed: false };
  assert.deepEqual(JSON.parse(text(answer)), {
    users: ["ada", "bob", "carol"],
    anonymous_allowed: false,
    listeners: {
      plain: { ...both, certificate: "none" },
      own: { users: ["carol"], anonymous_allowed: false, certificate: "none" },
      open: { ...both, certificate: "accepted" },
      shut: { ...both, certificate: "required" },
      unix: { ...both, certificate: "none" },
    },
  });
});

Deno.test("05 7.1 acl: what one user may do, the pattern that decided, and the client id only if given", () => {
  const ask = (query: string) => acl(LOADED.credentials.acl, new URLSearchParams(query));
  assert.equal(ask("").status, 400);
  const ada = JSON.parse(text(ask("user=ada")));
  assert.equal(ada.pattern_applied, "ada");
  assert.deepEqual(ada.patterns_matched, ["ada", "*"]);
  assert.equal(ada.acl_file, "/acl");
  assert.equal(ada.client_id_allowed, null);
  assert.ok(ada.grants.some((grant: { subject: string }) => grant.subject === "home/ada/#"));
  assert.deepEqual(ada.grants_withheld, []);
  assert.equal(JSON.parse(text(ask("user=ada&client_id=c1"))).client_id_allowed, true);
  const strange = JSON.parse(text(ask("user=a%2Fb")));
  assert.equal(strange.pattern_applied, "*");
  assert.equal(
    text(acl(undefined, new URLSearchParams("user=x"))),
    '{"acl_file":null,"everything_allowed":true}',
  );
});

Deno.test("05 7.2 config: resolved, with defaults, in the file's own spelling, and where a channel stands", () => {
  const route = new ConfigRoute(LOADED.settings);
  const whole = JSON.parse(text(route.answer(new URLSearchParams())));
  assert.deepEqual(Object.keys(whole).sort(), ["broker", "channels"]);
  assert.equal(whole.broker.operations.min_scrape_interval, "60s");
  assert.equal(whole.broker.limits.max_connections, 10000);
  assert.equal(whole.broker.mqtt.listen.tcp[1].password_file, "/own");
  assert.deepEqual(whole.channels.state, {
    type: "latest",
    filter: "state/#",
    storage: "ram",
    retention_period: "90s",
    deletion_retention_period: "1d",
    configured_in: "/more.yaml",
  });
  assert.equal(whole.channels.events.storage, "disk");
  assert.equal(whole.channels.jobs.max_bytes, "1MiB");
  assert.ok(!("jobs__dlq" in whole.channels));
});

Deno.test("05 7.2 config: sections compose, an unused one is empty, an unknown one lists the seven", () => {
  const route = new ConfigRoute(LOADED.settings);
  const of = (query: string) => route.answer(new URLSearchParams(query));
  const two = JSON.parse(text(of("section=providers&section=bridges")));
  assert.deepEqual(Object.keys(two), ["providers", "bridges"]);
  assert.deepEqual(Object.keys(two.providers), ["disk", "ram"]);
  assert.deepEqual(two.bridges, {});
  for (const name of ["channels", "limits", "listeners", "operations", "storage"]) {
    const { [name]: section } = JSON.parse(text(of(`section=${name}`)));
    assert.ok(Object.keys(section).length > 0, name);
  }
  const unknown = of("section=limits&section=secrets");
  assert.equal(unknown.status, 400);
  assert.match(
    text(unknown),
    /bridges, channels, limits, listeners, operations, providers, storage/,
  );
  const least = loadConfiguration(FILE, {
    ...REAL_SURROUNDINGS,
    readFile: () => new TextEncoder().encode(LEAST),
  });
  if ("findings" in least) assert.fail(least.findings);
  assert.equal(
    text(new ConfigRoute(least.settings).answer(new URLSearchParams("section=listeners"))),
    '{"listeners":{"tcp":{"address":":1883"}}}',
  );
});

Deno.test("05 14 nothing that a named file holds leaves by a route, and no operator's name", () => {
  const { configuration, settings, credentials } = LOADED;
  const config = text(new ConfigRoute(settings).answer(new URLSearchParams()));
  const bodies = [
    config,
    text(users(configuration, credentials.doors)),
    text(acl(credentials.acl, new URLSearchParams("user=ada"))),
  ].join("\n");
  for (const path of ["/users", "/own", "/operators"]) {
    assert.ok(config.includes(`"${path}"`), path);
    for (const line of FILES[path].trim().split("\n")) {
      const [name, hash] = line.split(":");
      assert.ok(!bodies.includes(hash), path);
      for (const part of hash.split("$").filter((piece) => piece.length > 8)) {
        assert.ok(!bodies.includes(part), path);
      }
      if (path === "/operators") assert.ok(!bodies.includes(`"${name}"`));
    }
  }
});
