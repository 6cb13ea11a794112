import assert from "node:assert/strict";
import { parse } from "yaml";
import { Metrics } from "../support/metrics.ts";
import { AMQP_CATALOGUE, CATALOGUE, INGEST_CATALOGUE } from "./catalogue.ts";
import { aDay, MARK, PAYLOAD } from "./day.ts";

const ALL = [...CATALOGUE, ...AMQP_CATALOGUE, ...INGEST_CATALOGUE];

const ROOT = new URL("../../", import.meta.url).pathname;

/** Labels that a Prometheus adds. */
const ADDED = ["instance", "job"];

interface Rules {
  readonly groups: readonly { readonly rules: readonly { readonly expr: string }[] }[];
}

/** Every expression of the files that stand ready. */
function expressions(): { readonly file: string; readonly expr: string }[] {
  const rules: Rules = parse(Deno.readTextFileSync(`${ROOT}fixtures/prometheus/alerts.yaml`));
  const dashboard = Deno.readTextFileSync(`${ROOT}fixtures/grafana/saguin.json`);
  const found: { file: string; expr: string }[] = [];
  for (const { expr } of rules.groups.flatMap((group) => group.rules)) {
    found.push({ file: "alerts.yaml", expr });
  }
  JSON.parse(dashboard, (key, value) => {
    if (key === "expr") found.push({ file: "saguin.json", expr: value });
    return value;
  });
  return found;
}

Deno.test("05 9 a scripted day: every metric, its type, its labels, and nothing else", async (t) => {
  await using day = await aDay();
  const metrics = Metrics.parse(day.metrics);

  await t.step("the catalogue is what was scraped", () => {
    assert.deepEqual(
      [...metrics.families].map(([name, { type, samples }]) => {
        const [{ labels }] = samples;
        for (const sample of samples) {
          assert.deepEqual(Object.keys(sample.labels), Object.keys(labels), name);
        }
        return [name, type, ...Object.keys(labels)];
      }),
      ALL,
    );
    for (const [name, { help }] of metrics.families) assert.match(help, /^[A-Z].*\.$/, name);
  });

  await t.step("05 15 no histogram, and nothing by client, by listener or by partition", () => {
    for (const [name, { type, samples }] of metrics.families) {
      assert.ok(type === "counter" || type === "gauge", name);
      for (const label of Object.keys(samples[0].labels)) {
        assert.doesNotMatch(
          label,
          /^(?:client|user|consumer|listener|topic|partition|index|le|quantile)$/,
        );
      }
    }
  });

  await t.step("what happened moved its metric", () => {
    const moved = (name: string, labels = {}) =>
      assert.ok(metrics.sum(`saguin_${name}`, labels) > 0, `${name} ${JSON.stringify(labels)}`);
    // What no day brings about by itself; each has a test of its own.
    const quiet = [
      "sessions_dropped_total",
      "wills_cancelled_total",
      "qos2_abandoned_total",
      "deliveries_refused_total",
      "deliveries_dropped_total",
      "deliveries_expired_total",
      "shares_drained_total",
      "latest_superseded_total",
      "queue_expired_total",
      "provider_max_bytes",
      "runtime_event_loop_lag_seconds",
      "qos2_held",
      "queue_inflight",
      "session_queue_messages",
      "session_queue_bytes",
    ].map((name) => `saguin_${name}`);
    for (const [name] of ALL) {
      if (!quiet.includes(name)) moved(name.slice("saguin_".length));
    }
    moved("channel_position_lost_total", { channel: "events" });
    moved("queue_dead_lettered_total", { channel: "jobs" });
    moved("subscriptions_refused_total", { reason: "not authorized" });
    moved("connections_refused_total", { reason: "client identifier not valid" });
    moved("wills_published_total", { cause: "immediate" });
  });

  await t.step(
    "05 10.2 no label is what a client chose, and no payload leaves by any route",
    () => {
      assert.ok(!day.metrics.includes(MARK), "a client's string is in the metrics");
      assert.ok([...day.bodies.values()].some((body) => body.includes(MARK)));
      // Rows of an ingest table are what its route is for (07 N12); no other shows a message.
      for (const [route, body] of day.bodies) {
        assert.equal(body.includes(PAYLOAD), route.startsWith("ingest/"), route);
      }
    },
  );

  await t.step("the ready-made files use metrics and labels that there are", () => {
    const known = new Map(ALL.map(([name, , ...labels]) => [name, labels]));
    const used = new Set<string>();
    for (const { file, expr } of expressions()) {
      const names = expr.match(/\bsaguin_[a-z0-9_]+/g) ?? [];
      const labels = new Set(ADDED);
      for (const name of names) {
        assert.ok(known.has(name) && metrics.families.has(name), `${file}: ${name} in ${expr}`);
        used.add(name);
        for (const label of known.get(name)!) labels.add(label);
      }
      const matched = [...expr.matchAll(/[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) =>
        label
      );
      const grouped = [...expr.matchAll(/\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g)]
        .flatMap(([, list]) => list.split(",").map((label) => label.trim()));
      for (const label of [...matched, ...grouped]) {
        assert.ok(labels.has(label), `${file}: the label ${label} in ${expr}`);
      }
    }
    assert.ok(used.size > 30, `only ${used.size} metrics are used`);
  });
});
