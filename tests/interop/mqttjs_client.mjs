/**
 * Drives a broker with MQTT.js on Node as an application would, MQTT 3.1.1 and 5, and prints
 * "ok <check>" a line.
 *
 * Usage: node mqttjs_client.mjs DIRECTORY PORT [check ...], where npm's mqtt is installed below
 * DIRECTORY and the broker has the channels of fixtures/quickstart.yaml. Without names every check runs.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createRequire } from "node:module";
import process from "node:process";
import { pathToFileURL } from "node:url";

const [directory, port, ...asked] = process.argv.slice(2);
const mqtt = createRequire(pathToFileURL(directory + "/"))("mqtt");

const WAIT_MS = 20_000;
const QUIET_MS = 500;
const BOTH = [4, 5];

const unique = (prefix) => `${prefix}-${randomBytes(6).toString("hex")}`;

/** MQTT.js with what arrives kept until it is asked for. */
class Client {
  #arrived = [];
  #wanted = [];

  static async open(version, { clientId = unique("mqttjs"), durable = false, will } = {}) {
    const client = new Client();
    const connection = mqtt.connect({
      host: "127.0.0.1",
      port: Number(port),
      protocolVersion: version,
      clientId,
      clean: !durable,
      reconnectPeriod: 0,
      will,
      ...(version === 5 ? { properties: { sessionExpiryInterval: durable ? 3600 : 0 } } : {}),
    });
    client.connection = connection;
    // Before CONNACK: a resumed session is served before the client asks for anything.
    connection.on("message", (topic, payload, packet) => {
      const message = { topic, text: payload.toString(), packet };
      const wanted = client.#wanted.shift();
      if (wanted === undefined) client.#arrived.push(message);
      else wanted(message);
    });
    const connack = await new Promise((resolve, reject) => {
      connection.once("connect", resolve);
      connection.once("error", reject);
    });
    connection.on("error", () => {});
    client.sessionPresent = connack.sessionPresent;
    return client;
  }

  async subscribe(topic, qos) {
    const granted = await this.connection.subscribeAsync(topic, { qos });
    assert.deepEqual(granted.map((each) => each.qos), [qos], `SUBACK for ${topic}`);
  }

  publish(topic, payload, options = {}) {
    return this.connection.publishAsync(topic, payload, { qos: 1, ...options });
  }

  async receive() {
    const message = await this.within(WAIT_MS);
    assert.ok(message !== undefined, "no message came");
    return message;
  }

  async nothing() {
    const message = await this.within(QUIET_MS);
    assert.equal(message, undefined, `unexpected ${message?.topic} ${message?.text}`);
  }

  /** The next message, or undefined when none comes in time. */
  within(ms) {
    if (this.#arrived.length > 0) return Promise.resolve(this.#arrived.shift());
    return new Promise((resolve) => {
      const wanted = (message) => {
        clearTimeout(timer);
        resolve(message);
      };
      const timer = setTimeout(() => {
        this.#wanted.splice(this.#wanted.indexOf(wanted), 1);
        resolve(undefined);
      }, ms);
      this.#wanted.push(wanted);
    });
  }

  close() {
    return this.connection.endAsync();
  }

  cut() {
    this.connection.stream.destroy();
  }

  /** Connects again after a cut, with what the client remembers of exchanges under way. */
  async back() {
    if (this.connection.connected) await once(this.connection, "close");
    const connected = once(this.connection, "connect");
    const { incomingStore, outgoingStore } = this.connection;
    this.connection.reconnect({ incomingStore, outgoingStore });
    const [connack] = await connected;
    this.sessionPresent = connack.sessionPresent;
  }
}

const labels = (message) => message.packet.properties?.userProperties ?? {};

const CHECKS = {
  async every_qos() {
    for (const version of BOTH) {
      const topic = unique("interop/qos");
      for (const granted of [0, 1, 2]) {
        const reader = await Client.open(version);
        const writer = await Client.open(version);
        await reader.subscribe(topic, granted);
        for (const qos of [0, 1, 2]) {
          await writer.publish(topic, `${qos}`, { qos });
          const { text, packet } = await reader.receive();
          assert.deepEqual([text, packet.qos], [`${qos}`, Math.min(qos, granted)]);
        }
        await reader.close();
        await writer.close();
      }
    }
  },

  async retained() {
    for (const version of BOTH) {
      const topic = unique("interop/retained");
      const writer = await Client.open(version);
      await writer.publish(topic, "kept", { retain: true });
      const reader = await Client.open(version);
      await reader.subscribe(topic, 1);
      const { text, packet } = await reader.receive();
      assert.deepEqual([text, packet.retain], ["kept", true]);
      await writer.publish(topic, "", { retain: true });
      const later = await Client.open(version);
      await later.subscribe(topic, 1);
      await later.nothing();
      for (const client of [writer, reader, later]) await client.close();
    }
  },

  async will() {
    for (const version of BOTH) {
      const topic = unique("interop/will");
      const will = { topic, payload: "gone", qos: 1 };
      const reader = await Client.open(version);
      await reader.subscribe(topic, 1);
      await (await Client.open(version, { will })).close();
      await reader.nothing();
      (await Client.open(version, { will })).cut();
      assert.equal((await reader.receive()).text, "gone");
      await reader.close();
    }
  },

  async away_on_broadcast() {
    for (const version of BOTH) {
      const topic = unique("interop/away");
      const clientId = unique("mqttjs-away");
      const first = await Client.open(version, { clientId, durable: true });
      assert.equal(first.sessionPresent, false);
      await first.subscribe(topic, 1);
      await first.close();
      const writer = await Client.open(version);
      for (let i = 0; i < 5; i++) await writer.publish(topic, `${i}`);
      const again = await Client.open(version, { clientId, durable: true });
      assert.equal(again.sessionPresent, true);
      for (let i = 0; i < 5; i++) assert.equal((await again.receive()).text, `${i}`);
      await again.nothing();
      await again.close();
      await writer.close();
    }
  },

  async exactly_once() {
    for (const version of BOTH) {
      const topic = `iot/${unique("mqttjs")}/devices/telemetry/t`;
      const clientId = unique("mqttjs-twice");
      const writer = await Client.open(version);
      const reader = await Client.open(version, { clientId, durable: true });
      await reader.subscribe(topic, 2);
      for (let i = 0; i < 10; i++) await writer.publish(topic, `${i}`, { qos: 2 });
      const seen = [];
      for (let i = 0; i < 5; i++) seen.push((await reader.receive()).text);
      reader.cut();
      for (let i = 10; i < 15; i++) await writer.publish(topic, `${i}`, { qos: 2 });
      await reader.back();
      assert.equal(reader.sessionPresent, true);
      while (seen.length < 15) seen.push((await reader.receive()).text);
      assert.deepEqual(seen, Array.from({ length: 15 }, (_, i) => `${i}`));
      await reader.nothing();
      const count = await Client.open(5);
      await count.subscribe(topic, 1);
      for (let i = 0; i < 15; i++) assert.equal((await count.receive()).text, `${i}`);
      await count.nothing();
      for (const client of [reader, writer, count]) await client.close();
    }
  },

  async shared_group() {
    const topic = unique("interop/shared");
    const members = [await Client.open(5), await Client.open(5)];
    for (const member of members) await member.subscribe(`$share/group/${topic}`, 1);
    const writer = await Client.open(4);
    for (let i = 0; i < 20; i++) await writer.publish(topic, `${i}`);
    // Each member gets some, and all of them come, whenever that is.
    const seen = [];
    for (const member of members) seen.push(Number((await member.receive()).text));
    await Promise.all(members.map(async (member) => {
      for (const end = performance.now() + WAIT_MS; seen.length < 20;) {
        const message = await member.within(QUIET_MS);
        if (message !== undefined) seen.push(Number(message.text));
        else assert.ok(performance.now() < end, `only ${seen} came`);
      }
    }));
    for (const member of members) await member.nothing();
    assert.deepEqual(seen.sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => i));
    // MQTT 3.1.1 knows no shared subscriptions.
    await assert.rejects(() => writer.subscribe(`$share/group/${topic}`, 1));
    for (const client of [...members, writer]) await client.close();
  },

  async seek() {
    for (const version of BOTH) {
      const topic = `iot/${unique("mqttjs")}/devices/telemetry/t`;
      const verb = "$saguin/consumer/events/seek";
      const reply = version === 5 ? unique("saguin/reply") : `${verb}/reply`;
      const clientId = unique("mqttjs-seek");
      const client = await Client.open(version, { clientId, durable: true });
      await client.subscribe(topic, 1);
      for (let i = 0; i < 5; i++) {
        await client.publish(topic, `${i}`);
        assert.equal((await client.receive()).text, `${i}`);
      }
      const asked = version === 5
        ? { properties: { responseTopic: reply, correlationData: Buffer.from("7") } }
        : {};
      const answered = client.receive();
      await client.publish(verb, "-1h", asked);
      const answer = await answered;
      assert.equal(answer.topic, reply);
      assert.match(answer.text, /^[0-9]+$/);
      if (version === 5) assert.equal(answer.packet.properties.correlationData.toString(), "7");
      for (let i = 0; i < 5; i++) assert.equal((await client.receive()).text, `${i}`);
      await client.nothing();
      const refused = client.receive();
      const puback = client.publish(verb, "nonsense", asked).then(() => 0, (error) => error.code);
      assert.equal((await refused).text, "malformed");
      // A PUBACK of 3.1.1 cannot say no.
      assert.equal(await puback, version === 5 ? 0x83 : 0);
      await client.close();
    }
  },

  async append_replay() {
    for (const version of BOTH) {
      const topic = `iot/${unique("mqttjs")}/devices/telemetry/t`;
      const clientId = unique("mqttjs-durable");
      const first = await Client.open(version, { clientId, durable: true });
      await first.subscribe(topic, 1);
      await first.close();

      const writer = await Client.open(version);
      for (let i = 0; i < 20; i++) await writer.publish(topic, `missed ${i}`);
      const again = await Client.open(version, { clientId, durable: true });
      assert.equal(again.sessionPresent, true);
      for (let i = 0; i < 20; i++) assert.equal((await again.receive()).text, `missed ${i}`);
      await again.nothing();
      await again.close();

      const newcomer = await Client.open(5);
      await newcomer.subscribe(topic, 1);
      const offsets = [];
      for (let i = 0; i < 20; i++) {
        const message = await newcomer.receive();
        assert.equal(message.packet.retain, false);
        offsets.push(Number(labels(message)["saguin-offset"]));
      }
      assert.deepEqual(offsets, [...new Set(offsets)].sort((a, b) => a - b));
      await writer.close();
      await newcomer.close();
    }
  },

  async latest_state() {
    for (const version of BOTH) {
      const topic = `iot/${unique("mqttjs")}/devices/state`;
      const writer = await Client.open(version);
      await writer.publish(topic, "old");
      await writer.publish(topic, "current");
      const reader = await Client.open(version);
      await reader.subscribe(topic, 1);
      const now = await reader.receive();
      assert.deepEqual([now.text, now.packet.retain], ["current", true]);
      await writer.publish(topic, "changed");
      const then = await reader.receive();
      assert.deepEqual([then.text, then.packet.retain], ["changed", false]);
      await writer.close();
      await reader.close();
    }
  },

  async latest_resume() {
    for (const version of BOTH) {
      const site = unique("mqttjs");
      const topics = ["a", "b", "c"].map((each) => `iot/${site}-${each}/devices/state`);
      const clientId = unique("mqttjs-viewer");
      const writer = await Client.open(version);
      for (const topic of topics) await writer.publish(topic, "first");
      const first = await Client.open(version, { clientId, durable: true });
      for (const topic of topics) {
        await first.subscribe(topic, 1);
        assert.equal((await first.receive()).text, "first");
      }
      await first.close();
      await writer.publish(topics[1], "second");
      await writer.publish(topics[1], "third");
      const again = await Client.open(version, { clientId, durable: true });
      const changed = await again.receive();
      assert.deepEqual([changed.topic, changed.text], [topics[1], "third"]);
      await again.nothing();
      await again.close();
      await writer.close();
    }
  },

  async queue_jobs() {
    const site = unique("mqttjs");
    const workers = [await Client.open(5), await Client.open(5), await Client.open(5)];
    for (const worker of workers) await worker.subscribe("$saguin/queue/jobs", 1);
    const writer = await Client.open(5);
    const topics = Array.from({ length: 12 }, (_, i) => `iot/${site}/work/${i}`);
    for (const topic of topics) await writer.publish(topic, "do it");

    const attempts = new Map();
    const answer = (worker, { packet }, text) =>
      worker.publish(packet.properties.responseTopic, text, {
        properties: { correlationData: packet.properties.correlationData },
      });
    // The first offer of job 0 is returned, so that it must come a second time.
    let offers = 0;
    await Promise.all(workers.map(async (worker) => {
      for (const end = performance.now() + WAIT_MS; offers <= topics.length;) {
        const job = await worker.within(QUIET_MS);
        if (job === undefined) {
          assert.ok(performance.now() < end, `only ${offers} jobs came`);
          continue;
        }
        offers++;
        const attempt = Number(labels(job)["saguin-attempt"]);
        attempts.set(job.topic, [...attempts.get(job.topic) ?? [], attempt]);
        await answer(worker, job, job.topic === topics[0] && attempt === 1 ? "return" : "ack");
      }
    }));
    for (const worker of workers) await worker.nothing();
    const expected = topics.map((topic) => [topic, topic === topics[0] ? [1, 2] : [1]]);
    assert.deepEqual([...attempts].sort(), expected.sort());
    for (const client of [...workers, writer]) await client.close();
    // MQTT 3.1.1 cannot answer an offer, so its SUBSCRIBE is refused.
    const old = await Client.open(4);
    await assert.rejects(() => old.subscribe("$saguin/queue/jobs", 1));
    await old.close();
  },
};

for (const [name, check] of Object.entries(CHECKS)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  await check();
  console.log(`ok ${name}`);
}
process.exit(0);
