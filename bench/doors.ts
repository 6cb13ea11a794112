/**
 * What a connection costs by the kind of door it came in by: resident memory while it idles, and how
 * fast connections are opened one after the other on several sockets at a time.
 *
 *     deno run -A bench/doors.ts --connections 2000
 */
import { parseArgs } from "node:util";
import { tcpConnection, tlsConnection, WebSocketCarriage } from "../tests/mqtt/doors/clients.ts";
import { BrokerProcess, configurationText, type Place } from "../tests/support/broker_process.ts";
import { Certified } from "../tests/support/certificates.ts";
import { freePort } from "../tests/support/ports.ts";
import { sleep } from "../tests/support/wait.ts";
import { type Carriage, WireClient } from "../tests/support/wire.ts";
import { table, whole } from "./support/measure.ts";

/** Garbage of the connecting itself may still be there; the broker gets this long to let go of it. */
const SETTLE_MS = 3_000;
/** Connections that are opened at a time. */
const ABREAST = 20;

const { values } = parseArgs({
  options: {
    connections: { type: "string" },
    doors: { type: "string" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log('bench/doors.ts [--connections 2000] [--doors "tcp,tls ECDSA"] [--smoke]');
  Deno.exit(0);
}
const connections = Number(values.connections ?? (values.smoke ? 40 : 2_000));
const settleMs = values.smoke ? 100 : SETTLE_MS;

const servers = Certified.authority("servers");
const devices = Certified.authority("devices");
const device = devices.issue({ commonName: "device-1" });

interface Door {
  readonly name: string;
  /** Its lines below `listen:`, and how a connection is opened there. */
  lines(place: Place, port: number): string;
  open(port: number, place: Place): Promise<Carriage>;
}

function tls(place: Place, algorithm: "ecdsa" | "rsa", mutual = false): string {
  const own = servers.issue({ commonName: "broker", dns: ["localhost"], algorithm });
  const write = (name: string, text: string) => {
    Deno.writeTextFileSync(`${place.directory}/${name}`, text);
    return `${place.directory}/${name}`;
  };
  const clients = mutual ? `, client_ca_file: ${write("ca.crt", devices.cert)}` : "";
  return `tls: {cert_file: ${write("c.crt", own.cert)}, key_file: ${write("c.key", own.key)}` +
    `${clients}}`;
}

function tcpDoor(name: string, keys: (place: Place) => string, open: Door["open"]): Door {
  return {
    name,
    lines: (place, port) =>
      `tcp:\n  - {name: plain, address: "127.0.0.1:${place.port}"}\n` +
      `  - {name: bench, address: "127.0.0.1:${port}"${keys(place)}}`,
    open,
  };
}

function wsDoor(name: string, keys: (place: Place) => string, open: Door["open"]): Door {
  return {
    name,
    lines: (place, port) =>
      `tcp:\n  address: 127.0.0.1:${place.port}\n` +
      `ws:\n  - {name: bench, address: "127.0.0.1:${port}"${keys(place)}}`,
    open,
  };
}

const DOORS: readonly Door[] = [
  tcpDoor("tcp", () => "", tcpConnection),
  {
    name: "unix",
    lines: (place) =>
      `tcp:\n  address: 127.0.0.1:${place.port}\nunix:\n  path: ${place.directory}/s`,
    open: (_, place) => Deno.connect({ transport: "unix", path: `${place.directory}/s` }),
  },
  wsDoor("ws", () => "", async (port) => await WebSocketCarriage.open(await tcpConnection(port))),
  tcpDoor(
    "tls ECDSA",
    (place) => `, ${tls(place, "ecdsa")}`,
    (port) => tlsConnection(port, { trust: servers }),
  ),
  tcpDoor(
    "tls RSA",
    (place) => `, ${tls(place, "rsa")}`,
    (port) => tlsConnection(port, { trust: servers }),
  ),
  tcpDoor(
    "mutual tls ECDSA",
    (place) => `, ${tls(place, "ecdsa", true)}`,
    (port) => tlsConnection(port, { trust: servers, certified: device }),
  ),
  wsDoor(
    "wss ECDSA",
    (place) => `, ${tls(place, "ecdsa")}`,
    async (port) => await WebSocketCarriage.open(await tlsConnection(port, { trust: servers })),
  ),
];

async function measure(door: Door): Promise<string[]> {
  const port = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      provider: "memory",
      logLevel: "warn",
      limits: "max_connect_rate: none",
      listen: door.lines(place, port),
    })
  );
  const clients: WireClient[] = [];
  const open = async (count: number) => {
    let next = clients.length;
    const end = next + count;
    await Promise.all(Array.from({ length: ABREAST }, async () => {
      while (next < end) {
        const number = next++;
        const client = WireClient.over(await door.open(port, broker.place), 4);
        await client.connect({ level: 4, clientId: `idle-${number}`, keepAlive: 0 });
        await client.expectConnack();
        clients.push(client);
      }
    }));
  };
  // What a first connection loads is no cost of the others.
  await open(ABREAST);
  await sleep(settleMs);
  const before = broker.residentBytes();
  const begun = performance.now();
  await open(connections);
  const elapsed = performance.now() - begun;
  await sleep(settleMs);
  const during = broker.residentBytes();
  for (const client of clients) client.close();
  return [
    door.name,
    ((during - before) / connections / 1024).toFixed(1),
    whole(connections / elapsed * 1_000),
  ];
}

const rows: string[][] = [];
const asked = values.doors?.split(",");
for (const door of DOORS.filter(({ name }) => asked?.includes(name) ?? true)) {
  console.error(`${door.name} ...`);
  rows.push(await measure(door));
}
console.log(`\n${whole(connections)} connections that connected and say nothing\n`);
console.log(table(["", "KiB each", "opened a second"], rows));
Deno.exit(0);
