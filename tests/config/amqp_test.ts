/** The keys of AMQP: what they resolve to, and what is refused (07 section 1). */
import assert from "node:assert/strict";
import { accepted, broker, findings, load } from "./support.ts";

const DOOR = ["amqp:", "  listen:", "    tcp:", "      address: 127.0.0.1:5672"];

function amqp(...lines: readonly string[]): string {
  return broker("amqp:", ...lines.map((line) => `  ${line}`));
}

Deno.test("C1 a door alone gives AMQP every default of the table", () => {
  assert.equal(accepted(load(broker())).amqp, undefined);
  assert.deepEqual(accepted(load(broker(...DOOR))).amqp, {
    doors: [{
      kind: "tcp",
      name: "tcp",
      path: "broker.amqp.listen.tcp",
      address: { host: "127.0.0.1", port: 5672, text: "127.0.0.1:5672" },
      tls: undefined,
      passwordFile: undefined,
      allowAnonymous: true,
    }],
    storage: "disk",
    vhost: "/",
    channelMax: 2_047,
    frameMax: 131_072,
    heartbeatMs: 60_000,
    handshakeTimeoutMs: 10_000,
    maxReady: 100_000,
    maxReadyBytes: 268_435_456,
    maxUnacked: 65_535,
    maxObjects: 50_000,
    publishBatch: 256,
    outboundHighWater: 1_048_576,
    crossing: true,
  });
});

Deno.test("C1 every key of AMQP reaches the broker", () => {
  const { amqp } = accepted(load(broker(
    ...DOOR,
    "  vhost: plant",
    "  channel_max: 10",
    "  frame_max: 4KiB",
    "  heartbeat: none",
    "  handshake_timeout: 3s",
    "  max_ready: 5",
    "  max_ready_bytes: 1MiB",
    "  max_unacked: 7",
    "  max_objects: 8",
    "  publish_batch: 9",
    "  outbound_high_water: 64KiB",
    "  crossing: false",
  )));
  const { doors: _, storage: __, ...rest } = amqp!;
  assert.deepEqual(rest, {
    vhost: "plant",
    channelMax: 10,
    frameMax: 4_096,
    heartbeatMs: undefined,
    handshakeTimeoutMs: 3_000,
    maxReady: 5,
    maxReadyBytes: 1_048_576,
    maxUnacked: 7,
    maxObjects: 8,
    publishBatch: 9,
    outboundHighWater: 65_536,
    crossing: false,
  });
});

Deno.test("C2 an address that others reach needs a password file or a written allow_anonymous", () => {
  const says = "can be reached from other machines and asks nobody who they are";
  for (const address of [":5672", "0.0.0.0:5672", "192.0.2.1:5672"]) {
    const door = (...keys: string[]) =>
      amqp("listen:", "  tcp:", `    address: ${address}`, ...keys.map((key) => `    ${key}`));
    const [finding] = findings(load(door()));
    assert.ok(finding?.includes(says), finding);
    assert.ok(finding.startsWith("13:18 broker.amqp.listen.tcp.address"), finding);
    assert.deepEqual(findings(load(door("allow_anonymous: true"))), []);
  }
  for (const address of ["127.0.0.1:5672", "[::1]:5672", "localhost:5672"]) {
    assert.deepEqual(findings(load(amqp("listen:", "  tcp:", `    address: "${address}"`))), []);
  }
  const [refused] = findings(
    load(amqp("listen:", "  tcp:", "    address: 127.0.0.1:5672", "    allow_anonymous: false")),
  );
  assert.ok(refused?.includes("admits nobody"), refused);
});

Deno.test("C3 a memory provider cannot keep AMQP", () => {
  const [finding, ...others] = findings(load(broker(...DOOR, "  storage: ram")));
  assert.ok(finding?.includes("is a memory provider, which could not keep a durable queue"));
  assert.deepEqual(others, []);
});

Deno.test("an AMQP block without a door is refused", () => {
  const [finding] = findings(load(amqp("vhost: /")));
  assert.ok(finding?.includes("opens no door"), finding);
});
