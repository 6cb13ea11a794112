/**
 * A broker of the executable with a password file and an ACL file, which a test rewrites and has read
 * again.
 */
import assert from "node:assert/strict";
import { cheapHash } from "../auth/cheap_hash.ts";
import { BrokerProcess, configurationText, type Parts, type Place } from "./broker_process.ts";
import type { ConnectOptions } from "./mqtt_bytes.ts";
import { until } from "./wait.ts";
import { WireClient } from "./wire.ts";

const CHANNELS = `log: {type: append, filter: log/#}
state: {type: latest, filter: state/#}
jobs: {type: queue, filter: jobs/#, visibility_timeout: 30s, retry: {max_attempts: 3}}`;

/** What nobody but the client may ever see. */
export const SECRET = "correct-horse-battery";

export interface Files {
  /** User names that have `SECRET` as their password; undefined: no password file. */
  readonly users?: readonly string[];
  readonly acl?: string;
  /** Further keys of the one door. */
  readonly door?: string;
  /** Lines below `broker.mqtt`. */
  readonly mqtt?: string;
}

export class Guarded implements AsyncDisposable {
  #packetId = 0;

  private constructor(readonly broker: BrokerProcess) {}

  static async start(files: Files, parts: Parts = {}): Promise<Guarded> {
    const broker = await BrokerProcess.start((place) => {
      write(place, files);
      return configuration(place, files, parts);
    });
    return new Guarded(broker);
  }

  /** Rewrites files, and has the broker read them. */
  async reload(files: Files, outcome = /msg="?reloaded/): Promise<void> {
    const { broker } = this;
    const before = broker.lines.filter((line) => outcome.test(line)).length;
    write(broker.place, files);
    broker.signal("SIGHUP");
    await until(`a line like ${outcome}`, () => {
      return broker.lines.filter((line) => outcome.test(line)).length > before;
    });
  }

  /** A client that offers `SECRET` for `user`, and the code of its CONNACK. */
  async offer(user: string | undefined, options: ConnectOptions = {}) {
    const client = await WireClient.open(this.broker.port, options.level ?? 5);
    const named = user === undefined ? {} : { userName: user, password: SECRET };
    await client.connect({ clientId: user ?? "", ...named, ...options });
    return { client, connack: await client.expect("connack") };
  }

  async client(user: string, options: ConnectOptions = {}): Promise<WireClient> {
    const { client, connack } = await this.offer(user, options);
    assert.equal(connack.reasonCode, 0);
    return client;
  }

  async refused(code: number, user: string | undefined, options: ConnectOptions = {}) {
    const { client, connack } = await this.offer(user, options);
    assert.equal(connack.reasonCode, code);
    await client.expectClose();
    return connack;
  }

  async publish(client: WireClient, topic: string, payload: string, code = 0): Promise<void> {
    const packetId = ++this.#packetId;
    await client.publish({ topic, payload, qos: 1, packetId });
    const { packetId: answered, reasonCode } = await client.expect("puback");
    assert.deepEqual([answered, reasonCode], [packetId, code]);
  }

  async subscribe(client: WireClient, filter: string, code = 1, qos = 1): Promise<void> {
    await client.subscribe({ subscriptions: [{ filter, qos }] });
    await client.expectSuback(1, [code]);
  }

  /** The broker wrote neither the password nor any hash of it. */
  assertDiscreet(): void {
    const output = this.broker.lines.join("\n");
    for (const secret of [SECRET, cheapHash(SECRET), cheapHash(SECRET).split("$").at(-1)!]) {
      assert.ok(!output.includes(secret), "a secret is in the output");
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.broker[Symbol.asyncDispose]();
  }
}

export function write({ directory }: Place, { users, acl }: Files): void {
  if (users !== undefined) {
    const lines = users.map((user) => `${user}:${cheapHash(SECRET)}\n`);
    Deno.writeTextFileSync(`${directory}/passwords`, lines.join(""));
  }
  if (acl !== undefined) Deno.writeTextFileSync(`${directory}/acl.yaml`, acl);
}

export function configuration(
  place: Place,
  { users, acl, door = "", mqtt = "" }: Files,
  parts: Parts,
) {
  const keys = [
    users === undefined ? "" : `    password_file: ${place.directory}/passwords\n`,
    acl === undefined ? "" : `    acl_file: ${place.directory}/acl.yaml\n`,
    mqtt === "" ? "" : `    ${mqtt}\n`,
  ].join("");
  return configurationText(place, {
    provider: "memory",
    channels: CHANNELS,
    listen: `tcp:\n  address: 127.0.0.1:${place.port}\n  ${
      door.replaceAll("$DIR", place.directory)
    }`,
    ...parts,
  }).replace("  mqtt:\n", () => `  mqtt:\n${keys}`);
}

/** One role for everything a user is granted. */
export function acl(users: Readonly<Record<string, readonly string[]>>, rest = ""): string {
  const lines = ["roles:"];
  for (const [user, rules] of Object.entries(users)) {
    lines.push(`  ${user}: [${rules.join(", ")}]`);
  }
  lines.push("users:", ...Object.keys(users).map((user) => `  ${user}: {roles: [${user}]}`));
  return lines.join("\n") + "\n" + rest;
}

/** Rules that let a user do everything on `CHANNELS` and on broadcast topics. */
export const EVERYTHING = [
  "{channel: log, allow: [write, read, seek]}",
  "{channel: state, allow: [write, read, delete]}",
  "{channel: jobs, allow: [write, consume]}",
  "{channel: jobs__dlq, allow: [read]}",
  '{topic: "#", allow: [write, read]}',
];
