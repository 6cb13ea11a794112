/** Turns settings without a finding into the configuration that the broker receives. */
import { expandBraces } from "../topics/braces.ts";
import { DEAD_LETTER_SUFFIX, deadLetterFilter } from "../topics/deadletter.ts";
import { isFault } from "../topics/filter.ts";
import type { LogLevel } from "../platform/log.ts";
import { parseAddress } from "./address.ts";
import { type Door, doorsOf } from "./checks/doors.ts";
import { columnsOf } from "./checks/ingest.ts";
import { cleanPath } from "./checks/storage.ts";
import type {
  AmqpConfiguration,
  AppendChannel,
  BackoffConfiguration,
  Channel,
  Configuration,
  IngestConfiguration,
  IngestRoute,
  Limits,
  MqttConfiguration,
  MqttDoor,
  OperationsConfiguration,
  OperationsDoor,
  ProviderConfiguration,
  PublishCommit,
  QueueChannel,
  TlsConfiguration,
} from "./configuration.ts";
import { NamedFiles } from "./named_files.ts";
import type { Block, Settings } from "./settings.ts";
import { DEFAULT_MQTT_ADDRESS } from "./table/doors.ts";

/** @param settings of a load that ended without a finding */
export function resolve(settings: Settings, file: string): Configuration {
  const broker = settings.block("broker");
  const storage = broker.block("storage");
  const retained = broker.block("retained");
  const qos2 = broker.block("qos2");
  const session = broker.block("session");
  return {
    file,
    files: new NamedFiles(settings),
    brokerId: text(broker, "id"),
    logLevel: text(broker, "log_level") as LogLevel,
    pidFile: broker.text("pid_file"),
    mqtt: resolveMqtt(broker.block("mqtt")),
    operations: resolveOperations(broker.blocks.get("operations")),
    storage: {
      default: text(storage, "default"),
      providers: new Map(
        storage.list("providers").map((block) => [block.name, resolveProvider(block)]),
      ),
    },
    retained: {
      storage: text(retained, "storage"),
      retentionPeriodMs: retained.number("retention_period"),
    },
    qos2: {
      maxInflightPerClient: number(qos2, "max_inflight_per_client"),
      expiresAfterMs: number(qos2, "expires_after"),
    },
    share: { expiresAfterMs: broker.blocks.get("share")?.number("expires_after") },
    session: {
      storage: text(session, "storage"),
      ackCommitIntervalMs: number(session, "ack_commit_interval"),
    },
    limits: resolveLimits(broker.block("limits")),
    amqp: resolveAmqp(broker),
    ingest: resolveIngest(settings.blocks.get("ingest"), storage),
    channels: resolveChannels(settings.list("channels"), storage),
  };
}

function resolveMqtt(mqtt: Block): MqttConfiguration {
  const doors = doorsOf(mqtt.blocks.get("listen")).map((door) => resolveDoor(door, mqtt));
  return {
    doors: doors.length > 0 ? doors : [{
      kind: "tcp",
      name: "tcp",
      path: "broker.mqtt.listen.tcp",
      address: parseAddress(DEFAULT_MQTT_ADDRESS),
      tls: undefined,
      ...credentials(undefined, mqtt),
    }],
    minProtocolVersion: mqtt.text("min_protocol_version") === "5" ? 5 : 4,
    aclFile: mqtt.text("acl_file"),
  };
}

function resolveDoor({ kind, name, block }: Door, mqtt: Block): MqttDoor {
  const base = { name, path: block.path, ...credentials(block, mqtt) };
  switch (kind) {
    case "tcp":
      return { ...base, kind, address: parseAddress(text(block, "address")), tls: tlsOf(block) };
    case "ws":
      return {
        ...base,
        kind,
        address: parseAddress(text(block, "address")),
        tls: tlsOf(block),
        sameOrigin: block.flag("same_origin") === true,
        allowedOrigins: block.texts("allowed_origins"),
      };
    case "unix":
      return {
        ...base,
        kind,
        socket: text(block, "path"),
        mode: parseInt(text(block, "mode"), 8),
        proxyProtocol: block.flag("proxy_protocol") === true,
      };
  }
}

function resolveAmqp(broker: Block): AmqpConfiguration | undefined {
  const amqp = broker.blocks.get("amqp");
  if (amqp === undefined) return undefined;
  const mqtt = broker.block("mqtt");
  const doors = doorsOf(amqp.blocks.get("listen")).map((door) => resolveDoor(door, mqtt));
  return {
    doors: doors.filter((door) => door.kind === "tcp"),
    storage: text(amqp, "storage"),
    vhost: text(amqp, "vhost"),
    channelMax: number(amqp, "channel_max"),
    frameMax: number(amqp, "frame_max"),
    heartbeatMs: amqp.number("heartbeat"),
    handshakeTimeoutMs: number(amqp, "handshake_timeout"),
    maxReady: number(amqp, "max_ready"),
    maxReadyBytes: number(amqp, "max_ready_bytes"),
    maxUnacked: number(amqp, "max_unacked"),
    maxObjects: number(amqp, "max_objects"),
    publishBatch: number(amqp, "publish_batch"),
    outboundHighWater: number(amqp, "outbound_high_water"),
    crossing: amqp.flag("crossing") === true,
  };
}

/** What routes say of one table belongs together, whichever of them says it. */
function resolveIngest(ingest: Block | undefined, storage: Block): IngestConfiguration | undefined {
  if (ingest === undefined) return undefined;
  const blocks = ingest.list("routes");
  const routes = blocks.map((block): IngestRoute => ({
    filter: text(block, "filter"),
    table: text(block, "table"),
  }));
  const names = new Set(routes.map(({ table }) => table));
  return {
    storage: text(ingest, "storage"),
    includeAmqp: ingest.flag("include_amqp") === true,
    routes,
    tables: [...names].map((name) => {
      const of = blocks.filter((block) => block.text("table") === name);
      const saying = (key: string) => of.find((block) => block.settings.has(key)) ?? of[0];
      return {
        name,
        columns: columnsOf(saying("columns")),
        index: saying("index").texts("index"),
        retentionPeriodMs: retention(
          saying("retention_period"),
          "retention_period",
          storage,
          "default_retention_period",
        ),
      };
    }),
  };
}

/**
 * The password file in force and whether a client without a name comes in: a door with a file of its
 * own takes nothing over from the broker, and what nobody wrote follows from the file (02b 6).
 */
function credentials(
  door: Block | undefined,
  mqtt: Block,
): { readonly passwordFile: string | undefined; readonly allowAnonymous: boolean } {
  const own = door?.text("password_file");
  const passwordFile = own ?? mqtt.text("password_file");
  const written = door?.flag("allow_anonymous") ??
    (own === undefined ? mqtt.flag("allow_anonymous") : undefined);
  return { passwordFile, allowAnonymous: written ?? passwordFile === undefined };
}

function resolveOperations(operations: Block | undefined): OperationsConfiguration | undefined {
  if (operations === undefined) return undefined;
  return {
    doors: doorsOf(operations.blocks.get("listen")).map((door) =>
      resolveOperationsDoor(door, operations)
    ),
    minScrapeIntervalMs: number(operations, "min_scrape_interval"),
  };
}

function resolveOperationsDoor({ kind, name, block }: Door, operations: Block): OperationsDoor {
  const passwordFile = block.text("password_file") ?? operations.text("password_file");
  const base = { name, path: block.path, passwordFile };
  if (kind !== "unix") {
    return {
      ...base,
      kind: "tcp",
      address: parseAddress(text(block, "address")),
      tls: tlsOf(block),
    };
  }
  return {
    ...base,
    kind,
    socket: text(block, "path"),
    mode: parseInt(text(block, "mode"), 8),
    proxyProtocol: block.flag("proxy_protocol") === true,
  };
}

function tlsOf(door: Block): TlsConfiguration | undefined {
  const tls = door.blocks.get("tls");
  if (tls === undefined) return undefined;
  return {
    certFile: text(tls, "cert_file"),
    keyFile: text(tls, "key_file"),
    minVersion: tls.text("min_version") === "1.3" ? "1.3" : "1.2",
    clientCaFile: tls.text("client_ca_file"),
    requireCertificate: tls.flag("require_certificate") === true,
  };
}

function resolveProvider(block: Block): ProviderConfiguration {
  const base = { name: block.name, place: block.place, maxBytes: block.number("max_bytes") };
  if (text(block, "type") === "memory") {
    const directory = block.text("snapshot_dir");
    return {
      ...base,
      type: "memory",
      snapshotDir: directory === undefined ? undefined : cleanPath(directory),
    };
  }
  return {
    ...base,
    type: "sqlite",
    filePath: cleanPath(text(block, "file_path")),
    acknowledge: text(block, "acknowledge") === "synced" ? "synced" : "committed",
    publishCommit: publishCommit(block),
    readConnections: number(block, "read_connections"),
    flushIntervalMs: number(block, "flush_interval"),
  };
}

function publishCommit(provider: Block): PublishCommit {
  if (provider.isNone("publish_commit_interval")) return { kind: "each" };
  const intervalMs = provider.number("publish_commit_interval");
  if (intervalMs === undefined) return { kind: "collecting" };
  const maxRecords = number(provider, "publish_commit_max_records");
  return { kind: "interval", intervalMs, maxRecords };
}

function resolveLimits(limits: Block): Limits {
  return {
    maxMessageSize: number(limits, "max_message_size"),
    maxTopicLength: number(limits, "max_topic_length"),
    maxTopicLevels: number(limits, "max_topic_levels"),
    maxClientIdLength: number(limits, "max_client_id_length"),
    maxHeaderCount: number(limits, "max_header_count"),
    maxHeaderBytes: number(limits, "max_header_bytes"),
    maxConnections: number(limits, "max_connections"),
    maxSubscriptions: number(limits, "max_subscriptions"),
    maxSessionExpiryMs: number(limits, "max_session_expiry"),
    maxKeepaliveMs: limits.number("max_keepalive"),
    publishRate: limits.number("publish_rate"),
    publishBytes: limits.number("publish_bytes"),
    writeTimeoutMs: limits.number("write_timeout"),
    connectTimeoutMs: number(limits, "connect_timeout"),
    maxConnectSize: number(limits, "max_connect_size"),
    maxConnectRate: limits.number("max_connect_rate"),
    sessionQueueBytes: number(limits, "session_queue_bytes"),
  };
}

function resolveChannels(blocks: readonly Block[], storage: Block): readonly Channel[] {
  const byName = [...blocks].sort((a, b) => a.name < b.name ? -1 : 1);
  const channels: Channel[] = [];
  for (const block of byName) {
    const channel = resolveChannel(block, storage);
    channels.push(channel);
    if (channel.type === "queue") channels.push(deadLetters(channel, block, storage));
  }
  return channels;
}

function resolveChannel(block: Block, storage: Block): Channel {
  const filter = text(block, "filter");
  const filters = expandBraces(filter);
  if (isFault(filters)) throw new TypeError(`${block.path}.filter was not checked`);
  const base = {
    name: block.name,
    filter,
    filters,
    storage: text(block, "storage"),
    place: block.place,
  };
  switch (text(block, "type")) {
    case "append":
      return {
        ...base,
        type: "append",
        start: text(block, "start") === "tail" ? "tail" : "floor",
        retentionPeriodMs: retention(
          block,
          "retention_period",
          storage,
          "default_retention_period",
        ),
        retentionBytes: retention(block, "retention_bytes", storage, "default_retention_bytes"),
        maxBytes: block.number("max_bytes"),
        deadLetterOf: undefined,
      };
    case "latest":
      return {
        ...base,
        type: "latest",
        retentionPeriodMs: retention(
          block,
          "retention_period",
          storage,
          "default_retention_period",
        ),
        deletionRetentionPeriodMs: block.number("deletion_retention_period"),
      };
    default:
      return {
        ...base,
        type: "queue",
        maxBytes: block.number("max_bytes"),
        visibilityTimeoutMs: number(block, "visibility_timeout"),
        jobExpiresAfterMs: block.number("job_expires_after"),
        maxAttempts: number(block.block("retry"), "max_attempts"),
        backoff: backoff(block.block("retry")),
        deadLetter: block.name + DEAD_LETTER_SUFFIX,
      };
  }
}

/** The channel that takes what a queue gives up on (02a 9). */
function deadLetters(queue: QueueChannel, block: Block, storage: Block): AppendChannel {
  const filter = deadLetterFilter(queue.filter);
  return {
    name: queue.deadLetter,
    type: "append",
    filter,
    filters: [filter],
    storage: queue.storage,
    place: queue.place,
    start: "floor",
    retentionPeriodMs: retention(
      block,
      "dlq_retention_period",
      storage,
      "default_retention_period",
    ),
    retentionBytes: retention(block, "dlq_retention_bytes", storage, "default_retention_bytes"),
    maxBytes: undefined,
    deadLetterOf: queue.name,
  };
}

/** The channel's own bound, `none` included, else the one for every channel. */
function retention(block: Block, key: string, storage: Block, other: string): number | undefined {
  return block.settings.has(key) ? block.number(key) : storage.number(other);
}

function backoff(retry: Block): BackoffConfiguration {
  const kind = retry.text("backoff");
  if (kind !== "linear" && kind !== "exponential") return { kind: "none" };
  return { kind, baseMs: number(retry, "backoff_base") };
}

function text(block: Block, key: string): string {
  const value = block.text(key);
  if (value === undefined) throw new TypeError(`${block.path}.${key} was not checked`);
  return value;
}

function number(block: Block, key: string): number {
  const value = block.number(key);
  if (value === undefined) throw new TypeError(`${block.path}.${key} was not checked`);
  return value;
}
