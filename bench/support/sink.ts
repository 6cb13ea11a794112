/**
 * The least that can answer a load: counts bytes, divides by the size of a PUBLISH, and acknowledges
 * from a precomputed row. What the generator does against it is the generator's own ceiling.
 * Arguments: port, protocol level, topic prefix, payload bytes, window. Topics must be of one length.
 */
import { type Level, publishPacket } from "./packets.ts";

const [port, level, topic, payloadBytes, window] = Deno.args;
const publishBytes = publishPacket(
  Number(level) as Level,
  topic + "/0",
  1,
  new Uint8Array(Number(payloadBytes)),
).length;

/** The identifiers that the generator's ring uses, in its order, twice. */
const identifiers = 2 * Number(window);
const pubacks = new Uint8Array(2 * identifiers * 4);
for (let i = 0; i < 2 * identifiers; i++) {
  const id = 1 + i % identifiers;
  pubacks.set([0x40, 2, id >> 8, id & 0xff], i * 4);
}
const connack = Number(level) === 5 ? [0x20, 3, 0, 0, 0] : [0x20, 2, 0, 0];

async function serve(socket: Deno.TcpConn): Promise<void> {
  socket.setNoDelay(true);
  const buffer = new Uint8Array(64 * 1024);
  // CONNECT comes alone: the generator waits for CONNACK.
  await socket.read(buffer);
  await socket.write(Uint8Array.from(connack));
  let bytes = 0;
  let next = 0;
  // A digit more in the topic is a byte more in the packet; the length byte says which it is.
  let size = 0;
  for (;;) {
    const read = await socket.read(buffer);
    if (read === null) return socket.close();
    if (size === 0) size = publishBytes + (lengthOf(buffer) - lengthOf16(publishBytes));
    bytes += read;
    const packets = Math.floor(bytes / size);
    bytes -= packets * size;
    const answer = pubacks.subarray(next * 4, (next + packets) * 4);
    next = (next + packets) % identifiers;
    for (let sent = 0; sent < answer.length;) sent += await socket.write(answer.subarray(sent));
  }
}

/** Remaining length of a packet, two bytes at most in this load. */
function lengthOf(packet: Uint8Array): number {
  return packet[1] < 0x80 ? packet[1] : (packet[1] & 0x7f) + 128 * packet[2];
}

function lengthOf16(total: number): number {
  return total < 130 ? total - 2 : total - 3;
}

for await (const socket of Deno.listen({ hostname: "127.0.0.1", port: Number(port) })) {
  serve(socket).catch(() => socket.close());
}
