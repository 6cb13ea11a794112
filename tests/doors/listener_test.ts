/** What every front door has of its listener, without a protocol. */
import assert from "node:assert/strict";
import { ConnectRate } from "../../src/doors/admission.ts";
import { drain, type Ending } from "../../src/doors/drain.ts";
import { Handshakes } from "../../src/doors/handshakes.ts";
import { type Accepted, proxyLayer } from "../../src/doors/layers.ts";
import { Listener, type ListenerConfiguration } from "../../src/doors/listener.ts";
import { ManualTime, RecordingLog } from "../broker/rig.ts";
import { within } from "../support/wait.ts";
import { Pipe } from "./pipe.ts";

function port(address = 0, host = "127.0.0.1"): ListenerConfiguration {
  return {
    kind: "tcp",
    name: "box",
    path: "broker.x.listen.tcp",
    address: { host, port: address, text: `${host}:${address}` },
    tls: undefined,
  };
}

function portOf({ address }: Listener): number {
  return Number(address.slice(address.lastIndexOf(":") + 1));
}

/** The next connection that `listener` accepts. */
function accepting(listener: Listener, rate?: ConnectRate): () => Promise<Accepted> {
  const waiting: Accepted[] = [];
  let wake: (() => void) | undefined;
  listener.accept(
    (accepted) => {
      waiting.push(accepted);
      wake?.();
    },
    new RecordingLog(),
    rate,
  );
  return async () => {
    while (waiting.length === 0) {
      await within("a connection", new Promise<void>((resolve) => wake = resolve));
    }
    return waiting.shift()!;
  };
}

Deno.test("a listener says which door and which address it cannot have", async () => {
  const first = new Listener(port());
  first.bind();
  const taken = new Listener(port(portOf(first)));
  assert.throws(
    () => taken.bind(),
    new RegExp(
      `^Error: broker\\.x\\.listen\\.tcp: cannot listen on 127\\.0\\.0\\.1:${portOf(first)}: ` +
        ".*; stop what listens there, or write another address$",
    ),
  );
  first.close();
  await first.ended();
});

Deno.test("02a 16.1 no host is every address, IPv4 and IPv6 by one port, and peers are written as what they are", async () => {
  const listener = new Listener(port(0, ""));
  listener.bind();
  const accepted = accepting(listener);
  const peers: [string, RegExp][] = [["127.0.0.1", /^127\.0\.0\.1:\d+$/]];
  // A machine without IPv6 shows nothing here.
  const has6 = Deno.networkInterfaces().some(({ address }) => address === "::1");
  if (has6) peers.push(["::1", /^\[::1\]:\d+$/]);
  for (const [hostname, written] of peers) {
    const client = await Deno.connect({ hostname, port: portOf(listener) });
    const { link, address } = await accepted();
    assert.match(address, written);
    link.close();
    client.close();
  }
  const second = new Listener(port(portOf(listener), ""));
  assert.throws(() => second.bind(), /cannot listen on :\d+: /);
  listener.close();
  await listener.ended();
});

Deno.test("a Unix listener that has never accepted leaves nothing behind; one that has keeps its lock file", async () => {
  const directory = Deno.makeTempDirSync();
  const socket = `${directory}/s`;
  const configuration: ListenerConfiguration = {
    kind: "unix",
    name: "unix",
    path: "broker.x.listen.unix",
    socket,
    mode: 0o600,
    proxyProtocol: false,
  };
  const refused = new Listener(configuration);
  refused.bind();
  refused.close();
  refused.release();
  assert.deepEqual([...Deno.readDirSync(directory)], []);
  const served = new Listener(configuration);
  served.bind();
  const next = accepting(served);
  using client = await Deno.connect({ transport: "unix", path: socket });
  const { link, address } = await next();
  assert.equal(address, socket, "a log calls the peer by the socket it came in by");
  await client.write(new Uint8Array([7]));
  const got = new Uint8Array(1);
  assert.equal(await link.read(got), 1);
  assert.equal(got[0], 7);
  link.close();
  served.close();
  await served.ended();
  served.release();
  assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["s.lock"]);
  Deno.removeSync(directory, { recursive: true });
});

Deno.test("a listener takes connections no faster than its rate allows", async () => {
  const PER_SECOND = 4;
  const burst = 2 * PER_SECOND;
  const time = new ManualTime();
  const listener = new Listener(port());
  listener.bind();
  const next = accepting(listener, new ConnectRate(PER_SECOND, time));
  const clients = [];
  for (let i = 0; i < burst + 1; i++) {
    clients.push(await Deno.connect({ hostname: "127.0.0.1", port: portOf(listener) }));
  }
  for (let i = 0; i < burst; i++) (await next()).link.close();
  const one = next();
  const early = await Promise.race([
    one.then(() => "accepted"),
    new Promise((resolve) => setTimeout(resolve, 100, "waiting")),
  ]);
  assert.equal(early, "waiting");
  await time.pass(1_000);
  (await one).link.close();
  for (const client of clients) client.close();
  listener.close();
  await listener.ended();
});

Deno.test("a handshake ends at its deadline or at the stop, and its connection is closed", async () => {
  const timers = new ManualTime();
  const context = { log: new RecordingLog(), timers, listener: "door" };
  const handshakes = new Handshakes([proxyLayer], context, 1_000);
  const late = new Pipe();
  const stopped = new Pipe();
  const carried = handshakes.carry({ link: late, address: "a" });
  assert.equal(handshakes.size, 1);
  await timers.pass(1_000);
  assert.equal(await carried, undefined);
  const other = handshakes.carry({ link: stopped, address: "b" });
  handshakes.cut();
  assert.equal(await other, undefined);
  assert.ok(late.closed && stopped.closed);
  assert.equal(handshakes.size, 0);
});

Deno.test("a drain waits for who ends in time, and cuts the others", async () => {
  let cuts = 0;
  const never: Ending = { closed: new Promise(() => {}), cut: () => cuts++ };
  const soon: Ending = { closed: Promise.resolve(), cut: () => {} };
  await within("a drain without a lingerer", drain(new Set([soon]), 60_000));
  await drain(new Set([soon, never]), 10);
  assert.equal(cuts, 1);
});
