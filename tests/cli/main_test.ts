import assert from "node:assert/strict";
import type { Configuration } from "../../src/config/configuration.ts";
import { type Dependencies, main } from "../../src/cli/main.ts";
import { REAL_SURROUNDINGS, type Surroundings } from "../../src/config/walk.ts";
import { StorageFailure } from "../../src/storage/contract.ts";
import { NOTICES } from "../../src/notices.ts";
import { VERSION, versionLine } from "../../src/version.ts";
import { ALL_BUILT, broker, LEAST } from "../config/support.ts";

/** Runs a command line over one file, `c.yaml`. */
async function run(
  argv: readonly string[],
  text = LEAST,
  start: Dependencies["start"] = () => Promise.resolve(0),
  surroundings: Partial<Surroundings> = {},
) {
  const outcome = { stdout: "", stderr: "", started: undefined as Configuration | undefined };
  const code = await main(argv, {
    start: (configuration, credentials, settings) => {
      outcome.started = configuration;
      return start(configuration, credentials, settings);
    },
    stdout: (text) => outcome.stdout += text,
    stderr: (text) => outcome.stderr += text,
    input: {
      lines: () => assert.fail("standard input was read"),
      secrets: () => assert.fail("a password was asked for"),
    },
    surroundings: {
      ...REAL_SURROUNDINGS,
      ...surroundings,
      readFile: (path) => {
        if (path !== "c.yaml") throw new Deno.errors.NotFound("No such file (os error 2)");
        return new TextEncoder().encode(text);
      },
    },
  });
  return { code, ...outcome };
}

const BROKEN = LEAST.replace("id: b", "id: b\n  log_level: loud");

Deno.test("--version prints the one version", async () => {
  const outcome = await run(["-version"]);
  assert.deepEqual([outcome.code, outcome.stderr], [0, ""]);
  assert.equal(outcome.stdout, `${versionLine()}\n`);
  assert.ok(outcome.stdout.startsWith(`saguin ${VERSION} (dev, source, Deno `));
  const { version } = JSON.parse(
    Deno.readTextFileSync(new URL("../../deno.json", import.meta.url)),
  );
  assert.equal(version, VERSION);
});

Deno.test("02b 16 --licenses prints the notices", async () => {
  assert.deepEqual(await run(["--licenses"]), {
    code: 0,
    stdout: NOTICES,
    stderr: "",
    started: undefined,
  });
});

Deno.test("02b 16 --check-config lists the channels and starts nothing", async () => {
  const text = `${LEAST}channels:\n  q: {type: queue}\n  a: {type: append}\n`;
  const outcome = await run(["--check-config", "c.yaml"], text);
  assert.equal(outcome.code, 0);
  assert.equal(outcome.stdout, 'c.yaml: ok\nchannel "a" (append)\nchannel "q" (queue)\n');
  assert.equal(outcome.stderr, "");
  assert.equal(outcome.started, undefined);
});

Deno.test("07 C1 --check-config lists AMQP doors and ingest routes", async () => {
  const text =
    `${LEAST.replace("storage:", "amqp: {listen: {tcp: {address: 127.0.0.1:5672}}}\n  storage:")}` +
    "ingest:\n  routes: ['plant/#:readings', {filter: a/+, table: other}]\n";
  const outcome = await run(["--check-config", "c.yaml"], text);
  assert.deepEqual([outcome.code, outcome.stderr], [0, ""]);
  assert.equal(
    outcome.stdout,
    'c.yaml: ok\nAMQP listener "tcp" (127.0.0.1:5672)\n' +
      'ingest "plant/#": into table readings\ningest "a/+": into table other\n',
  );
});

Deno.test("02b 16 --check-config and a start refuse identically, on standard error", async () => {
  const checked = await run(["--check-config", "c.yaml"], BROKEN);
  const started = await run(["--config", "c.yaml"], BROKEN);
  assert.deepEqual(checked, started);
  assert.deepEqual([checked.code, checked.stdout, checked.started], [1, "", undefined]);
  assert.equal(
    checked.stderr,
    'configuration is invalid:\nc.yaml:\n  - 3:14 broker.log_level "loud" is not a log level; ' +
      "write debug, info, warn or error, or leave the key out for info\n",
  );
});

Deno.test("02b 16 --output puts the document alone on standard output", async () => {
  const outcome = await run(["--check-config", "c.yaml", "--output"]);
  assert.deepEqual([outcome.code, outcome.stderr], [0, "c.yaml: ok\n"]);
  assert.match(outcome.stdout, /^broker:\n {2}id: b\n/);
  const again = await run(["--check-config", "c.yaml", "--output"], outcome.stdout);
  assert.deepEqual([again.code, again.stdout], [0, outcome.stdout]);
  const refused = await run(["--check-config", "c.yaml", "--output"], BROKEN);
  assert.deepEqual([refused.code, refused.stdout], [1, ""]);
});

Deno.test("--config hands the configuration over and ends with the broker's exit code", async () => {
  const outcome = await run(["--config", "c.yaml"], LEAST, () => Promise.resolve(7));
  assert.equal(outcome.code, 7);
  assert.equal(outcome.started?.brokerId, "b");
  assert.deepEqual([outcome.stdout, outcome.stderr], ["", ""]);
});

Deno.test("a start that cannot is one sentence and exit code 1", async () => {
  const failures: readonly (readonly [Error, RegExp])[] = [
    [
      new StorageFailure("failed", "provider disk: /x.lock is held"),
      /^saguin: provider disk: \/x\.lock is held\n$/,
    ],
    [new Deno.errors.AddrInUse("port 1883 is taken"), /^saguin: port 1883 is taken\n$/],
    [new Error("one\nline"), /^saguin: one\\nline\n$/],
    [new TypeError("ours"), /^saguin: TypeError: ours\n\s+at /],
  ];
  for (const [error, says] of failures) {
    const outcome = await run(["--config", "c.yaml"], LEAST, () => Promise.reject(error));
    assert.equal(outcome.code, 1);
    assert.match(outcome.stderr, says);
  }
});

Deno.test("a refused command line reads no file and exits 1", async () => {
  for (const argv of [[], ["--route"], ["--nonsense"]]) {
    const outcome = await run(argv, BROKEN);
    assert.equal(outcome.code, 1);
    assert.equal(outcome.stdout, "");
    assert.match(outcome.stderr, /^saguin: .*\n$/);
  }
});

Deno.test("02b 16 files that the configuration names are opened by a check and by a start alike", async () => {
  const text = broker("mqtt: {password_file: /p}");
  const refuse = () => assert.fail("a broker was started");
  const checked = await run(["--check-config", "c.yaml"], text, refuse, ALL_BUILT);
  const started = await run(["--config", "c.yaml"], text, refuse, ALL_BUILT);
  assert.deepEqual(checked, started);
  assert.deepEqual([checked.code, checked.stdout], [1, ""]);
  assert.equal(
    checked.stderr,
    'configuration is invalid:\nc.yaml:\n  - 10:25 broker.mqtt.password_file "/p" cannot be read: ' +
      "No such file; name a readable file\n",
  );
  const output = await run(["--check-config", "c.yaml", "--output"], text, refuse, ALL_BUILT);
  assert.deepEqual([output.code, output.stderr], [1, checked.stderr]);
  assert.match(output.stdout, /password_file: \/p/, "still printed");
});

Deno.test("02b 16 a missing file is told together with everything else, also of keys that are not used", async () => {
  const text = broker(
    "log_level: loud",
    "mqtt:",
    "  password_file: /p",
    "  listen:",
    "    tcp: {address: ':1883', tls: {cert_file: /c, key_file: /k}}",
    "    ws: {address: ':8083', password_file: /p}",
  );
  const refuse = () => assert.fail("a broker was started");
  const { code, stderr } = await run(["--check-config", "c.yaml"], text, refuse);
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `configuration is invalid:
c.yaml:
  - 10:14 broker.log_level "loud" is not a log level; write debug, info, warn or error, or leave the key out for info
  - 12:20 broker.mqtt.password_file "/p" cannot be read: No such file; name a readable file
  - 14:48 broker.mqtt.listen.tcp.tls.cert_file "/c" cannot be read: No such file; name a readable file
  - 14:62 broker.mqtt.listen.tcp.tls.key_file "/k" cannot be read: No such file; name a readable file
  - 15:45 broker.mqtt.listen.ws.password_file "/p" cannot be read: No such file; name a readable file
`,
  );
});

Deno.test("a start is given the credentials that were read", async () => {
  const seen: unknown[] = [];
  await run(["--config", "c.yaml"], LEAST, (_configuration, credentials) => {
    seen.push(credentials.doors.get("tcp"), credentials.acl);
    return Promise.resolve(0);
  });
  assert.deepEqual(seen, [{ passwords: undefined, allowAnonymous: true }, undefined]);
});
