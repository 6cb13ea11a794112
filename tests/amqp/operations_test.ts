/** What operators see of AMQP: the start's log, and metrics (07 C5, C6). */
import assert from "node:assert/strict";
import {
  BrokerProcess,
  configurationText,
  runToEnd,
  temporaryPlace,
} from "../support/broker_process.ts";
import { AMQP_CATALOGUE } from "../operations/catalogue.ts";
import { Metrics } from "../support/metrics.ts";
import { freePort } from "../support/ports.ts";
import { WireClient } from "../support/wire.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { AmqpClient } from "./support/client.ts";

Deno.test("C1 --check-config lists the doors, and what it finds wrong of AMQP and ingest at once", async () => {
  const place = temporaryPlace();
  const file = `${place.directory}/saguin.yaml`;
  const check = async (amqpKeys: string, route: string) => {
    const broker = `amqp:\n${amqpKeys}  listen:\n    tcp:\n      address: 127.0.0.1:5672`;
    const text = configurationText(place, { broker }) + `ingest:\n  routes:\n    - "${route}"\n`;
    await Deno.writeTextFile(file, text);
    return await runToEnd(["--check-config", file]);
  };
  try {
    const { code, stdout } = await check("", "a/#:readings");
    assert.equal(code, 0);
    assert.match(stdout, /^AMQP listener "tcp" \(127\.0\.0\.1:5672\)$/m);
    assert.match(stdout, /^ingest "a\/#": into table readings$/m);
    const wrong = await check("  channel_max: 0\n  nothing: 1\n", "a/#/b:readings");
    assert.notEqual(wrong.code, 0);
    for (const finding of [/channel_max "0"/, /nothing/, /a\/#\/b/]) {
      assert.match(wrong.stdout + wrong.stderr, finding);
    }
  } finally {
    await Deno.remove(place.directory, { recursive: true });
  }
});

Deno.test("C5, C6 the start says what it found and how it acknowledges; metrics say what is there", async () => {
  const port = freePort();
  const operations = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      acknowledge: "synced",
      broker: [
        "amqp:",
        "  max_ready: 2",
        "  listen:",
        "    tcp:",
        `      address: 127.0.0.1:${port}`,
        "operations:",
        "  listen:",
        "    tcp:",
        `      address: 127.0.0.1:${operations}`,
      ].join("\n"),
    })
  );
  await broker.line(/AMQP recovered what is stored.* queues=0 messages=0/);
  await broker.line(new RegExp(`listening for AMQP.*address=127.0.0.1:${port} acknowledge=synced`));
  using client = await AmqpClient.connected(port);
  await client.declare("q", { durable: true });
  await client.call(amqp.confirmSelect(1), "select-ok");
  await client.send(
    ...["a", "b", "c"].map((body) =>
      amqp.publish(1, "", "q", body, { properties: amqp.PERSISTENT })
    ),
    amqp.publish(1, "", "nowhere", "d", { mandatory: true }),
    amqp.publish(1, "amq.topic", "a.#", "cannot cross"),
  );
  for (;;) {
    const received = await client.next();
    if (received.name === "ack" && received.delivery === 5) break;
  }
  await client.get("q");
  await client.call(amqp.queueBind(1, "q", "amq.topic", "#"), "bind-ok");
  using mqtt = await WireClient.connected(broker.port);
  await mqtt.publish({ topic: "$other/x", payload: "", qos: 1, packetId: 1 });
  await mqtt.expectPuback(1);
  using other = await AmqpClient.connected(port);
  for (const [name, exclusive] of [["gone", true], ["passing", false]] as const) {
    await other.declare(name, { exclusive });
    await other.send(...["a", "b", "c"].map((body) => amqp.publish(1, "", name, body)));
  }
  await other.call(amqp.queueDelete(1, "gone"), "queue.delete-ok");
  await other.call(amqp.queuePurge(1, "passing"), "purge-ok");
  await other.send(amqp.publish(1, "", "passing", "d"));
  await other.declare("passing", { passive: true });
  await other.send(amqp.queueDeclare(1, "nothing", { passive: true }));
  await other.expectChannelClose(404);
  const text = await (await fetch(`http://127.0.0.1:${operations}/metrics`)).text();
  const lines = text.split("\n").filter((line) => /^saguin_(amqp|crossing)/.test(line));
  assert.deepEqual(lines, [
    "saguin_amqp_connections 2",
    "saguin_amqp_channels 1",
    'saguin_amqp_queue_messages{queue="",state="ready"} 1',
    'saguin_amqp_queue_messages{queue="",state="unacked"} 0',
    'saguin_amqp_queue_messages{queue="q",state="ready"} 1',
    'saguin_amqp_queue_messages{queue="q",state="unacked"} 1',
    'saguin_amqp_queue_dropped_total{queue="",cause="bound"} 2',
    'saguin_amqp_queue_dropped_total{queue="q",cause="bound"} 1',
    "saguin_amqp_published_total 12",
    "saguin_amqp_confirmed_total 5",
    "saguin_amqp_returned_total 1",
    'saguin_amqp_refused_total{code="404"} 1',
    'saguin_crossing_skipped_total{direction="amqp_to_mqtt",cause="no_topic"} 1',
    'saguin_crossing_skipped_total{direction="mqtt_to_amqp",cause="reserved_topic"} 1',
  ]);
  const { amqp: shown } = await (await fetch(
    `http://127.0.0.1:${operations}/v1/operations/overview`,
  )).json();
  assert.deepEqual(shown, {
    connections: 2,
    channels: 1,
    published: 12,
    queues: [
      { queue: "q", stored: true, ready: 1, unacked: 1, consumers: 0, dropped: 1 },
      { queue: "passing", stored: false, ready: 1, unacked: 0, consumers: 0, dropped: 1 },
    ],
    queues_total: 2,
    returned: 2,
  });
  const scraped = [...Metrics.parse(text).families].filter(([name]) =>
    /^saguin_(amqp|crossing)/.test(name)
  );
  assert.deepEqual(
    scraped.map(([name, { type, samples }]) => [name, type, ...Object.keys(samples[0].labels)]),
    AMQP_CATALOGUE,
  );
  await broker.kill();
  await broker.startAgain();
  await broker.line(/AMQP recovered what is stored.* queues=1 messages=2/);
});
