/**
 * What one packet costs in the codec, beside mqtt-packet in the same run: PUBLISH at QoS 1 with a payload of
 * 128 bytes, and PUBACK. Input lies in chunks of 64 KiB, output is taken every 64 KiB. Prints
 * nanoseconds a packet.
 *
 *   deno run -A bench/codec.ts
 */

import { Buffer } from "node:buffer";
import mqttPacket from "mqtt-packet";
import type { Delivery } from "../src/broker/link.ts";
import { Decoder } from "../src/mqtt/codec/decoder.ts";
import { PacketWriter } from "../src/mqtt/codec/encode.ts";
import type { InboundPacket } from "../src/mqtt/packet.ts";
import { PacketType } from "../src/mqtt/packet.ts";
import {
  encodeConnect,
  encodePuback,
  encodePublish,
  join,
  type Level,
  type MqttProperties,
} from "../tests/support/mqtt_bytes.ts";

const ROUNDS = 300;
const ROUND_MS = 2;
const WARM_UP_MS = 300;
const CHUNK_BYTES = 64 * 1024;
const PAYLOAD = new Uint8Array(128).fill(0x2a);

/** Results are added up here so that no work can be optimized away. */
let sum = 0;

/** Handles some packets and says how many. */
type Batch = () => number;

/**
 * Nanoseconds a packet for each of `batches`, whose short rounds alternate so that whatever else the
 * machine does meets all of them. The lowest decile stands for a round that was left alone.
 */
function measure(...batches: Batch[]): number[] {
  const rounds: number[][] = batches.map(() => []);
  for (const batch of batches) oneRound(batch, WARM_UP_MS);
  for (let round = 0; round < ROUNDS; round++) {
    batches.forEach((batch, i) => rounds[i].push(oneRound(batch, ROUND_MS)));
  }
  return rounds.map((each) => each.sort((a, b) => a - b)[Math.floor(ROUNDS / 10)]);
}

function oneRound(batch: Batch, ms: number): number {
  const begin = performance.now();
  let packets = 0;
  let now = begin;
  while (now - begin < ms) {
    packets += batch();
    now = performance.now();
  }
  sum += packets;
  return (now - begin) * 1e6 / packets;
}

function print(what: string, ours: number, theirs: number): void {
  const columns = [ours.toFixed(0), theirs.toFixed(0), (theirs / ours).toFixed(1)];
  console.log(what.padEnd(52) + columns.map((column) => column.padStart(14)).join(""));
}

console.log("".padEnd(52) + ["ns", "mqtt-packet ns", "times"].map((h) => h.padStart(14)).join(""));

// --------------------------------------------------------------------------------------- decoding

/** Chunks of whole packets, `make(0)`, `make(1)`, ... until `count` were made. */
function chunksOf(
  count: number,
  make: (i: number) => Uint8Array,
): { bytes: Uint8Array; packets: number }[] {
  const chunks: { bytes: Uint8Array; packets: number }[] = [];
  let pieces: Uint8Array[] = [];
  let size = 0;
  for (let i = 0; i < count; i++) {
    const piece = make(i);
    pieces.push(piece);
    size += piece.length;
    if (size >= CHUNK_BYTES || i === count - 1) {
      chunks.push({ bytes: join(...pieces), packets: pieces.length });
      pieces = [];
      size = 0;
    }
  }
  return chunks;
}

function decoding(
  what: string,
  level: Level,
  count: number,
  make: (i: number) => Uint8Array,
): void {
  const chunks = chunksOf(count, make);
  const decoder = new Decoder({ maximumPacketSize: 1 << 20, maximumConnectSize: 100 * 1024 });
  decoder.decode(encodeConnect({ level }), () => {});
  const onPacket = (packet: InboundPacket) => {
    if (packet.type === PacketType.Publish) {
      sum += packet.packetId + packet.payload.length + packet.topic.length;
    } else if (packet.type === PacketType.Puback) sum += packet.packetId;
  };
  let next = 0;
  const ours = () => {
    const { bytes, packets } = chunks[next++ % chunks.length];
    const fault = decoder.decode(bytes, onPacket);
    if (fault !== undefined) throw new Error(fault.reason);
    return packets;
  };
  const parser = mqttPacket.parser({ protocolVersion: level });
  parser.on("packet", (packet) => {
    sum += packet.messageId ?? 0;
    if (packet.cmd === "publish") sum += packet.payload.length + packet.topic.length;
  });
  const buffers = chunks.map(({ bytes, packets }) => ({ bytes: Buffer.from(bytes), packets }));
  const theirs = () => {
    const { bytes, packets } = buffers[next++ % buffers.length];
    parser.parse(bytes);
    return packets;
  };
  const [a, b] = measure(ours, theirs);
  print(what, a, b);
}

function publish(level: Level, topic: string, i: number, properties?: MqttProperties): Uint8Array {
  return encodePublish({
    level,
    topic,
    payload: PAYLOAD,
    qos: 1,
    packetId: 1 + i % 65535,
    properties,
  });
}

const HEADERS: MqttProperties = {
  contentType: "application/json",
  userProperties: [["saguin-id", "0190a1b2-c3d4-7e5f-8091-a2b3c4d5e6f7"], ["unit", "celsius"]],
};
const topicAt = (i: number) => `plant/pump/p${i}/readings/rpm`;

decoding("decode PUBLISH, MQTT 3.1.1, one topic", 4, 450, (i) => publish(4, topicAt(1), i));
decoding("decode PUBLISH, MQTT 5, one topic", 5, 450, (i) => publish(5, topicAt(1), i));
decoding("decode PUBLISH, MQTT 5, 8 topics in turn", 5, 450, (i) => publish(5, topicAt(i % 8), i));
decoding("decode PUBLISH, MQTT 5, 5000 topics in turn", 5, 5000, (i) => publish(5, topicAt(i), i));
decoding(
  "decode PUBLISH, MQTT 5, one topic, not ASCII",
  5,
  450,
  (i) => publish(5, "größe/温度", i),
);
decoding(
  "decode PUBLISH, MQTT 5, one topic, 3 properties",
  5,
  450,
  (i) => publish(5, topicAt(1), i, HEADERS),
);
decoding("decode PUBACK", 5, 10_000, (i) => encodePuback({ packetId: 1 + i }));

// --------------------------------------------------------------------------------------- encoding

function encoding(
  what: string,
  level: Level,
  write: (writer: PacketWriter, i: number) => void,
  packet: object,
): void {
  const writer = new PacketWriter();
  writer.level = level;
  let id = 0;
  const ours = () => {
    let packets = 0;
    while (writer.length < CHUNK_BYTES) {
      write(writer, 1 + id++ % 65535);
      packets++;
    }
    for (let piece = writer.take(); piece !== undefined; piece = writer.take()) {
      sum += piece.length;
      writer.release();
    }
    return packets;
  };
  const options = { protocolVersion: level };
  const theirs = () => {
    for (let i = 0; i < 400; i++) {
      sum +=
        mqttPacket.generate({ ...packet, messageId: 1 + id++ % 65535 } as never, options).length;
    }
    return 400;
  };
  const [a, b] = measure(ours, theirs);
  print(what, a, b);
}

function delivery(
  headers: Delivery["message"]["headers"],
  labels: Delivery["labels"],
): () => Delivery {
  const message: Delivery["message"] = {
    messageId: "0190a1b2-c3d4-7e5f-8091-a2b3c4d5e6f7",
    topic: new TextDecoder().decode(new TextEncoder().encode(topicAt(1))),
    timestamp: 1n,
    headers,
    properties: {},
    payload: PAYLOAD,
    retain: false,
    bridge: "",
    clientId: "",
    qos: 1,
    groupCopy: false,
    onlyFor: "",
  };
  return () => ({
    message,
    qos: 1,
    retain: false,
    identifiers: [],
    labels,
    expiry: undefined,
  });
}

const THEIR_PUBLISH = {
  cmd: "publish",
  topic: topicAt(1),
  payload: Buffer.from(PAYLOAD),
  qos: 1,
  dup: false,
  retain: false,
};
const LABELS: Delivery["labels"] = [
  ["saguin-id", "0190a1b2-c3d4-7e5f-8091-a2b3c4d5e6f7"],
  ["saguin-offset", "1234567"],
  ["saguin-timestamp", "1760000000000"],
];

const bare = delivery([], []);
encoding(
  "encode PUBLISH, MQTT 3.1.1",
  4,
  (writer, id) => writer.publish(bare(), id, false),
  THEIR_PUBLISH,
);
encoding(
  "encode PUBLISH, MQTT 5",
  5,
  (writer, id) => writer.publish(bare(), id, false),
  THEIR_PUBLISH,
);
const labelled = delivery([["unit", "celsius"]], LABELS);
encoding(
  "encode PUBLISH, MQTT 5, 4 User Properties",
  5,
  (writer, id) => writer.publish(labelled(), id, false),
  {
    ...THEIR_PUBLISH,
    properties: { userProperties: { ...Object.fromEntries(LABELS), unit: "celsius" } },
  },
);
encoding("encode PUBACK", 5, (writer, id) => writer.puback(id), { cmd: "puback", reasonCode: 0 });
if (sum === 0) throw new Error("nothing was measured");
