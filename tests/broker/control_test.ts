import assert from "node:assert/strict";
import type { Channel as ChannelConfiguration } from "../../src/config/configuration.ts";
import { AppendChannel } from "../../src/broker/channels/append.ts";
import { LatestChannel } from "../../src/broker/channels/latest.ts";
import { QueueChannel } from "../../src/broker/channels/queue.ts";
import { ControlTopics } from "../../src/broker/control.ts";
import type { Verb } from "../../src/broker/control/request.ts";
import type { PublishRequest } from "../../src/broker/publish.ts";
import type { Refusal } from "../../src/broker/reason.ts";
import { type Placement, Routes } from "../../src/broker/routes.ts";
import type { Session } from "../../src/broker/session.ts";
import { sessionReader, StorageFailure } from "../../src/storage/contract.ts";
import { NO_PROPERTIES, type PublishProperties } from "../../src/storage/record.ts";
import { bytes, linkOf, quiet, RecordingLink, Rig, START, text } from "./rig.ts";

/** `events` (append), `state` (latest) and `work` with its dead letters, and the control topics. */
class ControlRig extends Rig {
  events!: AppendChannel;
  state!: LatestChannel;
  work!: QueueChannel;
  readonly hungUp: string[] = [];
  readonly connected = new Set<string>();
  denied = new Set<Verb | "disconnect">();
  #control!: ControlTopics;
  #routes!: Routes;

  static async open(): Promise<ControlRig> {
    const rig = new ControlRig();
    await rig.open(
      { channel: "events", kind: "append" },
      { channel: "state", kind: "latest" },
      { channel: "work", kind: "queue" },
      { channel: "work__dlq", kind: "append" },
    );
    rig.#start();
    return rig;
  }

  #start(): void {
    const { provider, context } = this;
    const append = (name: string) => {
      const policy = { start: "floor" } as const;
      const readers = () => [...channel.consumers.keys()];
      const store = provider.append(name);
      const channel: AppendChannel = new AppendChannel(
        name,
        store,
        provider,
        policy,
        context,
        readers,
      );
      return channel;
    };
    this.events = append("events");
    const letters = append("work__dlq");
    const keep = { retentionPeriodMs: 60_000, deletionRetentionPeriodMs: undefined };
    this.state = new LatestChannel("state", provider.latest("state"), provider, keep, context);
    const policy = {
      visibilityTimeoutMs: 30_000,
      jobExpiresAfterMs: undefined,
      maxAttempts: 1,
      backoff: { kind: "none" as const },
    };
    const store = provider.queue("work");
    this.work = new QueueChannel("work", store, provider, policy, "work/#", letters, context);
    const placements: Placement[] = [
      { channel: this.events, filters: ["ev/a/#", "ev/b/#"], deadLetter: false },
      { channel: this.state, filters: ["state/#"], deadLetter: false },
      { channel: this.work, filters: ["work/#"], deadLetter: false },
      { channel: letters, filters: ["work/__dlq/#"], deadLetter: true },
    ];
    this.#routes = new Routes(placements, context.limits);
    this.#control = new ControlTopics(
      context,
      this.#routes,
      [
        { name: "events", type: "append", filter: "ev/{a,b}/#" },
        { name: "state", type: "latest", filter: "state/#" },
        { name: "work", type: "queue", filter: "work/#" },
        { name: "work__dlq", type: "append", filter: "work/__dlq/#" },
      ] as unknown as ChannelConfiguration[],
      (clientId) => {
        this.hungUp.push(clientId);
        return this.connected.has(clientId);
      },
      (_session, { kind }) =>
        kind === "append"
          ? this.#granted(["write", "read", "seek"])
          : this.#granted(kind === "latest" ? ["write", "read", "delete"] : ["write", "consume"]),
      () => !this.denied.has("disconnect"),
    );
  }

  #granted(verbs: Verb[]): Verb[] {
    return verbs.filter((verb) => !this.denied.has(verb));
  }

  /** Publishes to a control topic; `0x00` is undefined. */
  ask(
    session: Session,
    topic: string,
    payload: string | Uint8Array,
    rest: { properties?: PublishProperties; qos?: 0 | 1 | 2; link?: RecordingLink } = {},
  ): Promise<Refusal | undefined> {
    const publish: PublishRequest = {
      topic,
      payload: typeof payload === "string" ? bytes(payload) : payload,
      qos: rest.qos ?? 1,
      retain: false,
      properties: rest.properties ?? { responseTopic: "reply", correlationData: bytes("7") },
    };
    const route = this.#routes.route(topic);
    if (route.kind === "refused") return Promise.resolve(route.refusal);
    assert.equal(route.kind, "control");
    if (route.kind !== "control") throw new Error();
    return this.#control.handle(session, rest.link ?? linkOf(session), route.request, publish);
  }

  /** Records of `events`, one a second from now on. */
  async record(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      await this.time.pass(1_000);
      const { store } = this.events;
      const message = this.message("ev/a/x", `r${store.next()}`);
      const row = { kind: "append" as const, store, message, offset: 0 };
      this.provider.submit({
        rows: [row],
        bytes: 1,
        settled: () => this.events.recorded(row.offset, message),
      });
    }
  }

  set(topic: string, payload: string): void {
    const { store } = this.state;
    const message = this.message(topic, payload);
    this.provider.submit({
      rows: [{ kind: "set", store, message, offset: 0 }],
      bytes: 1,
      settled: () => {},
    });
  }

  async position(clientId: string): Promise<number | undefined> {
    return (await this.events.store.position(sessionReader(clientId)))?.offset;
  }

  reader(clientId: string): Session {
    const session = this.session(clientId, { expiry: 60 });
    session.subscribe({
      filter: "ev/#",
      qos: 1,
      noLocal: false,
      retainAsPublished: false,
      retainHandling: 0,
      logOffset: 1,
    }, false);
    return session;
  }
}

interface Told {
  topic: string;
  payload: string;
  correlation: string | undefined;
  labels: Record<string, string>;
}

/** The one reply on a link. */
function onlyReply(link: RecordingLink): Told {
  assert.equal(link.deliveries.length, 1);
  return reply(link, 0);
}

function reply(link: RecordingLink, at: number): Told {
  const { message, qos, retain, packetId, labels } = link.deliveries[at];
  assert.deepEqual([qos, retain, packetId], [0, false, 0], "06 section 2: QoS 0, never kept");
  const { correlationData } = message.properties;
  return {
    topic: message.topic,
    payload: text(message.payload),
    correlation: correlationData === undefined ? undefined : text(correlationData),
    labels: Object.fromEntries(labels),
  };
}

function silent(link: RecordingLink): void {
  assert.deepEqual(link.deliveries, [], "a refusal brings no reply");
}

// --------------------------------------------------------------------------------------- catalogue

Deno.test("06 section 3 the catalogue says what a channel is, as written", async () => {
  const rows: [string, unknown][] = [
    ["events", {
      name: "events",
      type: "append",
      filter: "ev/{a,b}/#",
      verbs: ["write", "read", "seek"],
    }],
    ["state", {
      name: "state",
      type: "latest",
      filter: "state/#",
      verbs: ["write", "read", "delete"],
    }],
    ["work", {
      name: "work",
      type: "queue",
      filter: "work/#",
      verbs: ["write", "consume"],
      pin: "$saguin/queue/work",
    }],
    ["work__dlq", {
      name: "work__dlq",
      type: "append",
      filter: "work/__dlq/#",
      verbs: ["write", "read", "seek"],
    }],
  ];
  for (const [name, expected] of rows) {
    const rig = await ControlRig.open();
    const asker = rig.session("asker");
    assert.equal(await rig.ask(asker, `$saguin/catalogue/${name}`, ""), undefined);
    const told = onlyReply(linkOf(asker));
    assert.deepEqual(JSON.parse(told.payload), expected);
    assert.deepEqual([told.topic, told.correlation], ["reply", "7"]);
  }
});

Deno.test("06 section 3 an unknown channel and one without a verb have the same empty answer", async () => {
  const rig = await ControlRig.open();
  rig.denied = new Set<Verb>(["write", "consume"]);
  for (const name of ["nosuch", "work"]) {
    const asker = rig.session("asker");
    assert.equal(await rig.ask(asker, `$saguin/catalogue/${name}`, ""), undefined);
    assert.equal(onlyReply(linkOf(asker)).payload, "", name);
  }
});

Deno.test("06 section 2 catalogue, kv/get and disconnect need a Response Topic", async () => {
  const rig = await ControlRig.open();
  rig.connected.add("other");
  const requests = [
    ["$saguin/catalogue/events", ""],
    ["$saguin/kv/get", "state/x"],
    ["$saguin/sessions/disconnect", "other"],
  ];
  for (const [topic, payload] of requests) {
    for (const level of [5, 4] as const) {
      const asker = rig.session("asker", { link: new RecordingLink(level) });
      const refusal = await rig.ask(asker, topic, payload, { properties: NO_PROPERTIES });
      assert.equal(refusal?.code, 0x83, topic);
      assert.match(refusal.reason, level === 4 ? /3\.1\.1/ : /Response Topic/);
      silent(linkOf(asker));
    }
  }
  assert.deepEqual(rig.hungUp, [], "nothing is done");
});

Deno.test("06 section 2 at QoS 0 catalogue and kv/get are dropped", async () => {
  const rig = await ControlRig.open();
  rig.set("state/x", "on");
  for (
    const [topic, payload] of [["$saguin/catalogue/events", ""], ["$saguin/kv/get", "state/x"]]
  ) {
    const asker = rig.session("asker");
    assert.equal(await rig.ask(asker, topic, payload, { qos: 0 }), undefined);
    silent(linkOf(asker));
  }
});

Deno.test("06 section 2 without Correlation Data the reply has none", async () => {
  const rig = await ControlRig.open();
  const asker = rig.session("asker");
  await rig.ask(asker, "$saguin/catalogue/events", "", { properties: { responseTopic: "r" } });
  assert.equal(onlyReply(linkOf(asker)).correlation, undefined);
});

// ------------------------------------------------------------------------------------------ kv/get

Deno.test("D13.22 D13.23 a point read answers the value, and its key where nothing else matches it", async () => {
  const rig = await ControlRig.open();
  rig.set("state/x", "on");
  const asker = rig.session("asker");
  assert.equal(await rig.ask(asker, "$saguin/kv/get", "state/x"), undefined);
  await rig.ask(asker, "$saguin/kv/get", "state/x", { properties: { responseTopic: "r" } });
  const link = linkOf(asker);
  assert.deepEqual(reply(link, 0), { topic: "reply", payload: "on", correlation: "7", labels: {} });
  assert.deepEqual(reply(link, 1), {
    topic: "r",
    payload: "on",
    correlation: "state/x",
    labels: {},
  });
});

Deno.test("D13.3 D13.7 no value, a deleted one and one past its retention are the same", async () => {
  const rig = await ControlRig.open();
  rig.set("state/deleted", "on");
  rig.set("state/deleted", "");
  rig.set("state/old", "on");
  await rig.time.pass(60_001);
  for (const key of ["state/never", "state/deleted", "state/old"]) {
    const asker = rig.session("asker");
    assert.equal(await rig.ask(asker, "$saguin/kv/get", key), undefined);
    assert.equal(onlyReply(linkOf(asker)).payload, "", key);
  }
});

Deno.test("D13.24 a point read that cannot be met is refused without a reply", async () => {
  const rig = await ControlRig.open();
  const rows: [string | Uint8Array, number, RegExp][] = [
    ["", 0x83, /topic/],
    ["other/x", 0x90, /no channel/],
    ["ev/a/x", 0x90, /events.*append/],
    ["work/x", 0x90, /work.*queue/],
    ["work/__dlq/x", 0x90, /work__dlq.*append/],
    ["state/+", 0x90, /./],
    ["state/#", 0x90, /./],
    ["$saguin/kv/get", 0x90, /\$/],
    ["$SYS/x", 0x90, /\$/],
    [`state/${"x".repeat(1_100)}`, 0x90, /max_topic_length/],
    [`state${"/x".repeat(12)}`, 0x90, /max_topic_levels/],
    [new Uint8Array([0xff]), 0x90, /UTF-8/],
  ];
  for (const [key, code, reason] of rows) {
    const asker = rig.session("asker");
    const refusal = await rig.ask(asker, "$saguin/kv/get", key);
    assert.equal(refusal?.code, code, String(key));
    assert.match(refusal.reason, reason);
    silent(linkOf(asker));
  }
  rig.denied.add("read");
  const asker = rig.session("asker");
  assert.equal((await rig.ask(asker, "$saguin/kv/get", "state/x"))?.code, 0x87);
  silent(linkOf(asker));
});

Deno.test("a point read of a store that fails, and one larger than the client takes, are refused", async () => {
  const rig = await ControlRig.open();
  rig.set("state/x", "a value");
  const narrow = rig.session("narrow", { link: new RecordingLink(5, 5) });
  assert.equal((await rig.ask(narrow, "$saguin/kv/get", "state/x"))?.code, 0x83);
  rig.state.store.get = () => Promise.reject(new StorageFailure("failed", "disk"));
  const asker = rig.session("asker");
  assert.equal((await rig.ask(asker, "$saguin/kv/get", "state/x"))?.code, 0x83);
  silent(linkOf(asker));
  assert.equal(rig.counters.storageErrors.get("state"), 1);
});

// -------------------------------------------------------------------------------------------- seek

const SEEK = "$saguin/consumer/events/seek";

Deno.test("D12.1 to D12.5 D12.14 where a seek leads", async () => {
  const rig = await ControlRig.open();
  await rig.record(5);
  const at = (second: number) => new Date(START + second * 1_000).toISOString();
  const rows = [
    ["0", "1"],
    ["-1", "6"],
    ["1", "1"],
    ["3", "3"],
    ["6", "6"],
    ["2s", "3"],
    ["-2s", "3"],
    ["1500ms", "4"],
    ["7d", "1"],
    ["0s", "5"],
    [at(2), "2"],
    [at(2.001), "3"],
    [at(2).replace("Z", "+00:00"), "2"],
    ["2020-01-01T00:00:00Z", "1"],
    [at(60), "6"],
    ["9999-12-31T23:59:59Z", "6"],
  ];
  for (const [payload, expected] of rows) {
    const seeker = rig.session("seeker", { expiry: 60 });
    assert.equal(await rig.ask(seeker, SEEK, payload), undefined, payload);
    assert.deepEqual(onlyReply(linkOf(seeker)), {
      topic: "reply",
      payload: expected,
      correlation: "7",
      labels: {},
    }, payload);
    assert.equal(await rig.position("seeker"), Number(expected), payload);
  }
});

Deno.test("D12.6 D12.15 to D12.18 D12.20 a refused seek says why twice and moves nothing", async () => {
  const rig = await ControlRig.open();
  await rig.record(5);
  await rig.events.store.removeMany([1, 2]);
  const rows: [string, string, Record<string, string>][] = [
    ["", "malformed", {}],
    ["-2", "malformed", {}],
    ["2026-08-14", "malformed", {}],
    ["latest", "malformed", {}],
    ["2", "below-floor", { "saguin-floor": "3" }],
    ["1d", "below-floor", { "saguin-floor": "3" }],
    ["7", "beyond-end", { "saguin-next": "6" }],
    ["99999999999999999999999999", "beyond-end", { "saguin-next": "6" }],
  ];
  for (const [payload, word, labels] of rows) {
    const seeker = rig.session("seeker", { expiry: 60 });
    const refusal = await rig.ask(seeker, SEEK, payload);
    assert.equal(refusal?.code, 0x83, payload);
    const told = onlyReply(linkOf(seeker));
    assert.deepEqual([told.payload, told.labels, told.correlation], [word, labels, "7"], payload);
    assert.equal(await rig.position("seeker"), undefined, payload);
  }
  const ephemeral = rig.session("ephemeral");
  assert.equal((await rig.ask(ephemeral, SEEK, "0"))?.code, 0x83);
  assert.equal(onlyReply(linkOf(ephemeral)).payload, "no-session");
});

Deno.test("D12.9 a time before the oldest record, or in a channel that retention emptied", async () => {
  const rig = await ControlRig.open();
  await rig.record(4);
  await rig.events.store.removeMany([1, 2]);
  const ask = async (payload: string) => {
    const seeker = rig.session("seeker", { expiry: 60 });
    await rig.ask(seeker, SEEK, payload);
    return onlyReply(linkOf(seeker)).payload;
  };
  const at = (second: number) => new Date(START + second * 1_000).toISOString();
  assert.equal(await ask(at(3)), "3", "the oldest record itself");
  assert.equal(await ask(at(2.999)), "below-floor");
  assert.equal(await ask(at(3.001)), "4");
  await rig.events.store.removeMany([3, 4]);
  assert.equal(await ask(at(3)), "below-floor");
  assert.equal(await ask("1s"), "below-floor");
  assert.equal(await ask(at(100)), "5");
  assert.equal(await ask("0"), "5");
});

Deno.test("D12.9 while the floor is 1 no past is too long ago, empty channel or not", async () => {
  const rig = await ControlRig.open();
  for (const records of [0, 2]) {
    await rig.record(records);
    const seeker = rig.session("seeker", { expiry: 60 });
    await rig.ask(seeker, SEEK, "365d");
    assert.equal(onlyReply(linkOf(seeker)).payload, "1");
  }
});

Deno.test("D12.12 the reply, then records from the new position, on the same connection", async () => {
  const rig = await ControlRig.open();
  const reader = rig.reader("reader");
  rig.events.join(reader, undefined, false);
  await rig.record(3);
  const link = linkOf(reader);
  assert.equal(link.deliveries.length, 3);
  for (const { packetId } of [...link.deliveries]) reader.onPuback(packetId);
  await rig.ask(reader, SEEK, "2");
  assert.equal(await rig.position("reader"), 2, "stored before the reply");
  await quiet();
  assert.deepEqual(
    link.deliveries.slice(3).map(({ message }) => text(message.payload)),
    ["2", "r2", "r3"],
  );
});

Deno.test("D12.12 a record that arrives while the position is being stored comes after the reply", async () => {
  const rig = await ControlRig.open();
  const reader = rig.reader("reader");
  rig.events.join(reader, undefined, false);
  await rig.record(2);
  const link = linkOf(reader);
  for (const { packetId } of [...link.deliveries]) reader.onPuback(packetId);
  const { store } = rig.events;
  const save = store.savePosition.bind(store);
  let stored!: () => void;
  const written = new Promise<void>((resolve) => stored = resolve);
  store.savePosition = async (position, urgency) => {
    await written;
    await save(position, urgency);
  };
  const asked = rig.ask(reader, SEEK, "1");
  await quiet();
  assert.equal(link.deliveries.length, 2, "no reply before it is stored");
  stored();
  await asked;
  await quiet();
  assert.deepEqual(
    link.deliveries.slice(2).map(({ message }) => text(message.payload)),
    ["1", "r1", "r2"],
  );
});

Deno.test("D12.13 acknowledgements of the earlier stream do not move the position", async () => {
  const rig = await ControlRig.open();
  const reader = rig.reader("reader");
  const consumer = rig.events.join(reader, undefined, false);
  await rig.record(3);
  const link = linkOf(reader);
  const earlier = [...link.deliveries];
  reader.window.receiveMaximum = 4;
  await rig.ask(reader, SEEK, "1");
  for (const { packetId } of earlier) reader.onPuback(packetId);
  await rig.time.pass(1_000);
  assert.equal(await rig.position("reader"), 1);
  assert.equal(consumer.position, 1);
  await quiet();
  for (const { packetId, qos } of link.deliveries.slice(3)) {
    if (qos === 1) reader.onPuback(packetId);
  }
  await rig.time.pass(1_000);
  assert.equal(await rig.position("reader"), 4);
});

Deno.test("D12.13 a position acknowledged again after a seek is written again", async () => {
  const rig = await ControlRig.open();
  const reader = rig.reader("reader");
  rig.events.join(reader, undefined, false);
  await rig.record(3);
  const link = linkOf(reader);
  for (const { packetId } of [...link.deliveries]) reader.onPuback(packetId);
  await rig.time.pass(1_000);
  assert.equal(await rig.position("reader"), 4);
  await rig.ask(reader, SEEK, "1");
  await quiet();
  for (const { packetId } of link.deliveries.slice(4)) reader.onPuback(packetId);
  await rig.time.pass(1_000);
  assert.equal(await rig.position("reader"), 4);
});

Deno.test("D12.11 a seek moves one client on one channel", async () => {
  const rig = await ControlRig.open();
  const reader = rig.reader("reader");
  const other = rig.reader("other");
  rig.events.join(reader, undefined, false);
  rig.events.join(other, undefined, false);
  await rig.record(2);
  await rig.ask(reader, SEEK, "1");
  await quiet();
  assert.equal(linkOf(other).deliveries.length, 2);
});

Deno.test("06 section 5 without a Response Topic the reply goes to the channel's reply topic", async () => {
  const rig = await ControlRig.open();
  await rig.record(1);
  for (const level of [5, 4] as const) {
    const seeker = rig.session("seeker", { expiry: 60, link: new RecordingLink(level) });
    await rig.ask(seeker, SEEK, "1", { properties: NO_PROPERTIES });
    const told = onlyReply(linkOf(seeker));
    assert.deepEqual([told.topic, told.payload], [`${SEEK}/reply`, "1"]);
    assert.equal(told.correlation, undefined);
  }
});

Deno.test("a refused seek of a 3.1.1 client is told by the reply alone", async () => {
  const rig = await ControlRig.open();
  const seeker = rig.session("seeker", { expiry: 60, link: new RecordingLink(4) });
  assert.equal(await rig.ask(seeker, SEEK, "99", { properties: NO_PROPERTIES }), undefined);
  const told = onlyReply(linkOf(seeker));
  assert.deepEqual([told.payload, told.labels], ["beyond-end", {}]);
});

Deno.test("06 section 2 a seek at QoS 0 is applied", async () => {
  const rig = await ControlRig.open();
  await rig.record(2);
  const seeker = rig.session("seeker", { expiry: 60 });
  await rig.ask(seeker, SEEK, "2", { qos: 0 });
  assert.equal(await rig.position("seeker"), 2);
});

Deno.test("D12.17 a connection whose client id was taken over moves nothing", async () => {
  const rig = await ControlRig.open();
  await rig.record(2);
  const seeker = rig.session("seeker", { expiry: 60 });
  const old = linkOf(seeker);
  seeker.link = new RecordingLink();
  assert.equal((await rig.ask(seeker, SEEK, "1", { link: old }))?.code, 0x83);
  assert.equal(onlyReply(old).payload, "no-session");
  silent(linkOf(seeker));
  assert.equal(await rig.position("seeker"), undefined);
});

Deno.test("D12.19 a position that cannot be stored stays, and so does the reader", async () => {
  const rig = await ControlRig.open();
  const reader = rig.reader("reader");
  const consumer = rig.events.join(reader, undefined, false);
  await rig.record(3);
  const link = linkOf(reader);
  for (const { packetId } of [...link.deliveries]) reader.onPuback(packetId);
  rig.events.store.savePosition = () => Promise.reject(new StorageFailure("failed", "disk"));
  const refusal = await rig.ask(reader, SEEK, "1");
  assert.equal(refusal?.code, 0x83);
  await quiet();
  assert.equal(reply(link, 3).payload, "storage");
  assert.equal(link.deliveries.length, 4);
  assert.equal(consumer.position, 4);
  assert.ok(rig.log.lines.some(({ level }) => level === "error"));
});

Deno.test("D12.21 06 section 5 a seek on no append channel, or without the grant, has no reply", async () => {
  const rig = await ControlRig.open();
  const rows: [string, RegExp][] = [
    ["nosuch", /no channel nosuch/],
    ["state", /latest/],
    ["work", /queue/],
  ];
  for (const [name, reason] of rows) {
    const seeker = rig.session("seeker", { expiry: 60 });
    const refusal = await rig.ask(seeker, `$saguin/consumer/${name}/seek`, "0");
    assert.equal(refusal?.code, 0x90);
    assert.match(refusal.reason, reason);
    silent(linkOf(seeker));
  }
  rig.denied.add("seek");
  const seeker = rig.session("seeker", { expiry: 60 });
  assert.equal((await rig.ask(seeker, SEEK, "0"))?.code, 0x87);
  silent(linkOf(seeker));
});

Deno.test("D14.26 a dead-letter channel can be sought in", async () => {
  const rig = await ControlRig.open();
  const seeker = rig.session("seeker", { expiry: 60 });
  assert.equal(await rig.ask(seeker, "$saguin/consumer/work__dlq/seek", "0"), undefined);
  assert.equal(onlyReply(linkOf(seeker)).payload, "1");
});

// ------------------------------------------------------------------------------------ job response

async function offerOf(rig: ControlRig, worker: Session): Promise<Uint8Array> {
  const { store } = rig.work;
  const message = rig.message("work/a", "a");
  const row = { kind: "enqueue" as const, store, message, offset: 0 };
  rig.provider.submit({
    rows: [row],
    bytes: 1,
    settled: () => rig.work.recorded(row.offset, message),
  });
  rig.work.join(worker);
  await rig.time.pass(200);
  const { reply } = linkOf(worker).deliveries[0];
  assert.equal(reply?.responseTopic, "$saguin/queue/work/response");
  return reply.correlationData;
}

Deno.test("D14.10 an answer on the Response Topic resolves the job, at any QoS", async () => {
  for (const qos of [0, 1, 2] as const) {
    const rig = await ControlRig.open();
    const worker = rig.session("worker");
    const correlationData = await offerOf(rig, worker);
    const refusal = await rig.ask(worker, "$saguin/queue/work/response", "ack", {
      properties: { correlationData },
      qos,
    });
    assert.equal(refusal, undefined);
    assert.equal(rig.work.store.depth(), 0);
    assert.equal(linkOf(worker).deliveries.length, 1, "no reply");
  }
});

Deno.test("D14.12 an answer that applies to nothing is taken, and no grant is a refusal", async () => {
  const rig = await ControlRig.open();
  const worker = rig.session("worker");
  const correlationData = await offerOf(rig, worker);
  const response = "$saguin/queue/work/response";
  assert.equal(
    await rig.ask(worker, response, "done", { properties: { correlationData } }),
    undefined,
  );
  assert.equal(await rig.ask(worker, response, "ack", { properties: NO_PROPERTIES }), undefined);
  rig.denied.add("consume");
  const refusal = await rig.ask(worker, response, "ack", { properties: { correlationData } });
  assert.equal(refusal?.code, 0x87);
  assert.equal(rig.work.store.depth(), 1);
  for (const name of ["nosuch", "events", "work__dlq"]) {
    assert.equal((await rig.ask(worker, `$saguin/queue/${name}/response`, "ack"))?.code, 0x90);
  }
});

// -------------------------------------------------------------------------------------- disconnect

const DISCONNECT = "$saguin/sessions/disconnect";

Deno.test("06 section 12 hanging up another client, at QoS 0 too", async () => {
  const rig = await ControlRig.open();
  rig.connected.add("other/with/levels");
  const asker = rig.session("asker");
  await rig.ask(asker, DISCONNECT, "other/with/levels", { qos: 0 });
  await rig.ask(asker, DISCONNECT, "nobody");
  await rig.ask(asker, DISCONNECT, new Uint8Array([0xff]));
  const link = linkOf(asker);
  assert.deepEqual([0, 1, 2].map((at) => reply(link, at).payload), [
    "hung-up",
    "no-such-client",
    "no-such-client",
  ]);
  assert.deepEqual(rig.hungUp, ["other/with/levels", "nobody"]);
});

Deno.test("06 section 12 what a disconnect request is refused for", async () => {
  const rig = await ControlRig.open();
  rig.connected.add("other").add("asker");
  for (const payload of ["", "asker"]) {
    const asker = rig.session("asker");
    assert.equal((await rig.ask(asker, DISCONNECT, payload))?.code, 0x83, payload);
    silent(linkOf(asker));
  }
  rig.denied.add("disconnect");
  const asker = rig.session("asker");
  assert.equal((await rig.ask(asker, DISCONNECT, "other"))?.code, 0x87);
  silent(linkOf(asker));
  assert.deepEqual(rig.hungUp, []);
});
