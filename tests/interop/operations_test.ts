/**
 * The operations listener in the hands of the programs that it is for: promtool and a browser.
 * Screenshots stay below run/operations.
 */
import assert from "node:assert/strict";
import { parse, stringify } from "yaml";
import { cheapHash } from "../auth/cheap_hash.ts";
import { aDay } from "../operations/day.ts";
import * as amqp from "../amqp/support/amqp_bytes.ts";
import { AmqpClient } from "../amqp/support/client.ts";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { ask, basic } from "../support/http.ts";
import { freePort } from "../support/ports.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { Browser } from "./browser.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SHOTS = `${ROOT}run/operations/`;

/** Of the machine, or the one that operations_tools.sh put there. */
function promtool(): string {
  const own = `${ROOT}.interop/operations/prometheus/usr/bin/promtool`;
  try {
    Deno.statSync(own);
    return own;
  } catch {
    return "promtool";
  }
}

async function runPromtool(args: readonly string[], input = ""): Promise<string> {
  const child = new Deno.Command(promtool(), {
    args: [...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  assert.equal(code, 0, said);
  return said;
}

Deno.test("promtool finds nothing to say about a scrape of a whole day", async () => {
  await using day = await aDay();
  assert.equal((await runPromtool(["check", "metrics"], day.metrics)).trim(), "");
});

Deno.test("promtool takes the configuration and the alerts, and each alert says what it should", async () => {
  await runPromtool(["check", "config", `${ROOT}fixtures/prometheus/prometheus.yaml`]);
  await runPromtool(["check", "rules", `${ROOT}fixtures/prometheus/alerts.yaml`]);
  await runPromtool(["test", "rules", `${ROOT}tests/interop/alerts_test.yaml`]);
});

Deno.test("promtool takes every expression of the dashboard", async () => {
  const expressions: string[] = [];
  JSON.parse(Deno.readTextFileSync(`${ROOT}fixtures/grafana/saguin.json`), (key, value) => {
    if (key === "expr") expressions.push(value);
    return value;
  });
  assert.ok(expressions.length > 20);
  const rules = expressions.map((expr, i) => ({
    record: `panel:${i}`,
    expr: expr.replaceAll("$__rate_interval", "5m").replaceAll("$instance", ".*"),
  }));
  const file = Deno.makeTempFileSync({ suffix: ".yaml" });
  try {
    Deno.writeTextFileSync(file, stringify({ groups: [{ name: "dashboard", rules }] }));
    assert.equal(parse(Deno.readTextFileSync(file)).groups[0].rules.length, rules.length);
    await runPromtool(["check", "rules", file]);
  } finally {
    Deno.removeSync(file);
  }
});

// ---------------------------------------------------------------------------------------- the page

const CHANNELS = `readings:
  type: append
  filter: plant/+/readings
  retention_bytes: 1MiB
alarms:
  type: append
  filter: plant/+/alarm
state:
  type: latest
  filter: plant/+/state
welds:
  type: queue
  filter: shop/+/weld
`;

interface Plant extends AsyncDisposable {
  readonly broker: BrokerProcess;
  readonly url: string;
  readonly where: { readonly hostname: string; readonly port: number };
  readonly amqpPort: number;
}

async function openPlant(): Promise<Plant> {
  const port = freePort();
  const amqpPort = freePort();
  const broker = await BrokerProcess.start((place) => {
    const file = `${place.directory}/operators`;
    Deno.writeTextFileSync(
      file,
      `ada:${cheapHash("engine")}\nscraper:${cheapHash("s")}:/metrics\n` +
        `viewer:${cheapHash("v")}:/v1/operations/overview\n`,
    );
    return configurationText(place, {
      channels: CHANNELS,
      broker: `operations:\n  password_file: ${file}\n` +
        `  listen: {tcp: {address: "127.0.0.1:${port}"}}\n` +
        `amqp: {listen: {tcp: {address: "127.0.0.1:${amqpPort}"}}}`,
    });
  });
  return {
    broker,
    url: `http://127.0.0.1:${port}/`,
    where: { hostname: "127.0.0.1", port },
    amqpPort,
    [Symbol.asyncDispose]: () => broker[Symbol.asyncDispose](),
  };
}

const READINGS = "#channels-table tr:has-text('readings')";

const DURABLE = { cleanStart: false, properties: { sessionExpiry: 3600 } };

/** Publishes until `stop`, a little at a time; the page is to have something to draw. */
async function produce(port: number, stop: () => boolean): Promise<void> {
  using client = await WireClient.connected(port, { clientId: "plc-7" });
  for (let i = 1; !stop(); i = i % 60_000 + 1) {
    for (let burst = 0; burst < 20; burst++) {
      await client.publish({
        topic: `plant/${i % 3}/readings`,
        payload: "21.5".padEnd(40),
        qos: 1,
        packetId: i,
      });
      await client.expectPuback(i);
    }
    await client.publish({ topic: `plant/${i % 5}/state`, payload: "on" });
    if (i % 4 === 0) await client.publish({ topic: `shop/${i % 2}/weld`, payload: "{}" });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

Deno.test("the page: loads without a complaint, updates, and shows a consumer that falls behind", async (t) => {
  Deno.mkdirSync(SHOTS, { recursive: true });
  await using plant = await openPlant();
  const { broker, url } = plant;
  await using browser = Browser.start();
  using historian = await WireClient.connected(broker.port, { clientId: "historian", ...DURABLE });
  await historian.subscribe({
    packetId: 1,
    subscriptions: [{ filter: "plant/+/readings", qos: 1 }],
  });
  await historian.expectSuback(1, [1]);
  // It has read a little, so that it has a position, and reads no more.
  using first = await WireClient.connected(broker.port, { clientId: "first" });
  await first.publish({ topic: "plant/0/readings", payload: "20.9", qos: 1, packetId: 1 });
  await first.expectPuback(1);
  const { packetId } = await historian.expectPublish();
  await historian.puback(packetId);
  using markup = await WireClient.connected(broker.port, {
    clientId: "<img src=x onerror=alert(1)>",
  });
  void markup;
  using intruder = await WireClient.open(broker.port);
  await intruder.connect({ clientId: "intruder\u0001", userName: "mallory" });
  await intruder.expectConnack(0x85);
  using pool = await AmqpClient.connected(plant.amqpPort);
  await pool.declare("welding", { durable: true });
  await pool.declare("", { exclusive: true });
  await pool.send(amqp.publish(1, "", "welding", "{}", { properties: amqp.PERSISTENT }));
  let stopped = false;
  const producing = produce(broker.port, () => stopped);
  const as = { user: "ada", password: "engine" };
  try {
    await t.step("it loads, and nothing of it comes from elsewhere", async () => {
      assert.equal(await browser.open({ url, ...as }), 200);
      await browser.until("#updated", "^live$");
      assert.equal(await browser.text("#broker"), "test");
      assert.deepEqual(
        await browser.texts("#channels-table tbody th .open"),
        ["alarms", "readings", "welds__dlq"],
      );
    });

    await t.step("rates and lists come by themselves", async () => {
      await browser.until(".tile:nth-child(3) .figure", "^[1-9]");
      await browser.until("#channels-table tr", "readings[^]*[1-9]");
      await browser.until("#sessions-table", "historian");
      await browser.until("#refused-table", "client identifier not valid");
      await browser.until("#storage", "Transactions a second");
      await until(
        "a line to be drawn",
        async () => {
          const path = await browser.evaluate<string | null>(
            "document.querySelector('.tile:nth-child(3) .spark path:last-child').getAttribute('d')",
          );
          return path !== null && /^M[\d. ]+L/.test(path);
        },
        60_000,
        500,
      );
    });

    await t.step("what a client is called stays text", async () => {
      await browser.until("#sessions-table", "<img src=x");
      assert.equal(await browser.evaluate("document.querySelectorAll('img').length"), 0);
      await browser.until("#refused-table", "intruder\\\\u0001");
    });

    await t.step("a consumer that reads nothing is shown to fall behind", async () => {
      const behind = `${READINGS} td:last-child`;
      const figure = async () => Number((await browser.text(behind)).replaceAll(/[^\d]/g, ""));
      await browser.until(behind, "[1-9]");
      const before = await figure();
      await browser.click(`${READINGS} .open`);
      await browser.until("#channels-table .details", "mqtt:historian");
      await until("it to be further behind", async () => await figure() > before + 50, 60_000, 500);
    });

    await t.step(
      "a reader that falls further behind is a problem that leads to its channel",
      async () => {
        await browser.until("#problems a", "A reader of readings is [\\d,]+ records behind");
        await browser.click("#problems a[href='#channel-readings']");
        assert.equal(await browser.evaluate("location.hash"), "#channel-readings");
        assert.equal(await browser.evaluate("document.querySelector(':target').localName"), "tr");
      },
    );

    await t.step("jobs that nobody takes are a problem, and each can be looked at", async () => {
      await browser.until("#problems", "jobs of welds wait, and it has no worker");
      await browser.click("#queues-table .open");
      await browser.until("#queues-table .details", "shop/[01]/weld");
    });

    await t.step("AMQP queues stand there where AMQP is configured", async () => {
      await browser.until(
        "#problems a[href='#amqp']",
        "Messages wait in welding, and nobody consumes them: 1",
      );
      await browser.until("#amqp-table", "welding[^]*stored");
      await browser.until("#amqp-table", "amq.gen-[^]*not stored");
      await browser.until("#amqp-count", "^2; connections: 1, ");
    });

    await t.step("every control is reached by the keyboard", async () => {
      await browser.evaluate("document.body.focus(), document.activeElement.blur()");
      const reached: string[] = [];
      for (let i = 0; i < 40; i++) {
        await browser.press("Tab");
        reached.push(
          await browser.evaluate(
            "(e => e.id || e.getAttribute('href') || e.className)(document.activeElement)",
          ),
        );
      }
      for (const control of ["skip", "#channels", "#refused", "pause", "filter", "open"]) {
        assert.ok(
          reached.some((each) => each === control || each === `#attention` && control === "skip"),
          `${control} among ${reached}`,
        );
      }
    });

    await t.step("what it shows is what the routes say", async () => {
      const routed = async (route: string) => {
        const { status, body } = await ask(
          plant.where,
          `/v1/operations/${route}`,
          basic(as.user, as.password),
        );
        assert.equal(status, 200);
        return JSON.parse(body);
      };
      const cells = async (row: string) => {
        const texts = await browser.texts(`${row} > *`);
        return texts.map((text) => text.replaceAll(",", "").trim());
      };
      const { connected, offline, returned } = await routed("sessions");
      assert.equal(
        await browser.text("#sessions-count"),
        `${connected} connected, ${offline} away`,
      );
      assert.equal((await browser.texts("#sessions-table tbody tr")).length, returned);
      const { clients: [refused] } = await routed("refused");
      const [, user, reason, times] = await cells("#refused-table tbody tr");
      assert.deepEqual(
        [user, reason, Number(times)],
        [refused.user, refused.reason, refused.count],
      );
      const { channels } = await routed("overview");
      const row = (name: string) =>
        channels.find(({ channel }: { readonly channel: string }) => channel === name);
      const alarms = await cells("#channel-alarms");
      assert.deepEqual(alarms.slice(-5).slice(1, 4).map(Number), [
        row("alarms").floor_offset,
        row("alarms").next_offset,
        row("alarms").consumers,
      ]);
      const readings = await cells("#channel-readings");
      const [behind] = readings.slice(-1).map(Number);
      // The traffic goes on between the two.
      assert.ok(behind > 0 && behind <= row("readings").behind, `${behind}`);
      const [, , unresolved, inflight, workers] = (await cells("#queue-welds")).map(Number);
      assert.ok(unresolved > 0 && unresolved <= row("welds").depth, `${unresolved}`);
      assert.deepEqual([inflight, workers], [0, 0]);
    });

    await t.step("the filter narrows, and pausing stops", async () => {
      await browser.fill("#filter", "alarm");
      assert.deepEqual(await browser.texts("#channels-table tbody .open"), ["alarms"]);
      await browser.fill("#filter", "");
      await browser.click("#pause");
      await browser.until("#updated", "^paused$");
      const still = await browser.text(".tile:nth-child(3) .note");
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      assert.equal(await browser.text(".tile:nth-child(3) .note"), still);
      assert.equal(await browser.text("#updated"), "paused");
      await browser.click("#pause");
      await browser.until("#updated", "^live$");
    });

    await t.step("nobody complained, and nobody else was asked", async () => {
      const { complaints, requests } = await browser.heard();
      assert.deepEqual(complaints, []);
      assert.ok(requests.every((each) => each.startsWith(url) || each.startsWith("data:")));
    });

    await t.step("it fits a phone and a screen, light and dark", async () => {
      for (const [name, width, height] of [["phone", 390, 844], ["screen", 1280, 900]] as const) {
        for (const scheme of ["light", "dark"] as const) {
          await browser.open({ url, ...as, width, height, scheme });
          await browser.until("#updated", "^live$");
          await browser.until(".tile:nth-child(3) .figure", "^[1-9]");
          await browser.until("#sessions-table", "historian");
          const spill = await browser.evaluate<number>(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth",
          );
          assert.equal(spill, 0, `${name} scrolls sideways`);
          await browser.click(`${READINGS} .open`);
          await browser.until("#channels-table .details", "mqtt:historian");
          await new Promise((resolve) => setTimeout(resolve, 5_000));
          await browser.screenshot(`${SHOTS}${name}-${scheme}.png`);
        }
      }
    });
    await t.step(
      "a broker that is gone is said to be, and the figures that stay are dimmed",
      async () => {
        stopped = true;
        await producing;
        await broker.stop();
        await browser.until("#updated", "the broker does not answer");
        assert.equal(await browser.evaluate("document.querySelector('main').className"), "stale");
      },
    );
  } finally {
    stopped = true;
    await producing;
  }
});

Deno.test("the page refuses whoever has no password, and shows an operator what the scope reaches", async () => {
  await using plant = await openPlant();
  const { url } = plant;
  await using browser = Browser.start();
  await assert.rejects(browser.open({ url }), /ERR_INVALID_AUTH_CREDENTIALS/);
  assert.equal(await browser.open({ url, user: "ada", password: "wrong" }), 401);
  assert.equal(await browser.open({ url, user: "viewer", password: "v" }), 200);
  await browser.until("#updated", "^live$");
  await browser.until("#sessions-table", "this operator may not read it");
  assert.equal(await browser.open({ url, user: "scraper", password: "s" }), 200);
  await browser.until("#updated", "this operator may not read it");
});
