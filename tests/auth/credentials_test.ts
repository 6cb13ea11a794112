import assert from "node:assert/strict";
import { doorsWithoutIdentity, loadCredentials } from "../../src/auth/credentials.ts";
import { Findings } from "../../src/config/finding.ts";
import { accepted, ALL_BUILT, broker, FILE, load } from "../config/support.ts";
import { cheapHash, utf8 } from "./support.ts";

const HASH = cheapHash("pw");
const ALICE = `alice:${HASH}\n`;

/** Loads what a configuration of these lines under `mqtt:` names, from `files`. */
function loaded(lines: readonly string[], files: Readonly<Record<string, string>>) {
  const text = broker("mqtt:", ...lines.map((line) => `  ${line}`));
  const configuration = accepted(load(text, {}, ALL_BUILT));
  const findings = new Findings();
  const read: string[] = [];
  const credentials = loadCredentials(configuration, (path) => {
    read.push(path);
    if (!Object.hasOwn(files, path)) throw new Deno.errors.NotFound("No such file (os error 2)");
    return utf8(files[path]);
  }, findings);
  return { credentials, read, report: findings.empty ? "" : findings.report(FILE) };
}

const TWO_DOORS = [
  "password_file: /shared",
  "listen:",
  "  tcp:",
  "    - {name: plain, address: 127.0.0.1:1883}",
  "    - {name: own, address: 127.0.0.1:1884, password_file: /own}",
  "    - {name: mixed, address: 127.0.0.1:1885, allow_anonymous: true}",
];

Deno.test("02b 6 each door has the file in force, and a shared one is read once", () => {
  const { credentials, read, report } = loaded(TWO_DOORS, {
    "/shared": ALICE,
    "/own": `bob:${HASH}\n`,
  });
  assert.equal(report, "");
  assert.deepEqual(read.toSorted(), ["/own", "/shared"]);
  const door = (name: string) => {
    const { passwords, allowAnonymous } = credentials.doors.get(name)!;
    return [passwords?.users, allowAnonymous];
  };
  assert.deepEqual(door("plain"), [["alice"], false]);
  assert.deepEqual(door("own"), [["bob"], false]);
  assert.deepEqual(door("mixed"), [["alice"], true]);
  assert.equal(credentials.acl, undefined);
});

Deno.test("02b 6 with no file named everybody comes in, and nothing is read", () => {
  const { credentials, read } = loaded(["min_protocol_version: 5"], {});
  assert.deepEqual(read, []);
  assert.deepEqual(credentials.doors.get("tcp"), { passwords: undefined, allowAnonymous: true });
});

Deno.test("02b 16 every unreadable file is told at once, at every key that names it", () => {
  const lines = TWO_DOORS.map((line) =>
    line.replace("/own}", "/shared}").replace(", allow_anonymous: true", "")
  );
  const { report } = loaded([
    "acl_file: /acl",
    ...lines,
    "    - {name: last, address: ':1', password_file: /own}",
  ], {});
  const says = "cannot be read: No such file; name a readable file";
  assert.equal(
    report.replaceAll(/:\n {2}- \d+:\d+ /g, ":\n").replaceAll(/ {2}- \d+:\d+ /g, ""),
    `configuration is invalid:
/etc/saguin/saguin.yaml:
broker.mqtt.acl_file "/acl" ${says}
broker.mqtt.password_file "/shared" ${says}
broker.mqtt.listen.tcp[own].password_file "/shared" ${says}
broker.mqtt.listen.tcp[last].password_file "/own" ${says}
`,
  );
});

Deno.test("02b 6 a file of no users is refused where its door admits nobody else", () => {
  const { report } = loaded(TWO_DOORS, { "/shared": "# nobody\n", "/own": ALICE });
  assert.ok(
    report.includes(
      'broker.mqtt.password_file "/shared" names no user, and nobody else is admitted at ' +
        "broker.mqtt.listen.tcp[plain]; add one with saguin --passwd add",
    ),
    report,
  );
});

Deno.test("02b 6 the users of an AMQP door are read with the others and refused like them", () => {
  const amqp = ["amqp:", "  listen: {tcp: {address: ':5672', password_file: /amqp}}"];
  const text = broker(...amqp);
  const configuration = accepted(load(text));
  const attempt = (file: string | undefined) => {
    const findings = new Findings();
    const credentials = loadCredentials(configuration, () => {
      if (file === undefined) throw new Deno.errors.NotFound("No such file (os error 2)");
      return utf8(file);
    }, findings);
    return { credentials, report: findings.empty ? "" : findings.report(FILE) };
  };
  const key = 'broker.amqp.listen.tcp.password_file "/amqp"';
  assert.match(attempt(undefined).report, new RegExp(`:\\n {2}- 11:\\d+ ${key} cannot be read`));
  assert.match(attempt("").report, new RegExp(`${key} names no user`));
  assert.match(attempt("alice:plain\n").report, /\/amqp:\n {2}- 1:1 user "alice" has no hash/);
  const { credentials, report } = attempt(ALICE);
  assert.equal(report, "");
  assert.deepEqual(credentials.amqpDoors.get("tcp")?.passwords?.users, ["alice"]);
  assert.equal(credentials.doors.get("tcp")?.passwords, undefined);
});

Deno.test("02b 6 a file of no users is no fault where certificates or nameless clients come in", () => {
  const { report } = loaded([
    "password_file: /empty",
    "listen:",
    "  tcp:",
    "    address: 127.0.0.1:8883",
    "    tls: {cert_file: /c, key_file: /k, client_ca_file: /ca, require_certificate: false}",
    "  ws: {address: 127.0.0.1:8083, allow_anonymous: true, password_file: /empty}",
    "  unix: {path: /run/s, proxy_protocol: true}",
  ], { "/empty": "" });
  assert.equal(report, "");
});

Deno.test("a faulty file is told for its faults, not for having no users", () => {
  const { report } = loaded(["password_file: /shared"], { "/shared": "alice:plain\n" });
  assert.equal(report.split("\n").length, 4, report);
  assert.match(report, /1:1 user "alice" has no hash where one belongs/);
});

Deno.test("02b 7 the ACL file is read against the channels of the configuration", () => {
  const files = {
    "/shared": ALICE,
    "/acl": "roles: {r: [{channel: x, allow: [read]}]}\nusers: {}\n",
  };
  const { report } = loaded(["password_file: /shared", "acl_file: /acl"], files);
  assert.ok(
    report.includes('/acl:\n  - 1:23 roles.r[1].channel "x" is a channel that is not configured'),
    report,
  );
  const good = loaded(["password_file: /shared", "acl_file: /acl"], {
    ...files,
    "/acl": "roles: {r: [{topic: x, allow: [read]}]}\nusers: {alice: [r]}\n",
  });
  assert.equal(good.report, "");
  assert.ok(good.credentials.acl?.rules("alice", "c").mayRead("x", undefined));
});

function unidentified(...lines: readonly string[]): string[] {
  const text = broker("mqtt:", ...lines.map((line) => `  ${line}`));
  return doorsWithoutIdentity(accepted(load(text, {}, ALL_BUILT))).map(({ name }) => name);
}

Deno.test("02b 7.1 beside an ACL file a door that asks nobody who they are is told", () => {
  const tls = "{cert_file: /c, key_file: /k, client_ca_file: /ca";
  const doors = [
    "listen:",
    "  tcp:",
    `    - {name: mutual, address: 127.0.0.1:1, tls: ${tls}}}`,
    `    - {name: maybe, address: 127.0.0.1:2, tls: ${tls}, require_certificate: false}}`,
    "    - {name: open, address: 127.0.0.1:3}",
    "    - {name: own, address: 127.0.0.1:4, password_file: /p}",
    "  unix: {path: /run/s, proxy_protocol: true}",
  ];
  assert.deepEqual(unidentified("acl_file: /acl", ...doors), ["maybe", "open", "unix"]);
  assert.deepEqual(unidentified("acl_file: /acl", "password_file: /shared", ...doors), []);
  assert.deepEqual(unidentified(...doors), []);
});
