/**
 * A configuration as the broker receives it: checked, complete, in the units of the code. Every default
 * has been filled in from the schema table, so no room repeats one. Durations are milliseconds, sizes
 * bytes; `undefined` where the file said `none` or where absence means that there is no bound.
 */
import type { LogLevel } from "../platform/log.ts";
import type { NamedFiles } from "./named_files.ts";

export interface Configuration {
  /** The path given on the command line. */
  readonly file: string;
  /** For messages about a file that the configuration names. */
  readonly files: NamedFiles;
  readonly brokerId: string;
  readonly logLevel: LogLevel;
  readonly pidFile: string | undefined;
  readonly mqtt: MqttConfiguration;
  /** Undefined: nothing of operations listens. */
  readonly operations: OperationsConfiguration | undefined;
  readonly storage: StorageConfiguration;
  readonly retained: RetainedConfiguration;
  readonly qos2: ExactlyOnceConfiguration;
  readonly share: ShareConfiguration;
  readonly session: SessionConfiguration;
  readonly limits: Limits;
  /** Undefined: AMQP does not listen and costs nothing. */
  readonly amqp: AmqpConfiguration | undefined;
  /** Undefined: no publish becomes a row of a table, and it costs nothing. */
  readonly ingest: IngestConfiguration | undefined;
  /**
   * Every channel in ascending order of its name's UTF-16 code units, each queue followed directly by
   * its derived dead-letter channel. The order carries no meaning for routing.
   */
  readonly channels: readonly Channel[];
}

/**
 * Where something is written: one-based, columns in UTF-16 code units; line 0 is a file of which nothing
 * could be read.
 */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

// ------------------------------------------------------------------------------------------- doors

export interface MqttConfiguration {
  /** At least one; with no door written, the plain default on port 1883. */
  readonly doors: readonly MqttDoor[];
  /** Protocol level: 4 is MQTT 3.1.1, 5 is MQTT 5. */
  readonly minProtocolVersion: 4 | 5;
  readonly aclFile: string | undefined;
}

export type MqttDoor = TcpDoor | WsDoor | UnixDoor;

interface DoorBase {
  /** Unique among the MQTT doors: the listener id of logs and routes. */
  readonly name: string;
  /** How errors call it: `broker.mqtt.listen.tcp`, or `broker.mqtt.listen.tcp[<name>]`. */
  readonly path: string;
  /** The file in force: the door's own, else `broker.mqtt.password_file`. */
  readonly passwordFile: string | undefined;
  /** Resolved by the rules of 02b section 6. */
  readonly allowAnonymous: boolean;
}

export interface TcpDoor extends DoorBase {
  readonly kind: "tcp";
  readonly address: Address;
  readonly tls: TlsConfiguration | undefined;
}

export interface WsDoor extends DoorBase {
  readonly kind: "ws";
  readonly address: Address;
  readonly tls: TlsConfiguration | undefined;
  readonly sameOrigin: boolean;
  /** As browsers send them; empty checks nothing. */
  readonly allowedOrigins: readonly string[];
}

export interface UnixDoor extends DoorBase {
  readonly kind: "unix";
  /** Absolute, or `@name` for an abstract one. */
  readonly socket: string;
  /** Permission bits, such as 0o660. */
  readonly mode: number;
  readonly proxyProtocol: boolean;
}

export interface OperationsConfiguration {
  /** At least one. */
  readonly doors: readonly OperationsDoor[];
  /** At least a minute. */
  readonly minScrapeIntervalMs: number;
}

export type OperationsDoor = OperationsTcpDoor | OperationsUnixDoor;

interface OperationsDoorBase {
  /** Unique among the operations doors. */
  readonly name: string;
  readonly path: string;
  /** The operators of this door: its own file, else `broker.operations.password_file`. */
  readonly passwordFile: string | undefined;
}

export interface OperationsTcpDoor extends OperationsDoorBase {
  readonly kind: "tcp";
  readonly address: Address;
  readonly tls: TlsConfiguration | undefined;
}

export interface OperationsUnixDoor extends OperationsDoorBase {
  readonly kind: "unix";
  readonly socket: string;
  readonly mode: number;
  readonly proxyProtocol: boolean;
}

export interface Address {
  /** Empty for all interfaces; IPv6 without brackets, with its zone. */
  readonly host: string;
  /** 0 to 65535; 0 lets the system choose. */
  readonly port: number;
  /** As written in the file, for messages. */
  readonly text: string;
}

export interface TlsConfiguration {
  readonly certFile: string;
  readonly keyFile: string;
  readonly minVersion: "1.2" | "1.3";
  readonly clientCaFile: string | undefined;
  /** False without `clientCaFile`. */
  readonly requireCertificate: boolean;
}

export interface AmqpConfiguration {
  /** At least one. */
  readonly doors: readonly TcpDoor[];
  /** A sqlite provider. */
  readonly storage: string;
  readonly vhost: string;
  readonly channelMax: number;
  readonly frameMax: number;
  /** A whole number of seconds, in milliseconds; undefined: none is offered. */
  readonly heartbeatMs: number | undefined;
  readonly handshakeTimeoutMs: number;
  readonly maxReady: number;
  readonly maxReadyBytes: number;
  readonly maxUnacked: number;
  readonly maxObjects: number;
  readonly publishBatch: number;
  readonly outboundHighWater: number;
  readonly crossing: boolean;
}

export interface IngestConfiguration {
  /** A sqlite provider. */
  readonly storage: string;
  readonly includeAmqp: boolean;
  /** At least one, in the order of the file. */
  readonly routes: readonly IngestRoute[];
  /** Every table that a route names, in the order of the first one that does. */
  readonly tables: readonly IngestTableConfiguration[];
}

export interface IngestRoute {
  /** A plain filter. */
  readonly filter: string;
  readonly table: string;
}

export interface IngestTableConfiguration {
  readonly name: string;
  /** Dotted keys of the payload that are columns, with their types. */
  readonly columns: ReadonlyMap<string, "TEXT" | "REAL" | "INTEGER">;
  /** Of those, the ones with an index. */
  readonly index: readonly string[];
  readonly retentionPeriodMs: number | undefined;
}

// ----------------------------------------------------------------------------------------- storage

export interface StorageConfiguration {
  /** The provider of everything that names none. */
  readonly default: string;
  /** By name; every provider written, also those that nothing uses. */
  readonly providers: ReadonlyMap<string, ProviderConfiguration>;
}

export type ProviderConfiguration = MemoryProviderConfiguration | SqliteProviderConfiguration;

interface ProviderBase {
  readonly name: string;
  readonly place: Place;
  readonly maxBytes: number | undefined;
}

export interface MemoryProviderConfiguration extends ProviderBase {
  readonly type: "memory";
  /** Absolute; undefined for `none`. */
  readonly snapshotDir: string | undefined;
}

export interface SqliteProviderConfiguration extends ProviderBase {
  readonly type: "sqlite";
  /** Absolute, cleaned of `.`, `..` and doubled slashes. */
  readonly filePath: string;
  /** `synced`: a publish is answered after the fsync of its group (T2). */
  readonly acknowledge: "committed" | "synced";
  readonly publishCommit: PublishCommit;
  /** 0 to 8; 0 puts reads on the write connection. */
  readonly readConnections: number;
  readonly flushIntervalMs: number;
}

/**
 * When publishes commit (02a section 15, S121):
 *
 * - `collecting`: at once, and what arrives while a commit runs is the next one
 * - `each`: one transaction a publish
 * - `interval`: after so many records or so long, whichever comes first
 */
export type PublishCommit =
  | { readonly kind: "collecting" }
  | { readonly kind: "each" }
  | { readonly kind: "interval"; readonly intervalMs: number; readonly maxRecords: number };

export interface RetainedConfiguration {
  readonly storage: string;
  readonly retentionPeriodMs: number | undefined;
}

export interface ExactlyOnceConfiguration {
  readonly maxInflightPerClient: number;
  readonly expiresAfterMs: number;
}

export interface ShareConfiguration {
  /** Undefined: a group's backlog lives as long as a member session that could collect it. */
  readonly expiresAfterMs: number | undefined;
}

export interface SessionConfiguration {
  readonly storage: string;
  readonly ackCommitIntervalMs: number;
}

// ------------------------------------------------------------------------------------------ limits

export interface Limits {
  /** Bytes of one whole MQTT packet. */
  readonly maxMessageSize: number;
  /** UTF-8 bytes. */
  readonly maxTopicLength: number;
  readonly maxTopicLevels: number;
  /** UTF-8 bytes. */
  readonly maxClientIdLength: number;
  readonly maxHeaderCount: number;
  readonly maxHeaderBytes: number;
  readonly maxConnections: number;
  readonly maxSubscriptions: number;
  /** A whole number of seconds, in milliseconds. */
  readonly maxSessionExpiryMs: number;
  /** A whole number of seconds, in milliseconds; undefined: no ceiling. */
  readonly maxKeepaliveMs: number | undefined;
  /** Messages a second for one client id; undefined: no bound. */
  readonly publishRate: number | undefined;
  /** Bytes a second for one client id; undefined: no bound. */
  readonly publishBytes: number | undefined;
  /** Undefined: no deadline. */
  readonly writeTimeoutMs: number | undefined;
  readonly connectTimeoutMs: number;
  readonly maxConnectSize: number;
  /** Connections a second for one MQTT door; undefined: no bound. */
  readonly maxConnectRate: number | undefined;
  readonly sessionQueueBytes: number;
}

// ---------------------------------------------------------------------------------------- channels

export type Channel = AppendChannel | LatestChannel | QueueChannel;

interface ChannelBase {
  readonly name: string;
  /** As written, braces included; `<name>/#` where none is written. */
  readonly filter: string;
  /** `filter` with its braces expanded: plain MQTT filters, one or more. */
  readonly filters: readonly string[];
  /** Name of a provider. */
  readonly storage: string;
  /** The channel's name in the file; for a dead-letter channel, its queue's. */
  readonly place: Place;
}

export interface AppendChannel extends ChannelBase {
  readonly type: "append";
  /** Where a reader without a stored position starts. */
  readonly start: "floor" | "tail";
  readonly retentionPeriodMs: number | undefined;
  readonly retentionBytes: number | undefined;
  readonly maxBytes: number | undefined;
  /** The queue this dead-letter channel is derived from; undefined for a channel of the file. */
  readonly deadLetterOf: string | undefined;
}

export interface LatestChannel extends ChannelBase {
  readonly type: "latest";
  readonly retentionPeriodMs: number | undefined;
  /** How long a deletion is kept; undefined: for the channel's life. */
  readonly deletionRetentionPeriodMs: number | undefined;
}

export interface QueueChannel extends ChannelBase {
  readonly type: "queue";
  readonly maxBytes: number | undefined;
  readonly visibilityTimeoutMs: number;
  /** Undefined: a job never expires. */
  readonly jobExpiresAfterMs: number | undefined;
  readonly maxAttempts: number;
  readonly backoff: BackoffConfiguration;
  /** The derived dead-letter channel: `<name>__dlq`, next in `channels`. */
  readonly deadLetter: string;
}

/** The gap before a failed job is offered again; the same shape as the queue store's `Backoff`. */
export type BackoffConfiguration =
  | { readonly kind: "none" }
  | { readonly kind: "linear" | "exponential"; readonly baseMs: number };
