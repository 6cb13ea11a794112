/**
 * Logins: how many a second each kind of door admits, beside mosquitto with the same users and the same
 * certificates; and what a storm of them costs a publisher that is connected already.
 *
 *     deno run -A bench/login.ts --rounds 3
 */
import { parseArgs } from "node:util";
import { hashPassword, writeHash } from "../src/auth/hash.ts";
import { BrokerProcess, configurationText } from "../tests/support/broker_process.ts";
import { Certified } from "../tests/support/certificates.ts";
import { freePort } from "../tests/support/ports.ts";
import { load, mosquittoWith, type Running } from "./support/brokers.ts";
import type { LoadResult } from "./support/load.ts";
import type { LoginResult } from "./support/logins.ts";
import { median, processorSeconds, table, whole } from "./support/measure.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("bench/login.ts [--rounds 3] [--smoke]");
  Deno.exit(0);
}
const rounds = Number(values.rounds ?? (values.smoke ? 1 : 3));
const loginMs = values.smoke ? 300 : 2_000;
const publishMs = values.smoke ? 300 : 2_500;
/** What `limits.max_connect_rate` lets in at one door by default. */
const STORM_RATE = 500;
/** How much a storm may add to the p99 of a publisher's PUBACK. */
const TARGET = 2;

const USER = "device";
const PASSWORD = "correct horse";

type Kind = "plain" | "password" | "tls RSA" | "tls ECDSA";
const KINDS: readonly Kind[] = ["plain", "password", "tls RSA", "tls ECDSA"];

/** A broker with a door of each kind. */
interface Doors extends AsyncDisposable {
  readonly name: string;
  readonly pid: number;
  readonly port: (kind: Kind) => number;
}

/** What both brokers are given: the same users, the same certificates. */
const files = await Deno.makeTempDir();
const write = (name: string, text: string) => {
  Deno.writeTextFileSync(`${files}/${name}`, text);
  return `${files}/${name}`;
};
const authority = Certified.authority("bench");
const trust = write("ca.pem", authority.cert);
const users = write(
  "users",
  `${USER}:${writeHash(await hashPassword(new TextEncoder().encode(PASSWORD)))}\n`,
);
const own = (algorithm: "rsa" | "ecdsa") => {
  const { cert, key } = authority.issue({ commonName: "b", dns: ["localhost"], algorithm });
  return { cert: write(`${algorithm}.pem`, cert), key: write(`${algorithm}.key`, key) };
};
const rsa = own("rsa");
const ecdsa = own("ecdsa");
// mosquitto gives up the rights of root, which made the files.
for (const path of [files, trust, users, rsa.cert, rsa.key, ecdsa.cert, ecdsa.key]) {
  Deno.chmodSync(path, path === files ? 0o755 : 0o644);
}

async function saguin(): Promise<Doors> {
  const ports = new Map(KINDS.map((kind) => [kind, freePort()]));
  const tls = ({ cert, key }: typeof rsa) => `tls: {cert_file: ${cert}, key_file: ${key}}`;
  const broker = await BrokerProcess.start((place) => {
    ports.set("plain", place.port);
    return configurationText(place, {
      logLevel: "error",
      limits: "max_connect_rate: none",
      channels: "bench:\n  type: append",
      listen: [
        "tcp:",
        `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
        `  - {name: password, address: "127.0.0.1:${
          ports.get("password")
        }", password_file: ${users}}`,
        `  - {name: rsa, address: "127.0.0.1:${ports.get("tls RSA")}", ${tls(rsa)}}`,
        `  - {name: ecdsa, address: "127.0.0.1:${ports.get("tls ECDSA")}", ${tls(ecdsa)}}`,
      ].join("\n"),
    });
  });
  return {
    name: "saguin",
    pid: broker.pid,
    port: (kind) => ports.get(kind)!,
    [Symbol.asyncDispose]: () => broker[Symbol.asyncDispose](),
  };
}

async function mosquitto(): Promise<Doors> {
  const ports = new Map(KINDS.map((kind) => [kind, freePort()]));
  const listener = (kind: Kind, ...keys: readonly string[]) =>
    [`listener ${ports.get(kind)} 127.0.0.1`, ...keys].join("\n");
  const tls = ({ cert, key }: typeof rsa) => [`certfile ${cert}`, `keyfile ${key}`];
  const running = await mosquittoWith(
    [
      "per_listener_settings true",
      listener("plain", "allow_anonymous true"),
      listener("password", "allow_anonymous false", `password_file ${users}`),
      listener("tls RSA", "allow_anonymous true", ...tls(rsa)),
      listener("tls ECDSA", "allow_anonymous true", ...tls(ecdsa)),
      "",
    ].join("\n"),
    ports.get("plain")!,
  );
  return {
    name: "mosquitto",
    pid: running.pid,
    port: (kind) => ports.get(kind)!,
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}

/** Loads speak to a port. */
function at(doors: Doors, kind: Kind): Pick<Running, "name" | "port"> {
  return { name: `${doors.name}, ${kind}`, port: doors.port(kind) };
}

function storm(doors: Doors, kind: Kind, measure: number, rate?: number): Promise<LoginResult> {
  return load<LoginResult>(at(doors, kind), "logins.ts", {
    measure,
    rate,
    ca: kind.startsWith("tls") ? trust : undefined,
    user: kind === "password" ? USER : undefined,
    password: kind === "password" ? PASSWORD : undefined,
  });
}

function publish(doors: Doors): Promise<LoadResult> {
  const measure = publishMs;
  return load<LoadResult>(at(doors, "plain"), "load.ts", { connections: 1, window: 1, measure });
}

/** What a storm showed, and what it cost the broker. */
type Stormed = LoginResult & { readonly cpuMicros: number };

/** One round of logins as fast as they are answered, at each kind of door of each broker. */
async function logins(brokers: readonly Doors[]): Promise<ReadonlyMap<string, Stormed>> {
  const results = new Map<string, Stormed>();
  for (const kind of KINDS) {
    for (const doors of brokers) {
      const before = processorSeconds(doors.pid);
      const stormed = await storm(doors, kind, loginMs);
      const cpuMicros = (processorSeconds(doors.pid) - before) * 1e6 / stormed.logins;
      results.set(`${doors.name} ${kind}`, { ...stormed, cpuMicros });
    }
  }
  return results;
}

/** PUBACK times while nothing else happens, and while each kind of storm does. */
async function publishing(
  ours: Doors,
  other: Doors,
): Promise<ReadonlyMap<string, LoadResult & { readonly rateOfLogins: number }>> {
  const results = new Map<string, LoadResult & { readonly rateOfLogins: number }>();
  results.set("nobody logs in", { ...await publish(ours), rateOfLogins: 0 });
  const during = async (name: string, doors: Doors, kind: Kind, rate?: number) => {
    // Longer than the publishing with its warm-up, so that all of that lies inside.
    const storming = storm(doors, kind, publishMs + 1_500, rate);
    const published = await publish(ours);
    results.set(name, { ...published, rateOfLogins: (await storming).rate });
  };
  await during("500/s at mosquitto, password", other, "password", STORM_RATE);
  for (const kind of KINDS) await during(`500/s here, ${kind}`, ours, kind, STORM_RATE);
  await during("unbounded here, password", ours, "password");
  return results;
}

function over<T>(results: readonly ReadonlyMap<string, T>[], name: string, of: (one: T) => number) {
  return median(results.map((round) => of(round.get(name)!)));
}

try {
  await using ours = await saguin();
  await using other = await mosquitto();
  const admitted: ReadonlyMap<string, Stormed>[] = [];
  const published: Awaited<ReturnType<typeof publishing>>[] = [];
  for (let round = 1; round <= rounds; round++) {
    console.error(`round ${round} of ${rounds} ...`);
    admitted.push(await logins([ours, other]));
    published.push(await publishing(ours, other));
  }

  console.log(`\nLogins a second, 16 at a time, medians of ${rounds}\n`);
  console.log(table(
    ["", "saguin", "mosquitto", "ratio", "p99 ms", "its", "cpu us a login", "its"],
    KINDS.map((kind) => {
      const rate = over(admitted, `saguin ${kind}`, (one) => one.rate);
      const its = over(admitted, `mosquitto ${kind}`, (one) => one.rate);
      return [
        kind,
        whole(rate),
        whole(its),
        (rate / its).toFixed(2),
        over(admitted, `saguin ${kind}`, (one) => one.p99).toFixed(1),
        over(admitted, `mosquitto ${kind}`, (one) => one.p99).toFixed(1),
        whole(over(admitted, `saguin ${kind}`, (one) => one.cpuMicros)),
        whole(over(admitted, `mosquitto ${kind}`, (one) => one.cpuMicros)),
      ];
    }),
  ));

  const idle = over(published, "nobody logs in", (one) => one.p99!);
  console.log(`\nPUBACK of a lone publisher on sqlite, medians of ${rounds}\n`);
  console.log(table(
    ["", "logins/s", "p50 us", "p99 us", "p99 to idle"],
    [...published[0].keys()].map((name) => {
      const p99 = over(published, name, (one) => one.p99!);
      return [
        name,
        whole(over(published, name, (one) => one.rateOfLogins)),
        whole(over(published, name, (one) => one.p50!)),
        whole(p99),
        (p99 / idle).toFixed(2),
      ];
    }),
  ));
  const worst = Math.max(
    ...KINDS.map((kind) => over(published, `500/s here, ${kind}`, (one) => one.p99!)),
  );
  console.log(
    `\na storm of logins adds at most ${TARGET} times to the p99: ${(worst / idle).toFixed(2)}, ` +
      `${worst / idle <= TARGET ? "kept" : "not kept"}`,
  );
} finally {
  await Deno.remove(files, { recursive: true });
}
Deno.exit(0);
