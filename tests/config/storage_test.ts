/** Providers, stores and limits against each other, with the places of the findings. */
import assert from "node:assert/strict";
import type { SqliteProviderConfiguration } from "../../src/config/configuration.ts";
import { NamedFiles } from "../../src/config/named_files.ts";
import { accepted, broker, FILE, findings, LEAST, load } from "./support.ts";

/** `LEAST` with keys in the flow mapping of provider `disk`, at line 8. */
function disk(keys: string, ...more: readonly string[]): string {
  return broker(...more).replace("file_path: /data/b.db", `file_path: /data/b.db, ${keys}`);
}

function sqlite(text: string): SqliteProviderConfiguration {
  const provider = accepted(load(text)).storage.providers.get("disk");
  assert.ok(provider?.type === "sqlite");
  return provider;
}

Deno.test("02b 3.3 to 3.5 the least configuration has every default of the table", () => {
  const configuration = accepted(load(LEAST));
  const { files, ...rest } = configuration;
  assert.ok(files instanceof NamedFiles);
  assert.deepEqual(rest, {
    file: FILE,
    brokerId: "b",
    logLevel: "info",
    pidFile: undefined,
    mqtt: {
      doors: [{
        kind: "tcp",
        name: "tcp",
        path: "broker.mqtt.listen.tcp",
        address: { host: "", port: 1883, text: ":1883" },
        tls: undefined,
        passwordFile: undefined,
        allowAnonymous: true,
      }],
      minProtocolVersion: 4,
      aclFile: undefined,
    },
    storage: {
      default: "disk",
      providers: new Map<string, unknown>([
        ["disk", {
          name: "disk",
          place: { file: FILE, line: 8, column: 7 },
          maxBytes: undefined,
          type: "sqlite",
          filePath: "/data/b.db",
          acknowledge: "committed",
          publishCommit: { kind: "collecting" },
          readConnections: 2,
          flushIntervalMs: 150,
        }],
        ["ram", {
          name: "ram",
          place: { file: FILE, line: 9, column: 7 },
          maxBytes: undefined,
          type: "memory",
          snapshotDir: undefined,
        }],
      ]),
    },
    retained: { storage: "disk", retentionPeriodMs: undefined },
    qos2: { maxInflightPerClient: 20, expiresAfterMs: 300_000 },
    share: { expiresAfterMs: undefined },
    session: { storage: "disk", ackCommitIntervalMs: 200 },
    amqp: undefined,
    ingest: undefined,
    operations: undefined,
    limits: {
      maxMessageSize: 1_048_576,
      maxTopicLength: 1_024,
      maxTopicLevels: 200,
      maxClientIdLength: 256,
      maxHeaderCount: 32,
      maxHeaderBytes: 8_192,
      maxConnections: 10_000,
      maxSubscriptions: 10_000,
      maxSessionExpiryMs: 30 * 86_400_000,
      maxKeepaliveMs: undefined,
      publishRate: undefined,
      publishBytes: undefined,
      writeTimeoutMs: 5_000,
      connectTimeoutMs: 10_000,
      maxConnectSize: 102_400,
      maxConnectRate: 500,
      sessionQueueBytes: 1_048_576,
    },
    channels: [],
  });
});

Deno.test("02b 3.5 every limit reaches the configuration under its own name", () => {
  const { limits } = accepted(load(broker(
    "limits:",
    "  max_message_size: 2MiB",
    "  max_topic_length: 500",
    "  max_topic_levels: 9",
    "  max_client_id_length: 23",
    "  max_header_count: 3",
    "  max_header_bytes: 4KiB",
    "  max_connections: 50",
    "  max_subscriptions: 60",
    "  max_session_expiry: 1h",
    "  max_keepalive: 65535s",
    "  publish_rate: 70",
    "  publish_bytes: 80",
    "  write_timeout: 250ms",
    "  connect_timeout: 1s",
    "  max_connect_size: 90",
    "  max_connect_rate: none",
    "  session_queue_bytes: 3MiB",
  )));
  assert.deepEqual(limits, {
    maxMessageSize: 2_097_152,
    maxTopicLength: 500,
    maxTopicLevels: 9,
    maxClientIdLength: 23,
    maxHeaderCount: 3,
    maxHeaderBytes: 4_096,
    maxConnections: 50,
    maxSubscriptions: 60,
    maxSessionExpiryMs: 3_600_000,
    maxKeepaliveMs: 65_535_000,
    publishRate: 70,
    publishBytes: 80,
    writeTimeoutMs: 250,
    connectTimeoutMs: 1_000,
    maxConnectSize: 90,
    maxConnectRate: undefined,
    sessionQueueBytes: 3_145_728,
  });
});

Deno.test("02b 3.4 stores take their own provider and their own figures", () => {
  const configuration = accepted(load(broker(
    "retained: {storage: ram, retention_period: 1d}",
    "qos2: {max_inflight_per_client: 1, expires_after: 1s}",
    "session: {storage: ram, ack_commit_interval: 10ms}",
    "log_level: debug",
    "pid_file: /run/saguin.pid",
    "mqtt: {min_protocol_version: 5, allow_anonymous: true}",
  )));
  assert.deepEqual(configuration.retained, { storage: "ram", retentionPeriodMs: 86_400_000 });
  assert.deepEqual(configuration.qos2, { maxInflightPerClient: 1, expiresAfterMs: 1_000 });
  assert.deepEqual(configuration.session, { storage: "ram", ackCommitIntervalMs: 10 });
  assert.equal(configuration.logLevel, "debug");
  assert.equal(configuration.pidFile, "/run/saguin.pid");
  assert.equal(configuration.mqtt.minProtocolVersion, 5);
});

Deno.test("02b 3.1 the protocol version may be quoted or bare", () => {
  for (const written of ["5", '"5"', "'5'"]) {
    const { mqtt } = accepted(load(broker(`mqtt: {min_protocol_version: ${written}}`)));
    assert.equal(mqtt.minProtocolVersion, 5);
  }
  for (const written of ["3.1.1", '"3.1.1"']) {
    const { mqtt } = accepted(load(broker(`mqtt: {min_protocol_version: ${written}}`)));
    assert.equal(mqtt.minProtocolVersion, 4);
  }
});

Deno.test("02a 13 sizes that follow max_message_size follow it both ways", () => {
  const small = accepted(load(broker("limits: {max_message_size: 10KiB}"))).limits;
  assert.deepEqual([small.maxConnectSize, small.sessionQueueBytes], [10_240, 1_048_576]);
  const large = accepted(load(broker("limits: {max_message_size: 4MiB}"))).limits;
  assert.deepEqual([large.maxConnectSize, large.sessionQueueBytes], [102_400, 4_194_304]);
});

Deno.test("02b 3.5 a CONNECT above and a session queue below max_message_size are refused", () => {
  assert.deepEqual(
    findings(
      load(broker("limits:", "  max_connect_size: 1025KiB", "  session_queue_bytes: 1048575")),
    ),
    [
      '11:23 limits.max_connect_size "1025KiB" is above limits.max_message_size (1MiB), which bounds every packet; write at most that',
      '12:26 limits.session_queue_bytes "1048575" is below limits.max_message_size (1MiB), so that one message could not wait; write at least that',
    ],
  );
  accepted(load(broker("limits: {max_connect_size: 1MiB, session_queue_bytes: 1MiB}")));
  accepted(load(broker("limits: {max_message_size: 256MiB, max_connect_size: 256MiB}")));
  accepted(load(broker("limits: {max_message_size: 1, session_queue_bytes: 1}")));
});

Deno.test("02b 3.3 max_bytes below twice the reserve is refused, naming both limits", () => {
  const ram = (bound: string) =>
    findings(load(LEAST.replace("snapshot_dir: none", `snapshot_dir: none, max_bytes: ${bound}`)));
  // 2 x (1MiB + 8KiB)
  assert.deepEqual(ram("2113536"), []);
  assert.deepEqual(ram("2113535"), [
    '9:58 broker.storage.providers.ram.max_bytes "2113535" leaves no room beside the reserve: ' +
    "at least 2064KiB is needed, twice limits.max_message_size (1MiB) and " +
    "limits.max_header_bytes (8KiB) together; raise it, or lower limits.max_message_size",
  ]);
});

Deno.test("02b 3.3, S92 on sqlite max_bytes must exceed an empty database beside the reserve", () => {
  const bound = (bytes: number, empty: number) =>
    findings(load(disk(`max_bytes: ${bytes}`), {}, { emptyDatabaseBytes: empty }));
  assert.deepEqual(bound(2_113_536 + 4_097, 4_096), []);
  assert.deepEqual(bound(2_113_536 + 4_096, 4_096), [
    '8:62 broker.storage.providers.disk.max_bytes "2117632" leaves no room beside the reserve: ' +
    "more than 2068KiB is needed, twice limits.max_message_size (1MiB) and " +
    "limits.max_header_bytes (8KiB) together plus an empty database of 4KiB; raise it, or lower " +
    "limits.max_message_size",
  ]);
  assert.equal(bound(2_113_536 + 4_097, 8_192).length, 1);
});

Deno.test("02b 3.3 the larger of the two limits is the one to lower", () => {
  const text = disk("max_bytes: 1KiB", "limits: {max_message_size: 1KiB, max_header_bytes: 8KiB}");
  assert.match(findings(load(text))[0], /lower limits\.max_header_bytes$/);
});

Deno.test("02a 15 the commit policy follows from the two keys", () => {
  assert.deepEqual(sqlite(LEAST).publishCommit, { kind: "collecting" });
  assert.deepEqual(sqlite(disk("publish_commit_interval: none")).publishCommit, { kind: "each" });
  assert.deepEqual(
    sqlite(disk("publish_commit_interval: 2ms, publish_commit_max_records: 32")).publishCommit,
    { kind: "interval", intervalMs: 2, maxRecords: 32 },
  );
});

Deno.test("02a 15 an interval without a count, and a count without an interval, are refused", () => {
  assert.deepEqual(findings(load(disk("publish_commit_interval: 2ms"))), [
    "8:76 broker.storage.providers.disk.publish_commit_max_records is missing beside publish_commit_interval; write how many records end the wait",
  ]);
  const alone =
    ' broker.storage.providers.disk.publish_commit_max_records "9" stands without a publish_commit_interval to wait for; write both or neither';
  assert.deepEqual(findings(load(disk("publish_commit_max_records: 9"))), ["8:79" + alone]);
  assert.deepEqual(
    findings(load(disk("publish_commit_interval: none, publish_commit_max_records: 9"))),
    ["8:110" + alone],
  );
});

Deno.test("02a 15 the count may reach max_connections and no further", () => {
  const keys = (count: number) =>
    `publish_commit_interval: 2ms, publish_commit_max_records: ${count}`;
  assert.deepEqual(findings(load(disk(keys(50), "limits: {max_connections: 50}"))), []);
  assert.deepEqual(findings(load(disk(keys(51), "limits: {max_connections: 50}"))), [
    '8:109 broker.storage.providers.disk.publish_commit_max_records "51" is above limits.max_connections (50); write a whole number from 2 to that',
  ]);
});

Deno.test("a refused interval says nothing more about the count", () => {
  assert.equal(
    findings(load(disk("publish_commit_interval: 2s, publish_commit_max_records: 9"))).length,
    1,
  );
});

Deno.test("02b 3.3 acknowledge, reads and flushes reach the provider", () => {
  const provider = sqlite(
    disk("acknowledge: synced, read_connections: 0, flush_interval: 1s, max_bytes: 8GiB"),
  );
  assert.equal(provider.acknowledge, "synced");
  assert.equal(provider.readConnections, 0);
  assert.equal(provider.flushIntervalMs, 1_000);
  assert.equal(provider.maxBytes, 8 * 1024 ** 3);
});

Deno.test("a file path is cleaned, so that one file has one name", () => {
  const text = LEAST.replace("/data/b.db", "/data//x/../b.db/.");
  assert.equal(sqlite(text).filePath, "/data/b.db");
});

Deno.test("02a 14 two providers in one place are refused as cleaned paths", () => {
  assert.deepEqual(
    findings(load(LEAST.replace(
      "ram: {type: memory, snapshot_dir: none}",
      "ram: {type: sqlite, file_path: /data/./b.db}",
    ))),
    [
      '9:38 broker.storage.providers.ram.file_path "/data/./b.db" is the same place as file_path ' +
      `of provider "disk" at ${FILE}:8; give each provider its own`,
    ],
  );
  const memory = LEAST.replace(
    "{type: sqlite, file_path: /data/b.db}",
    "{type: memory, snapshot_dir: none}",
  );
  accepted(load(memory));
  const shared = memory.replaceAll("snapshot_dir: none", "snapshot_dir: /snap");
  assert.match(
    findings(load(shared))[0],
    /^9:41 .*ram\.snapshot_dir "\/snap" is the same place as snapshot_dir of provider "disk"/,
  );
});

Deno.test("a provider that does not exist is refused once, where it is written", () => {
  assert.deepEqual(findings(load(LEAST.replace("default: disk", "default: dsik"))), [
    '4:14 broker.storage.default "dsik" is not a provider; write disk or ram, or add the provider',
  ]);
  assert.deepEqual(
    findings(load(broker("retained: {storage: a}", "session: {storage: b}"))),
    [
      '10:23 broker.retained.storage "a" is not a provider; write disk or ram, or add the provider',
      '11:22 broker.session.storage "b" is not a provider; write disk or ram, or add the provider',
    ],
  );
});

Deno.test("a provider without a usable name, and no provider at all, are refused", () => {
  assert.match(
    findings(load(LEAST.replace("      ram:", '      "":')))[0],
    /^9:7 broker\.storage\.providers\. is no name; write 1 to 128 characters/,
  );
  const none = LEAST.replace(/providers:[^]*/, "providers:\n");
  assert.deepEqual(findings(load(none)), [
    "7:5 broker.storage.providers names no provider; write at least one",
  ]);
});

Deno.test("names that JavaScript objects know are ordinary names", () => {
  const text = LEAST.replace("ram:", "__proto__:").replace("default: disk", "default: __proto__") +
    "channels:\n  constructor: {type: append}\n  toString: {type: latest}\n";
  const configuration = accepted(load(text));
  assert.equal(configuration.storage.providers.get("__proto__")?.type, "memory");
  assert.deepEqual(configuration.channels.map(({ name, storage }) => [name, storage]), [
    ["constructor", "__proto__"],
    ["toString", "__proto__"],
  ]);
  assert.match(
    findings(load(broker("constructor: 1")))[0],
    /^10:3 broker\.constructor is not a key here; the keys are /,
  );
});

Deno.test("02b 3.4 there is no switch and no bound in the blocks of stores", () => {
  assert.deepEqual(
    findings(load(broker(
      "qos2: false",
      "session: {max_bytes: 1GiB}",
      "retained: {max_bytes: 1GiB, retention_bytes: 1GiB}",
      "log_file: /var/log/saguin",
    ))),
    [
      '10:9 broker.qos2 "false" is a single value: QoS 2 is always offered; deny it to a client in the ACL file; write a mapping of keys',
      "11:13 broker.session.max_bytes is refused: this store is bounded by its provider; write max_bytes there",
      "12:14 broker.retained.max_bytes is refused: this store is bounded by its provider; write max_bytes there",
      "12:31 broker.retained.retention_bytes is refused: one value a topic is kept; write retention_period, or max_bytes of the provider",
      "13:3 broker.log_file does not exist: the log goes to standard output; remove it",
    ],
  );
});

Deno.test("a key in the wrong place is refused with the place it belongs", () => {
  assert.deepEqual(findings(load(broker("max_connections: 5", "flush_intervall: 1s"))), [
    "10:3 broker.max_connections is not a key here; it belongs at broker.limits.max_connections",
    "11:3 broker.flush_intervall is not a key here; the keys are id, log_level, pid_file, mqtt, " +
    "operations, storage, retained, qos2, share, session, limits or amqp",
  ]);
});

Deno.test("a key of which one half is written is told the other, and is not missing besides", () => {
  const text = LEAST.replace("file_path: /data/b.db", "path: /data/b.db, max: 1GiB");
  assert.deepEqual(findings(load(text)), [
    "8:28 broker.storage.providers.disk.path is not a key here; did you mean file_path?",
    "8:46 broker.storage.providers.disk.max is not a key here; did you mean max_bytes?",
  ]);
});
