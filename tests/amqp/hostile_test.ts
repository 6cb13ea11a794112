/** Clients that do not speak AMQP properly, and one that does. */
import assert from "node:assert/strict";
import { CAMPAIGN } from "../support/campaign.ts";
import { Random, seeded } from "../support/random.ts";
import { until, within } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { AmqpHouse } from "./support/house.ts";

const STREAMS = 1_500 * CAMPAIGN;
const ABREAST = 20;

/** Frames a client may send on channel `channel`, in whatever order. */
function someFrame(random: Random, channel: number): Uint8Array {
  const queue = random.pick(["", "q", "r", "amq.x", "nothing"]);
  const flag = () => random.chance(0.3);
  switch (random.below(18)) {
    case 0:
      return amqp.queueDeclare(channel, queue, {
        durable: flag(),
        exclusive: flag(),
        autoDelete: flag(),
        passive: flag(),
        noWait: flag(),
        args: random.chance(0.2) ? { a: [1, { b: "c" }], "x-max-length": 1 } : {},
      });
    case 1:
      return amqp.exchangeDeclare(
        channel,
        random.pick(["", "x", "amq.topic"]),
        random.pick(["direct", "fanout", "topic", "headers"]),
        { durable: flag(), autoDelete: flag(), internal: random.chance(0.1) },
      );
    case 2:
      return amqp.queueBind(channel, queue, random.pick(["x", "amq.topic", ""]), "#");
    case 3:
      return amqp.queueUnbind(channel, queue, "x", "#");
    case 4:
      return amqp.queueDelete(channel, queue, { ifUnused: flag(), ifEmpty: flag() });
    case 5:
      return amqp.consume(channel, queue, { noAck: flag(), exclusive: random.chance(0.1) });
    case 6:
      return amqp.get(channel, queue, flag());
    case 7:
      return amqp.ack(channel, random.below(5), flag());
    case 8:
      return amqp.nack(channel, random.below(5), { multiple: flag(), requeue: flag() });
    case 9:
      return amqp.confirmSelect(channel);
    case 10:
      return amqp.qos(channel, random.below(5), flag());
    case 11:
      return amqp.channelOpen(channel);
    case 12:
      return amqp.channelClose(channel);
    case 13:
      return amqp.recover(channel, random.chance(0.8));
    case 14:
      return amqp.queuePurge(channel, queue);
    default:
      return amqp.publish(
        channel,
        random.pick(["", "x", "amq.topic", "none"]),
        queue,
        random.bytes(random.below(300)),
        {
          mandatory: flag(),
          properties: random.chance(0.5) ? amqp.PERSISTENT : { headers: { a: 1 } },
          split: random.between(1, 200),
        },
      );
  }
}

/** One stream, made from its own seed alone. */
function stream(seed: number): Uint8Array<ArrayBuffer> {
  const random = new Random(seed);
  if (random.chance(0.05)) return random.bytes(random.between(1, 300));
  const greeting = [amqp.HEADER, amqp.startOk(), amqp.tuneOk(), amqp.open()];
  const frames: Uint8Array[] = random.chance(0.9) ? [...greeting, amqp.channelOpen(1)] : greeting;
  for (let i = random.below(25); i > 0; i--) {
    frames.push(someFrame(random, random.chance(0.9) ? 1 : random.below(4)));
  }
  const bytes = amqp.join(...frames);
  switch (random.below(4)) {
    case 0: // As it is: the grammar is right, the order is not.
      return bytes;
    case 1: // Cut anywhere.
      return bytes.slice(0, random.below(bytes.length) + 1);
    case 2: { // A frame that announces far more than it brings.
      const size = random.pick([8_193, 131_073, 0x7fff_ffff, 0xffff_ffff]);
      return amqp.join(bytes, [random.pick([1, 2, 3, 8])], amqp.u16(1), amqp.u32(size));
    }
    default: { // Spoiled, behind the greeting as often as in it.
      const spared = random.chance(0.7) ? amqp.join(...greeting).length : 0;
      for (let hits = random.between(1, 6); hits > 0; hits--) {
        const at = spared + random.below(Math.max(1, bytes.length - spared));
        if (at < bytes.length) bytes[at] = random.below(256);
      }
      return bytes;
    }
  }
}

/** Sends the stream, says that there is no more, and waits until the broker has closed. */
async function play(port: number, bytes: Uint8Array): Promise<void> {
  const socket = await Deno.connect({ hostname: "127.0.0.1", port });
  const reading = (async () => {
    const buffer = new Uint8Array(16 * 1024);
    try {
      while (await socket.read(buffer) !== null);
    } catch (error) {
      if (!closedByPeer(error)) throw error;
    }
  })();
  try {
    for (let sent = 0; sent < bytes.length;) sent += await socket.write(bytes.subarray(sent));
    await socket.closeWrite();
  } catch (error) {
    // The broker need not hear it out.
    if (!closedByPeer(error)) throw error;
  }
  try {
    await within("the broker to close", reading, 20_000);
  } finally {
    socket.close();
  }
}

function closedByPeer(error: unknown): boolean {
  return error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.NotConnected || error instanceof Deno.errors.BadResource;
}

Deno.test("spoiled streams cost their own connections, and a proper client is undisturbed", async () => {
  const random = seeded("amqp hostile");
  await using house = await AmqpHouse.open({ limits: "max_connect_rate: none" });
  using proper = await house.client();
  await proper.declare("mine", { exclusive: true });
  let seeds = STREAMS;
  const one = async () => {
    while (seeds-- > 0) {
      const seed = random.uint32();
      try {
        await play(house.port, stream(seed));
      } catch (error) {
        throw new Error(`stream ${seed}`, { cause: error });
      }
    }
  };
  let working = true;
  const work = (async () => {
    for (let i = 0; working; i++) {
      await proper.send(amqp.publish(1, "", "mine", `m${i}`));
      const { name, body } = await proper.get("mine", true);
      assert.equal(name, "get-ok");
      assert.equal(new TextDecoder().decode(body), `m${i}`);
    }
  })();
  work.catch(() => {}); // Heard of below.
  await Promise.all(Array.from({ length: ABREAST }, one));
  working = false;
  await work;
  await house.connections(1);
  const { host } = house.amqp;
  const faults = house.house.log.lines.filter(({ level, fields }) =>
    level === "error" && fields.error !== undefined
  );
  assert.deepEqual(faults.map(({ msg, fields }) => `${msg}: ${fields.error}`), []);
  await until("the channels to end", () => host.counters.channels === 1);
  for (const queue of host.queues.values()) {
    assert.equal(queue.unackedCount, 0, `${queue.name} has deliveries out with nobody`);
    assert.equal(queue.consumerCount, 0, `${queue.name} has consumers of nobody`);
  }
});
