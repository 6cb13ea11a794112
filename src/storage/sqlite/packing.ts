import type { Message, Offset, QoS, StoredRecord } from "../record.ts";
import { headersText, parseHeaders, parseProperties, propertiesText } from "./message_text.ts";

/**
 * Messages on their way between the event loop and a worker. All text of a pack is one string, all
 * numbers and payloads one buffer: cloning 256 message objects costs the loop three times as much.
 *
 * ```
 * buffer   times     BigInt64[rows * 2]      receipt time, second time (when held)
 *          numbers   Int32[rows * NUMBERS]   see below
 *          payloads  bytes, one after another
 * text     id topic headers props bridge client onlyFor, for each row, one after another
 * ```
 */
export interface Pack {
  readonly rows: number;
  readonly text: string;
  readonly buffer: ArrayBuffer;
}

const NUMBERS = 12;
const TIMES = 2;
const FLAGS = 0, TAG = 1, EXTRA = 2, PAYLOAD = 3, SIZE = 4, ID = 5, TOPIC = 6;
const HEADERS = 7, PROPS = 8, BRIDGE = 9, CLIENT = 10, ONLY_FOR = 11;

const RETAIN = 1, QOS_SHIFT = 1, GROUP_COPY = 8;
const USER_FLAGS_SHIFT = 4;

/**
 * The flags of a message as one number, the same in a pack and in every SELECT of this room. SQLite
 * gives all bit operators one precedence.
 */
export const FLAGS_SQL = "retain | (qos << 1)";
export const RECORD_FLAGS_SQL = "retain | (qos << 1) | (group_copy << 3)";

function flagsOf(message: Message): number {
  return (message.retain ? RETAIN : 0) | message.qos << QOS_SHIFT |
    (message.groupCopy ? GROUP_COPY : 0);
}

/** Collects rows, then makes one pack of them. Used again after `finish`. */
export class Packer {
  #messages: Message[] = [];
  /** Per row: flags of the caller, tag, extra number, size, second time. */
  #numbers: number[] = [];
  #heldAt: bigint[] = [];
  #payloadBytes = 0;

  get rows(): number {
    return this.#messages.length;
  }

  /**
   * @param kind up to 27 bits of the caller's
   * @param tag any 32-bit number of the caller's
   * @param extra another one
   */
  add(
    message: Message,
    kind: number,
    tag: number,
    extra: number,
    size: number,
    heldAt: bigint,
  ): void {
    this.#messages.push(message);
    this.#numbers.push(kind, tag, extra, size);
    this.#heldAt.push(heldAt);
    this.#payloadBytes += message.payload.byteLength;
  }

  /** The pack of what was added. Copies the payloads: their buffers are free afterwards. */
  finish(): Pack {
    const messages = this.#messages;
    const given = this.#numbers;
    const rows = messages.length;
    const buffer = new ArrayBuffer(rows * (8 * TIMES + 4 * NUMBERS) + this.#payloadBytes);
    const times = new BigInt64Array(buffer, 0, rows * TIMES);
    const numbers = new Int32Array(buffer, rows * 8 * TIMES, rows * NUMBERS);
    const payloads = new Uint8Array(buffer, rows * (8 * TIMES + 4 * NUMBERS));
    let text = "";
    let end = 0;
    for (let row = 0, at = 0; row < rows; row++, at += NUMBERS) {
      const message = messages[row];
      const { payload } = message;
      const headers = headersText(message.headers);
      const props = propertiesText(message.properties);
      times[row * TIMES] = message.timestamp;
      const heldAt = this.#heldAt[row];
      if (heldAt !== 0n) times[row * TIMES + 1] = heldAt;
      numbers[at + FLAGS] = flagsOf(message) | given[row * 4] << USER_FLAGS_SHIFT;
      numbers[at + TAG] = given[row * 4 + 1];
      numbers[at + EXTRA] = given[row * 4 + 2];
      numbers[at + SIZE] = given[row * 4 + 3];
      numbers[at + PAYLOAD] = payload.byteLength;
      numbers[at + ID] = message.messageId.length;
      numbers[at + TOPIC] = message.topic.length;
      numbers[at + HEADERS] = headers.length;
      numbers[at + PROPS] = props.length;
      numbers[at + BRIDGE] = message.bridge.length;
      numbers[at + CLIENT] = message.clientId.length;
      numbers[at + ONLY_FOR] = message.onlyFor.length;
      text += message.messageId + message.topic + headers + props + message.bridge +
        message.clientId + message.onlyFor;
      payloads.set(payload, end);
      end += payload.byteLength;
    }
    this.#messages = [];
    this.#numbers = [];
    this.#heldAt = [];
    this.#payloadBytes = 0;
    return { rows, text, buffer };
  }
}

/** Walks the rows of a pack in the thread that received it; the fields are those of the current row. */
export class Unpacker {
  kind = 0;
  flags = 0;
  tag = 0;
  extra = 0;
  size = 0;
  timestamp = 0n;
  messageId = "";
  topic = "";
  /** Null where there is none, as in the tables. */
  headers: string | null = null;
  props: string | null = null;
  bridge: string | null = null;
  client: string | null = null;
  onlyFor: string | null = null;
  payload: Uint8Array = new Uint8Array();

  readonly rows: number;
  #text: string;
  #times: BigInt64Array;
  #numbers: Int32Array;
  #payloads: Uint8Array;
  #row = -1;
  #textAt = 0;
  #payloadAt = 0;

  constructor(pack: Pack) {
    const { rows, text, buffer } = pack;
    this.rows = rows;
    this.#text = text;
    this.#times = new BigInt64Array(buffer, 0, rows * TIMES);
    this.#numbers = new Int32Array(buffer, rows * 8 * TIMES, rows * NUMBERS);
    this.#payloads = new Uint8Array(buffer, rows * (8 * TIMES + 4 * NUMBERS));
  }

  /** Back to before the first row. */
  rewind(): void {
    this.#row = -1;
    this.#textAt = 0;
    this.#payloadAt = 0;
  }

  /** Moves to the next row; false at the end. */
  next(): boolean {
    const row = ++this.#row;
    if (row >= this.rows) return false;
    const numbers = this.#numbers;
    const at = row * NUMBERS;
    this.flags = numbers[at + FLAGS];
    this.kind = this.flags >> USER_FLAGS_SHIFT;
    this.tag = numbers[at + TAG];
    this.extra = numbers[at + EXTRA];
    this.size = numbers[at + SIZE];
    this.timestamp = this.#times[row * TIMES];
    this.messageId = this.#take(numbers[at + ID]);
    this.topic = this.#take(numbers[at + TOPIC]);
    this.headers = this.#takeOrNull(numbers[at + HEADERS]);
    this.props = this.#takeOrNull(numbers[at + PROPS]);
    this.bridge = this.#takeOrNull(numbers[at + BRIDGE]);
    this.client = this.#takeOrNull(numbers[at + CLIENT]);
    this.onlyFor = this.#takeOrNull(numbers[at + ONLY_FOR]);
    const start = this.#payloadAt;
    this.#payloadAt = start + numbers[at + PAYLOAD];
    this.payload = this.#payloads.subarray(start, this.#payloadAt);
    return true;
  }

  get heldAt(): bigint {
    return this.#times[this.#row * TIMES + 1];
  }
  get retain(): number {
    return this.flags & RETAIN;
  }
  get qos(): number {
    return this.flags >> QOS_SHIFT & 3;
  }
  get groupCopy(): number {
    return this.flags & GROUP_COPY ? 1 : 0;
  }

  /** The current row as a message; its payload is a view of the pack. */
  message(): Message {
    const { flags } = this;
    return {
      messageId: this.messageId,
      topic: this.topic,
      timestamp: this.timestamp,
      headers: parseHeaders(this.headers ?? ""),
      properties: parseProperties(this.props ?? ""),
      payload: this.payload,
      retain: (flags & RETAIN) !== 0,
      bridge: this.bridge ?? "",
      clientId: this.client ?? "",
      qos: (flags >> QOS_SHIFT & 3) as QoS,
      groupCopy: (flags & GROUP_COPY) !== 0,
      onlyFor: this.onlyFor ?? "",
    };
  }

  #take(length: number): string {
    const start = this.#textAt;
    return this.#text.substring(start, this.#textAt = start + length);
  }

  #takeOrNull(length: number): string | null {
    return length === 0 ? null : this.#take(length);
  }
}

/**
 * Columns of a message as every SELECT of this room names them, for `RowPacker.add`: the time in two
 * halves, since a Number holds neither and a BigInt for every integer column would be slow.
 */
export function messageColumns(flagsSql: string, client = "client", onlyFor = "NULL"): string {
  return `topic, message_id, timestamp >> 32, timestamp & 4294967295, headers, props, payload, ` +
    `${flagsSql}, bridge, ${client}, ${onlyFor}`;
}

/** A row selected as `offset, messageColumns(...)`. */
export type MessageRow = [
  offset: Offset,
  topic: string,
  messageId: string,
  timeHigh: number,
  timeLow: number,
  headers: string | null,
  props: string | null,
  payload: Uint8Array,
  flags: number,
  bridge: string | null,
  client: string | null,
  onlyFor: string | null,
  ...rest: unknown[],
];

/** Records on their way from a worker to the event loop. */
export interface PackedRecords extends Pack {
  readonly offsets: Float64Array;
}

/** Makes a pack of selected rows. */
export function packRows(rows: readonly MessageRow[]): PackedRecords {
  const count = rows.length;
  let payloadBytes = 0;
  for (const row of rows) payloadBytes += row[7].byteLength;
  const buffer = new ArrayBuffer(count * (8 * TIMES + 4 * NUMBERS) + payloadBytes);
  const halves = new Int32Array(buffer, 0, count * TIMES * 2);
  const numbers = new Int32Array(buffer, count * 8 * TIMES, count * NUMBERS);
  const payloads = new Uint8Array(buffer, count * (8 * TIMES + 4 * NUMBERS));
  const offsets = new Float64Array(count);
  let text = "";
  let end = 0;
  for (let i = 0, at = 0; i < count; i++, at += NUMBERS) {
    const [offset, topic, id, high, low, headers, props, payload, flags, bridge, client, onlyFor] =
      rows[i];
    offsets[i] = offset;
    halves[i * TIMES * 2] = low;
    halves[i * TIMES * 2 + 1] = high;
    numbers[at + FLAGS] = flags;
    numbers[at + PAYLOAD] = payload.byteLength;
    numbers[at + ID] = id.length;
    numbers[at + TOPIC] = topic.length;
    text += id + topic;
    if (headers !== null) {
      numbers[at + HEADERS] = headers.length;
      text += headers;
    }
    if (props !== null) {
      numbers[at + PROPS] = props.length;
      text += props;
    }
    if (bridge !== null) {
      numbers[at + BRIDGE] = bridge.length;
      text += bridge;
    }
    if (client !== null) {
      numbers[at + CLIENT] = client.length;
      text += client;
    }
    if (onlyFor !== null) {
      numbers[at + ONLY_FOR] = onlyFor.length;
      text += onlyFor;
    }
    payloads.set(payload, end);
    end += payload.byteLength;
  }
  return { rows: count, text, buffer, offsets };
}

/** @throws SyntaxError when a stored header or property text is damaged */
export function unpackRecords(pack: PackedRecords): StoredRecord[] {
  const records = new Array<StoredRecord>(pack.rows);
  const row = new Unpacker(pack);
  for (let i = 0; row.next(); i++) {
    records[i] = { offset: pack.offsets[i], message: row.message() };
  }
  return records;
}
