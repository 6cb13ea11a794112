/**
 * Opens one connection of MQTT.js over every kind of door, publishes and receives on it, and prints
 * "ok <door>" a line.
 *
 * Usage: node mqttjs_doors.mjs DIRECTORY FILES, where npm's mqtt is installed below DIRECTORY and FILES
 * is a JSON object: trust, cert and key are paths of PEM files, doors is a list of {name, url} or
 * {name, path} with the path of a Unix socket.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createConnection } from "node:net";
import process from "node:process";
import { pathToFileURL } from "node:url";

const [directory, files] = process.argv.slice(2);
const mqtt = createRequire(pathToFileURL(directory + "/"))("mqtt");
const { trust, cert, key, doors } = JSON.parse(readFileSync(files, "utf8"));

const LARGE_BYTES = 300_000;

function open({ name, url, path }) {
  const options = {
    clientId: `mqttjs-${name}`,
    protocolVersion: 5,
    reconnectPeriod: 0,
    connectTimeout: 10_000,
  };
  if (path !== undefined) return new mqtt.MqttClient(() => createConnection(path), options);
  // A certificate among the options makes MQTT.js turn mqtt:// into mqtts://.
  const secure = { ca: readFileSync(trust), cert: readFileSync(cert), key: readFileSync(key) };
  return mqtt.connect(url, /^(mqtts|wss):/.test(url) ? { ...options, ...secure } : options);
}

async function exchange(door) {
  const client = open(door);
  const failed = new Promise((_, reject) => {
    client.on("error", reject);
    client.on("close", () => reject(new Error("the connection was closed")));
  });
  const once = (event) =>
    Promise.race([new Promise((resolve) => client.once(event, (...all) => resolve(all))), failed]);
  await once("connect");
  await client.subscribeAsync(`${door.name}/#`, { qos: 2 });
  const payload = Buffer.from(Array.from({ length: LARGE_BYTES }, (_, i) => i * 31));
  const arrived = once("message");
  await client.publishAsync(`${door.name}/t`, payload, { qos: 2 });
  const [topic, received] = await arrived;
  assert.equal(topic, `${door.name}/t`);
  assert.ok(received.equals(payload));
  failed.catch(() => {});
  await client.endAsync();
  console.log(`ok ${door.name}`);
}

for (const door of doors) await exchange(door);
process.exit(0);
