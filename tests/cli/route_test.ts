import assert from "node:assert/strict";
import { main } from "../../src/cli/main.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import { runToEnd, temporaryPlace } from "../support/broker_process.ts";

const CHANNELS = `
broker:
  id: b
  storage:
    default: ram
    default_retention_period: none
    default_retention_bytes: none
    providers:
      ram: {type: memory, snapshot_dir: none}
channels:
  pump-state: {type: latest, filter: plant/pump/+/state/#}
  pump-log: {type: append, filter: plant/pump/+/+/#}
  tank-log: {type: append, filter: "plant/tank/+/{level,alarm}"}
  welds: {type: queue, filter: shop/+/weld}
`;

function configured(): string {
  const file = temporaryPlace().directory + "/saguin.yaml";
  Deno.writeTextFileSync(file, CHANNELS);
  return file;
}

async function route(...more: string[]) {
  return await runToEnd(["--route", configured(), ...more]);
}

Deno.test("02a 1.1 --route answers for every topic of the worked example", async () => {
  const expected: [string, string | null, string, string | null][] = [
    ["plant/pump/p9/state", "pump-state", "latest", "plant/pump/+/state/#"],
    ["plant/pump/p9/state/mode", "pump-state", "latest", "plant/pump/+/state/#"],
    ["plant/pump/p9/rpm", "pump-log", "append", "plant/pump/+/+/#"],
    ["plant/tank/t3/level", "tank-log", "append", "plant/tank/+/level"],
    ["plant/tank/t3/level/raw", null, "broadcast", null],
    ["plant/tank/t3/temp", null, "broadcast", null],
    ["plant/pump/p9", null, "broadcast", null],
    // A channel with a filter claims nothing by its name.
    ["welds/x", null, "broadcast", null],
    ["shop/s1/weld/__dlq", "welds__dlq", "append", "shop/+/weld/__dlq"],
  ];
  for (const [subject, channel, type, why] of expected) {
    const { code, stdout } = await route("--json", subject);
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(stdout).answers, [{ subject, channel, type, why }]);
  }
});

Deno.test("02a 2 --route tells what a filter is served from, a queue left out", async () => {
  const { code, stdout } = await route("--json", "#");
  assert.equal(code, 0);
  const answer = JSON.parse(stdout);
  const served = new Map(
    answer.answers.map(({ channel, why }: { channel: string; why: string }) => [channel, why]),
  );
  assert.deepEqual(
    [...served].sort(),
    [
      ["pump-log", "replayed"],
      ["pump-state", "current"],
      ["tank-log", "replayed"],
      ["welds", "excluded"],
      ["welds__dlq", "replayed"],
    ],
  );
  const tank = answer.routes.find(({ channel }: { channel: string }) => channel === "tank-log");
  assert.deepEqual(tank.filters, ["plant/tank/+/level", "plant/tank/+/alarm"]);
});

Deno.test("02b 16 --route for a person ends with the routing table, braces expanded", async () => {
  const { code, stdout } = await route("plant/tank/t3/level");
  assert.equal(code, 0);
  assert.match(stdout, /tank-log \(append\), claimed by plant\/tank\/\+\/level\n/);
  assert.match(stdout, /channels:\n[^]*plant\/tank\/\+\/alarm {2}tank-log \(append\)/);
});

Deno.test("02b 16 --route refuses what is neither topic nor filter, and a second operand", async () => {
  assert.equal((await route("plant/#/x")).code, 1);
  assert.equal((await route("a", "b")).code, 1);
});

Deno.test("--route does not call broadcast what the broker refuses or answers by itself", async () => {
  const { code, stdout, stderr } = await piped([
    "$SYS/broker/uptime",
    "$saguin/queue/welds",
    "$share/g/plant/#",
    "$SYSTEM/a",
  ]);
  assert.equal(code, 1);
  assert.match(stdout, /^#.*\n\$SYSTEM\/a\t-\tbroadcast\t-\n$/);
  assert.match(stderr, /^saguin: \$SYS\/broker\/uptime: there is no \$SYS tree; /);
  assert.match(stderr, /\nsaguin: \$saguin\/queue\/welds: .* the broker's own, /);
  assert.match(stderr, /\nsaguin: \$share\/g\/plant\/#: .* ask for the filter inside it\n$/);
});

Deno.test("07 N3, N4 --route tells a person which ingest tables a publish is a row of", async () => {
  const file = temporaryPlace().directory + "/saguin.yaml";
  const disk = "providers:\n      disk: {type: sqlite, file_path: /nowhere/b.db}\n";
  Deno.writeTextFileSync(
    file,
    `${CHANNELS.replace("providers:\n", disk)}ingest:\n  storage: disk\n  routes:\n` +
      '    - "#:everything"\n    - plant/#:plants\n    - plant/+/+/level:plants\n',
  );
  const said = async (subject: string) => {
    const { code, stdout } = await runToEnd(["--route", file, subject]);
    assert.equal(code, 0);
    return stdout.split("\n\n")[0].split("\n").slice(1).join("\n");
  };
  assert.equal(
    await said("plant/tank/t3/level"),
    "plant/tank/t3/level: a row of ingest table everything\n" +
      "plant/tank/t3/level: a row of ingest table plants",
  );
  assert.equal(await said("else"), "else: a row of ingest table everything");
  for (const none of ["shop/s1/weld", "shop/s1/weld/__dlq", "$x/y"]) {
    assert.equal(await said(none), "", none);
  }
  const { stdout } = await runToEnd(["--route", file, "--json", "plant/a"]);
  assert.deepEqual(JSON.parse(stdout).tables, ["everything", "plants"]);
  assert.equal((await route("--json", "plant/a")).stdout.includes("tables"), false);
});

/** The command in this process, with `lines` on standard input. */
async function piped(lines: readonly string[], ...more: string[]) {
  let [stdout, stderr] = ["", ""];
  const code = await main(["--route", configured(), ...more], {
    start: () => assert.fail("a broker was started"),
    stdout: (text) => stdout += text,
    stderr: (text) => stderr += text,
    input: {
      async *lines() {
        yield* lines;
      },
      secrets: () => assert.fail("a password was asked for"),
    },
    surroundings: REAL_SURROUNDINGS,
  });
  return { code, stdout, stderr };
}

const PIPED = [
  "# a comment",
  "",
  "plant/pump/p9/rpm",
  "nobody/claims",
  "shop/#",
  "#",
  "  shop/s1/weld  ",
];

Deno.test("02b 16 --route without an operand answers each line of standard input in columns", async () => {
  const { code, stdout, stderr } = await piped(PIPED);
  assert.deepEqual([code, stderr], [0, ""]);
  assert.equal(
    stdout,
    [
      "# topic-or-filter\tchannel\ttype\twhy",
      "plant/pump/p9/rpm\tpump-log\tappend\tplant/pump/+/+/#",
      "nobody/claims\t-\tbroadcast\t-",
      "shop/#\twelds\tqueue\texcluded",
      "shop/#\twelds__dlq\tappend\treplayed",
      "#\tpump-log\tappend\treplayed",
      "#\tpump-state\tlatest\tcurrent",
      "#\ttank-log\tappend\treplayed",
      "#\twelds\tqueue\texcluded",
      "#\twelds__dlq\tappend\treplayed",
      "shop/s1/weld\twelds\tqueue\tshop/+/weld",
      "",
    ].join("\n"),
  );
});

Deno.test("02b 16 --route --json without an operand is one object a line, null for what is not there", async () => {
  const { code, stdout } = await piped(["nobody/claims", "shop/#", "#not a filter"], "--json");
  assert.equal(code, 0);
  assert.deepEqual(stdout.trimEnd().split("\n").map((line) => JSON.parse(line)), [
    { subject: "nobody/claims", channel: null, type: "broadcast", why: null },
    { subject: "shop/#", channel: "welds", type: "queue", why: "excluded" },
    { subject: "shop/#", channel: "welds__dlq", type: "append", why: "replayed" },
  ]);
});

Deno.test("02b 16 a line that is neither topic nor filter is told, and the others are answered", async () => {
  const { code, stdout, stderr } = await piped(["a/#/b", "shop/s1/weld"]);
  assert.equal(code, 1);
  assert.match(stderr, /^saguin: a\/#\/b: /);
  assert.match(stdout, /shop\/s1\/weld\twelds\tqueue/);
});
