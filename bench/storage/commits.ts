/**
 * What the sqlite provider adds to SQLite: the same records in groups of the same size, through plain
 * `node:sqlite` on one thread and through `submit` and the writer's thread, in alternating rounds.
 */
import type { AppendStore, PublishRow } from "../../src/storage/contract.ts";
import { type Message, recordSize } from "../../src/storage/record.ts";
import type { SqliteProvider } from "../../src/storage/sqlite/provider.ts";
import { median, table, whole } from "../support/measure.ts";
import { atMost, message, openSqlite, PlainDatabase, type Scale, type Target } from "./support.ts";

const GROUPS = [1, 8, 64, 256];
/** Groups whose cost a record has a target. */
const PROMISED = [64, 256];
/** As many publishes as eight connections with a window of 64 keep under way. */
const SATURATED = 512;
const CONSUMERS = 4;
const RECORDS_A_READ = 256;
/** Bound of the log at which the writer begins it again, and what arrives meanwhile (DESIGN 2). */
const LOG_TARGET_MIB = 160;
const SPECS = [{ channel: "readings", kind: "append" }] as const;

interface Round {
  /** Microseconds a record. */
  readonly us: number;
  readonly usPerCommit: number;
  /** Milliseconds from `submit` to `settled`. */
  readonly p50: number;
  readonly p99: number;
}

const messages = Array.from({ length: 256 }, (_, i) => message(i));

function plain(path: string, group: number, synchronous: "NORMAL" | "FULL", ms: number): Round {
  const database = new PlainDatabase(path, synchronous);
  for (let i = 0; i < 20; i++) database.append(messages, group);
  let commits = 0;
  const start = performance.now();
  while (performance.now() - start < ms) {
    database.append(messages, group);
    commits++;
  }
  const took = (performance.now() - start) * 1000;
  database.close();
  return { us: took / commits / group, usPerCommit: took / commits, p50: 0, p99: 0 };
}

/**
 * Either rounds of `group` submitted together, or `group` entries always under way. Answers the
 * milliseconds from `submit` to `settled` of each.
 */
function load(
  provider: SqliteProvider,
  store: AppendStore,
  group: number,
  ms: number,
  always: boolean,
): Promise<Float64Array> {
  return new Promise((resolve) => {
    const end = performance.now() + ms;
    const waited: number[] = [];
    let submitted = 0;
    const submit = () => {
      const message: Message = messages[submitted++ % messages.length];
      const row: PublishRow = { kind: "append", store, message, offset: 0 };
      const at = performance.now();
      provider.submit({
        rows: [row],
        bytes: recordSize(message),
        settled(failure) {
          if (failure !== undefined) throw failure;
          const now = performance.now();
          waited.push(now - at);
          if (now >= end) {
            if (waited.length === submitted) resolve(Float64Array.from(waited).sort());
          } else if (always) submit();
          else if (waited.length === submitted) { for (let i = 0; i < group; i++) submit(); }
        },
      });
    };
    for (let i = 0; i < group; i++) submit();
  });
}

function quantile(sorted: Float64Array, part: number): number {
  return sorted[Math.floor((sorted.length - 1) * part)];
}

async function provided(
  path: string,
  group: number,
  acknowledge: "committed" | "synced",
  ms: number,
): Promise<Round> {
  const { provider, close } = await openSqlite(path, SPECS, acknowledge);
  const store = provider.append("readings");
  await load(provider, store, group, ms / 4, false);
  const { commits } = provider.statistics();
  const start = performance.now();
  const waited = await load(provider, store, group, ms, false);
  const took = (performance.now() - start) * 1000;
  const usPerCommit = took / (provider.statistics().commits - commits);
  await close();
  return {
    us: took / waited.length,
    usPerCommit,
    p50: quantile(waited, 0.5),
    p99: quantile(waited, 0.99),
  };
}

/** One row: both forms of a commit beside plain SQLite with the same `synchronous`. */
async function compare(
  scale: Scale,
  group: number,
  form: "committed" | "synced",
): Promise<{ readonly ratio: number; readonly row: string[] }> {
  const [plains, ours]: [Round[], Round[]] = [[], []];
  const synchronous = form === "committed" ? "NORMAL" : "FULL";
  for (let round = 0; round < scale.rounds; round++) {
    const path = (kind: string) => `${scale.directory}/${kind}-${form}-${group}-${round}.db`;
    plains.push(plain(path("plain"), group, synchronous, scale.ms));
    ours.push(await provided(path("ours"), group, form, scale.ms));
  }
  const of = (rounds: readonly Round[], figure: (round: Round) => number) =>
    median(rounds.map(figure));
  const [usPlain, us] = [of(plains, ({ us }) => us), of(ours, ({ us }) => us)];
  const row = [
    form,
    String(group),
    whole(1e6 / usPlain),
    whole(of(plains, ({ usPerCommit }) => usPerCommit)),
    whole(1e6 / us),
    whole(of(ours, ({ usPerCommit }) => usPerCommit)),
    (us / usPlain).toFixed(2),
    of(ours, ({ p50 }) => p50).toFixed(2),
    of(ours, ({ p99 }) => p99).toFixed(2),
  ];
  return { ratio: us / usPlain, row };
}

/** Always as much under way as fits, while consumers read everything from the start. */
async function saturated(scale: Scale): Promise<Target[]> {
  const path = `${scale.directory}/saturated.db`;
  const { provider, close } = await openSqlite(path, SPECS);
  const store = provider.append("readings");
  let done = false;
  let peak = 0;
  let read = 0;
  const consumers = Array.from({ length: CONSUMERS }, async () => {
    for (let offset = 1; !done;) {
      const window = await store.readFrom(offset, RECORDS_A_READ, 1_000_000);
      if (window.belowFloor) throw new Error("below the floor");
      read += window.records.length;
      offset = window.records.at(-1)?.offset ?? offset - 1;
      offset++;
      if (window.records.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    }
  });
  const look = setInterval(() => peak = Math.max(peak, Deno.statSync(path + "-wal").size), 20);
  const ms = scale.ms * 8;
  const waited = await load(provider, store, SATURATED, ms, true);
  clearInterval(look);
  done = true;
  await Promise.all(consumers);
  await close();
  const p99 = quantile(waited, 0.99);
  console.log(
    `\n${SATURATED} publishes always under way for ${
      ms / 1000
    } s, ${CONSUMERS} consumers reading: ` +
      `${whole(waited.length / ms * 1000)} stored a second, ${whole(read / ms * 1000)} read; ` +
      `p50 ${quantile(waited, 0.5).toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, ` +
      `log ${(peak / 2 ** 20).toFixed(0)} MiB at most`,
  );
  return [
    { what: "commit p99, saturated, ms", measured: p99.toFixed(1), promised: "-", kept: undefined },
    atMost("log peak, saturated", peak / 2 ** 20, LOG_TARGET_MIB, " MiB"),
  ];
}

/** BenchmarkAppend is the group of one; the others are its group commit. */
export async function benchmarkAppend(scale: Scale): Promise<Target[]> {
  const targets: Target[] = [];
  const rows: string[][] = [];
  for (const form of ["committed", "synced"] as const) {
    for (const group of scale.smoke ? [1, 64] : GROUPS) {
      const { ratio, row } = await compare(scale, group, form);
      rows.push(row);
      if (!PROMISED.includes(group)) continue;
      targets.push(atMost(`${form}, groups of ${group}, a record / plain`, ratio, 1.5));
    }
  }
  const heads = ["", "group", "plain/s", "us/commit", "provider/s", "us/commit", "x plain"];
  console.log(table([...heads, "p50 ms", "p99 ms"], rows));
  return [...targets, ...await saturated(scale)];
}
