/** Files that a configuration names and that are no files: FIFOs, devices, directories. */
import assert from "node:assert/strict";
import { executable, runToEnd, temporaryPlace } from "../support/broker_process.ts";
import { patient, within } from "../support/wait.ts";

const STEP_MS = patient(60_000);

const LEAST = `broker:
  id: b
  storage:
    default: ram
    default_retention_period: none
    default_retention_bytes: none
    providers:
      ram: {type: memory, snapshot_dir: none}
`;

/** Nobody ever writes there: whoever opens it to read waits for ever. */
function fifo(path: string): string {
  const made = new Deno.Command("mkfifo", { args: [path] }).outputSync();
  assert.ok(made.success);
  return path;
}

async function shell(script: string, ...args: readonly string[]) {
  const child = new Deno.Command("bash", {
    args: ["-c", script, executable(), ...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { code, stdout, stderr } = await within("the end of a shell", child.output(), STEP_MS);
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, out, err };
}

Deno.test("02b 16 a configuration that is a FIFO, a device or a directory is refused by name, in no time", async () => {
  const { directory } = temporaryPlace();
  const cases = [
    [fifo(`${directory}/fifo`), "a FIFO"],
    ["/dev/zero", "a device"],
    [directory, "a directory"],
  ];
  for (const [path, kind] of cases) {
    const says = `cannot be read: it is ${kind}, not a file; name a readable file`;
    for (const flag of kind === "a FIFO" ? ["--check-config", "--config"] : ["--check-config"]) {
      const { code, stdout, stderr } = await runToEnd([flag, path]);
      assert.deepEqual([code, stdout], [1, ""]);
      // There is no line to point at.
      assert.equal(stderr, `configuration is invalid:\n${path}:\n  - ${says}\n`);
    }
  }
  const passwd = await runToEnd(["--passwd", "list", `${directory}/fifo`]);
  assert.deepEqual([passwd.code, passwd.stderr], [
    1,
    `saguin: ${directory}/fifo: it is a FIFO, not a file\n`,
  ]);
});

Deno.test("02b 16 --check-config tells of every named file that is none, at its key", async () => {
  const { directory } = temporaryPlace();
  const waits = fifo(`${directory}/fifo`);
  const doors = `  mqtt:
    password_file: ${directory}
    acl_file: /dev/zero
    listen:
      tcp:
        address: 127.0.0.1:0
        tls: {cert_file: ${waits}, key_file: ${waits}, client_ca_file: ${directory}/.}
`;
  const file = `${directory}/saguin.yaml`;
  const check = async (text: string) => {
    Deno.writeTextFileSync(file, text);
    const { code, stderr } = await runToEnd(["--check-config", file]);
    assert.equal(code, 1);
    return stderr.split("\n").map((line) => line.replace(directory, "DIR").trim());
  };
  const named = [
    '- 10:20 broker.mqtt.password_file "DIR" cannot be read: it is a directory, not a file; name a readable file',
    '- 11:15 broker.mqtt.acl_file "/dev/zero" cannot be read: it is a device, not a file; name a readable file',
    '- 15:26 broker.mqtt.listen.tcp.tls.cert_file "DIR/fifo" cannot be read: it is a FIFO, not a file; name a readable file',
  ];
  const told = await check(LEAST + doors);
  assert.deepEqual(told.slice(2, 5), named);
  assert.match(told[5], /tls.key_file "DIR\/fifo" cannot be read: it is a FIFO/);
  assert.match(told[6], /tls.client_ca_file "DIR\/\." cannot be read: it is a directory/);
  const included = await check(`${LEAST}${doors}channels:\n  - !include fifo\n`);
  assert.deepEqual(included.slice(2, 5), named);
  assert.equal(
    included[7],
    '- 17:14 channels "!include fifo" cannot be read: it is a FIFO, not a file; the path starts from the including file',
  );
});

Deno.test("02b 16 what a shell pipes into a command is read as a configuration", async () => {
  const { directory } = temporaryPlace();
  const file = `${directory}/saguin.yaml`;
  Deno.writeTextFileSync(file, LEAST);
  const substituted = await shell('"$0" --check-config <(cat "$1")', file);
  assert.equal(substituted.code, 0, substituted.err);
  assert.match(substituted.out, /^\/dev\/fd\/\d+: ok\n$/);
  const piped = await shell('cat "$1" | "$0" --check-config /dev/stdin', file);
  assert.deepEqual(piped, { code: 0, out: "/dev/stdin: ok\n", err: "" });
  const endless = await shell('"$0" --check-config <(cat /dev/zero)');
  assert.equal(endless.code, 1);
  assert.match(endless.err, /- cannot be read: it is larger than 64MiB; name a readable file\n$/);
});
