/**
 * Opens connections, sends CONNECT on each, and holds them. Prints "held <n>" when every CONNACK is
 * there, and ends when its standard input does. Arguments: port, connections, protocol level.
 */
import { connectPacket, type Level } from "./packets.ts";

const [port, connections, level] = Deno.args.map(Number);

/** How many are being opened at a time: below every broker's accept queue. */
const ABREAST = 50;
/** From one source to one destination the ports run out; every so many, another loopback address. */
const PER_ADDRESS = 20_000;

const sockets: Deno.TcpConn[] = [];
let next = 0;

async function open(): Promise<void> {
  const answer = new Uint8Array(256);
  while (next < connections) {
    const number = next++;
    const hostname = `127.0.0.${1 + Math.floor(number / PER_ADDRESS)}`;
    const socket = await Deno.connect({ hostname, port });
    await socket.write(connectPacket({ level: level as Level, clientId: `idle-${number}` }));
    const read = await socket.read(answer);
    if (read === null || answer[0] !== 0x20 || answer[3] !== 0) {
      throw new Error(`connection ${number} was not admitted`);
    }
    sockets.push(socket);
  }
}

await Promise.all(Array.from({ length: ABREAST }, open));
console.log(`held ${sockets.length}`);
for await (const _ of Deno.stdin.readable) {
  // Nothing is said; only the end counts.
}
for (const socket of sockets) socket.close();
