/** Ten thousand clients that do not speak MQTT properly, and one that does. */
import assert from "node:assert/strict";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { bytesOf, generateConnect, generateStream, mutate } from "../support/generate_packets.ts";
import { openDescriptors } from "../support/listening.ts";
import { join, type Level, variable } from "../support/mqtt_bytes.ts";
import { Random, seeded } from "../support/random.ts";
import { until, within } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { CAMPAIGN } from "../support/campaign.ts";

const STREAMS = 10_000 * CAMPAIGN;
/** Streams under way at a time. */
const ABREAST = 40;
/** What the broker may take to close a connection whose client said all it had to say. */
const CLOSE_MS = 20_000;
const MIB = 1024 * 1024;
/** Above what the broker holds after the first streams: code that is compiled, buffers, garbage. */
const GROWTH_MIB = 192;
const WARM_AFTER = 1_000;
/** Descriptors of the broker's own: storage workers that start when they are first needed. */
const SPARE_DESCRIPTORS = 24;

/** One stream, made from its own seed alone. */
function stream(seed: number): Uint8Array<ArrayBuffer> {
  const random = new Random(seed);
  const level: Level = random.chance(0.7) ? 5 : 4;
  const proper = bytesOf(generateStream(random, level, random.below(12)));
  switch (random.below(8)) {
    case 0: // No MQTT at all.
      return random.bytes(random.between(1, 400));
    case 1: // Proper at first, noise after it.
      return join(generateConnect(random, level).bytes, random.bytes(random.between(1, 400)));
    case 2: { // A packet that announces far more than it brings, or more than is allowed.
      const first = random.pick([0x10, 0x30, 0x32, 0x34, 0x82, 0xa2, 0xe0]);
      const announced = random.pick([2_000, 100_000, 1_048_577, 50_000_000, 268_435_455]);
      const head = join([first], variable(announced), random.bytes(random.below(2_000)));
      return random.chance(0.5) ? head : join(generateConnect(random, level).bytes, head);
    }
    case 3: // Cut anywhere.
      return proper.slice(0, random.below(proper.length) + 1);
    default:
      return mutate(random, proper);
  }
}

/** Sends the stream, says that there is no more, and waits until the broker has closed. */
async function play(port: number, bytes: Uint8Array): Promise<void> {
  const socket = await Deno.connect({ hostname: "127.0.0.1", port });
  try {
    const reading = drain(socket);
    try {
      for (let sent = 0; sent < bytes.length;) sent += await socket.write(bytes.subarray(sent));
      await socket.closeWrite();
    } catch (error) {
      // The broker need not hear it out.
      if (!closedByPeer(error)) throw error;
    }
    await within("the broker to close", reading, CLOSE_MS);
  } finally {
    socket.close();
  }
}

async function drain(socket: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(16 * 1024);
  try {
    while (await socket.read(buffer) !== null);
  } catch (error) {
    if (!closedByPeer(error)) throw error;
  }
}

function closedByPeer(error: unknown): boolean {
  return error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.NotConnected || error instanceof Deno.errors.Interrupted ||
    error instanceof Deno.errors.BadResource;
}

Deno.test("10,000 malformed streams leave the broker up, its memory bounded, and a proper client undisturbed", async () => {
  const random = seeded("malformed");
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      logLevel: "error",
      limits: "max_connect_rate: none",
      providerKeys: "max_bytes: 256MiB",
      // Topics that the generator makes begin with these.
      channels: "log:\n  type: append\n  filter: a/#\nstate:\n  type: latest\n  filter: b/#\n" +
        "jobs:\n  type: queue\n  filter: sensors/#",
    })
  );
  const pid = broker.pid;
  const descriptors = openDescriptors(pid);
  using proper = await WireClient.connected(broker.port, { clientId: "a proper client" });
  await proper.subscribe({ packetId: 1, subscriptions: [{ filter: "proper/+", qos: 1 }] });
  await proper.expectSuback(1, [1]);

  let played = 0;
  let warm = 0;
  let peak = 0;
  let trips = 0;

  async function player(): Promise<void> {
    while (played < STREAMS) {
      const number = played++;
      const seed = random.uint32();
      const bytes = stream(seed);
      try {
        await play(broker.port, bytes);
      } catch (error) {
        const hex = [...bytes.subarray(0, 100)].map((b) => b.toString(16).padStart(2, "0")).join(
          "",
        );
        throw new Error(`stream ${number}, own seed ${seed}, begins ${hex}`, { cause: error });
      }
      if (number === WARM_AFTER) warm = broker.residentBytes();
      if (number % 100 === 0) peak = Math.max(peak, broker.residentBytes());
    }
  }

  /** The proper client's round trips, one after the other, as long as the players play. */
  async function roundTrips(): Promise<void> {
    while (played < STREAMS) {
      const packetId = 1 + trips % 65_535;
      const payload = `trip ${trips}`;
      await proper.publish({ topic: "proper/t", payload, qos: 1, packetId });
      const answers = [await proper.next(), await proper.next()];
      const delivery = answers.find((packet) => packet.type === "publish");
      assert.ok(delivery?.type === "publish", "the delivery of the proper client's own publish");
      assert.equal(new TextDecoder().decode(delivery.payload), payload);
      await proper.puback(delivery.packetId);
      const puback = answers.find((packet) => packet.type === "puback");
      assert.ok(puback?.type === "puback" && puback.packetId === packetId, "its PUBACK");
      trips++;
    }
  }

  await Promise.all([roundTrips(), ...Array.from({ length: ABREAST }, player)]);
  console.log(
    `malformed: ${trips} proper round trips meanwhile; resident ${Math.round(warm / MIB)} MiB ` +
      `after ${WARM_AFTER} streams, at most ${Math.round(peak / MIB)} MiB`,
  );
  assert.ok(trips > 100, `only ${trips} round trips`);
  assert.ok(peak < warm + GROWTH_MIB * MIB, `memory grew from ${warm} to ${peak} bytes`);
  assert.ok(broker.running && broker.pid === pid, "the broker is still the same process");
  await proper.disconnect();
  await until(
    "the connections to be closed",
    () => openDescriptors(pid) <= descriptors + SPARE_DESCRIPTORS,
    10_000,
  );
  assert.deepEqual(broker.lines.filter((line) => line.includes("level=ERROR")), []);
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
});
