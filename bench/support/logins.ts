/**
 * A storm of logins, a process of its own: connect, CONNECT, CONNACK, DISCONNECT, again. Prints one JSON
 * line, a LoginResult.
 */
import { parseArgs } from "node:util";
import { encodeConnect, encodeDisconnect } from "../../tests/support/mqtt_bytes.ts";

export interface LoginResult {
  readonly logins: number;
  /** Logins that were admitted, a second. */
  readonly rate: number;
  /** Milliseconds from the connect to the CONNACK. */
  readonly p50: number;
  readonly p99: number;
}

const { values } = parseArgs({
  options: {
    port: { type: "string" },
    /** Sockets at a time. */
    abreast: { type: "string", default: "16" },
    measure: { type: "string", default: "3000" },
    /** A second at most; without it as fast as they are answered. */
    rate: { type: "string" },
    /** TLS, trusting this file. */
    ca: { type: "string" },
    user: { type: "string" },
    password: { type: "string" },
  },
});

const port = Number(values.port);
const caCerts = values.ca === undefined ? undefined : [Deno.readTextFileSync(values.ca)];
const deadline = performance.now() + Number(values.measure);
/** When the next login may begin. */
let due = performance.now();
const gapMs = values.rate === undefined ? 0 : 1_000 / Number(values.rate);
const took: number[] = [];
let next = 0;

async function login(clientId: string): Promise<void> {
  const start = performance.now();
  const conn = caCerts === undefined
    ? await Deno.connect({ hostname: "127.0.0.1", port })
    : await Deno.connectTls({ hostname: "localhost", port, caCerts });
  try {
    await conn.write(encodeConnect({
      level: 4,
      clientId,
      userName: values.user,
      password: values.password,
    }));
    const answer = new Uint8Array(16);
    const read = await conn.read(answer);
    if (read === null || answer[0] !== 0x20 || answer[3] !== 0) throw new Error("not admitted");
    took.push(performance.now() - start);
    await conn.write(encodeDisconnect());
  } finally {
    conn.close();
  }
}

async function again(): Promise<void> {
  for (;;) {
    const now = performance.now();
    due = Math.max(due + gapMs, now - gapMs);
    if (due > now) await new Promise((resolve) => setTimeout(resolve, due - now));
    if (performance.now() >= deadline) return;
    await login(`login-${next++}`);
  }
}

const begun = performance.now();
await Promise.all(Array.from({ length: Number(values.abreast) }, again));
const elapsedMs = performance.now() - begun;
took.sort((a, b) => a - b);
const quantile = (q: number) => took[Math.min(took.length - 1, Math.floor(q * took.length))];
const result: LoginResult = {
  logins: took.length,
  rate: took.length / elapsedMs * 1_000,
  p50: quantile(0.5),
  p99: quantile(0.99),
};
console.log(JSON.stringify(result));
