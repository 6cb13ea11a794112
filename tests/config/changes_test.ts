import assert from "node:assert/strict";
import { waitingForRestart } from "../../src/config/changes.ts";
import type { Settings } from "../../src/config/settings.ts";
import { broker, LEAST, load } from "./support.ts";

function settings(text: string): Settings {
  const loading = load(text);
  if ("findings" in loading) assert.fail(loading.findings);
  return loading.settings;
}

function waiting(started: string, now: string): string[] {
  return waitingForRestart(settings(started), settings(now));
}

Deno.test("02b 17 nothing waits for a restart where the file says the same in other words", () => {
  assert.deepEqual(waiting(LEAST, LEAST), []);
  assert.deepEqual(
    waiting(LEAST, `# a comment\n${broker("limits: {max_subscriptions: 10000}")}`),
    [],
  );
});

Deno.test("02b 17 what a reload takes over does not wait for a restart", () => {
  const door = (origins: string) =>
    `mqtt: {listen: {ws: {address: ":8083", same_origin: false, allowed_origins: [${origins}]}}}`;
  assert.deepEqual(
    waiting(
      broker(door("https://a.example")),
      broker("log_level: debug", door("https://b.example")),
    ),
    [],
  );
});

Deno.test("02b 17 keys that are new, changed or gone are named by their full paths", () => {
  const listen = (address: string) =>
    `mqtt: {listen: {tcp: [{name: plain, address: "${address}"}, {name: other, address: ":1884"}]}}`;
  assert.deepEqual(
    waiting(
      `${broker(listen(":1883"))}channels: {a: {type: append}, b: {type: latest}}\n`,
      `${broker(listen(":1885"), "limits: {max_keepalive: 9m}")}` +
        "channels: {a: {type: append, retention_period: 3d}, c: {type: latest}}\n",
    ).sort(),
    [
      "broker.mqtt.listen.tcp[plain].address",
      "channels.a.retention_period",
      "channels.b",
      "channels.c",
      "limits.max_keepalive",
    ],
  );
});
