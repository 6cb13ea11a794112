import { LogfmtLog } from "../../../src/platform/log.ts";
import type { Clock } from "../../../src/platform/clock.ts";
import {
  BROADCAST_LOG,
  type Provider,
  RETAINED,
  type SessionRecord,
  type StoreSpec,
} from "../../../src/storage/contract.ts";
import { MemoryProvider } from "../../../src/storage/memory/provider.ts";
import type { SnapshotDirectory } from "../../../src/storage/snapshot/directory.ts";
import {
  appended,
  enqueued,
  held,
  message,
  retained,
  set,
  STORES,
  submit,
  text,
} from "../conformance/subject.ts";

export const REVISION = "0123456789abcdef01234567";
const MINUTE = 60_000_000_000n;
/** 2026-01-01T00:00:00Z */
export const START = 1_767_225_600_000_000_000n;

/** A broker's storage over several runs: one clock that the test moves, one log that it reads. */
export class World {
  readonly lines: string[] = [];
  now = START;
  readonly clock: Clock = { monotonic: () => 0, wall: () => this.now };
  readonly log = new LogfmtLog("b", "info", this.clock, (line) => this.lines.push(line));

  async start(
    directory: SnapshotDirectory,
    stores: readonly StoreSpec[] = STORES,
    bound?: { maxBytes: number; reserveBytes: number },
  ): Promise<MemoryProvider> {
    const provider = new MemoryProvider({
      name: "main",
      maxBytes: bound?.maxBytes,
      reserveBytes: bound?.reserveBytes ?? 0,
      clock: this.clock,
      log: this.log,
      snapshots: { directory, revision: REVISION },
    });
    this.lines.length = 0;
    await provider.open(stores);
    return provider;
  }

  async stop(provider: Provider): Promise<void> {
    this.now += MINUTE;
    await provider.close();
  }

  /** Warnings and errors since the start, without what is the same in each. */
  said(): string[] {
    return this.lines.filter((line) => / level=(WARN|ERROR) /.test(line))
      .map((line) => line.replace(/^.* msg=/, "").trim());
  }
}

export function session(clientId: string, fields: Partial<SessionRecord> = {}): SessionRecord {
  return {
    clientId,
    expiry: 3600,
    awaySince: START,
    subscriptions: [],
    will: undefined,
    willDue: 0n,
    window: 10,
    ...fields,
  };
}

/** One more of everything; `run` is in every payload. */
export async function live(provider: Provider, run: string): Promise<void> {
  const packet = run.charCodeAt(0);
  await submit(provider, [
    appended(provider.append("events"), message("t", run)),
    appended(provider.append("audit"), message("t", run)),
    appended(provider.append(BROADCAST_LOG), message("t", run)),
    set(provider.latest("state"), message(`t/${run}`, run)),
    retained(provider.latest(RETAINED), message(`t/${run}`, run)),
    enqueued(provider.queue("jobs"), message("t", run)),
    held(provider.append("events"), "c1", packet, message("t", run)),
    held(provider.append(BROADCAST_LOG), "c1", packet, message("t", run)),
  ]);
  await submit(provider, [enqueued(provider.queue("jobs"), message("t", `${run}, dead`))]);
  const next = provider.queue("jobs").next();
  const letter = message("t/__dlq", run);
  const letters = provider.append("jobs__dlq");
  await provider.queue("jobs").deadLetter(next - 1, undefined, letter, letters);
  const cursor = provider.append(BROADCAST_LOG).next();
  await provider.sessions().begin(session(`c-${run}`), cursor - 1, "answering");
  await provider.sessions().change({
    clientId: `c-${run}`,
    put: [{ packetId: 1, offset: cursor - 1, qos: 1, state: "sent", group: "" }],
    drop: [],
  }, "connected");
  const position = { reader: "bridge:up", expiry: 0, lastSeen: 0n };
  const offset = provider.append("events").next();
  await provider.append("events").savePosition({ ...position, offset }, "connected");
  await provider.append(BROADCAST_LOG).savePosition({ ...position, offset: cursor }, "connected");
}

/** What a provider holds, by the file it is kept in. Holds are left out: `recoverHolds` tells of them. */
export async function shown(provider: Provider): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const log = async (channel: string) => {
    const store = provider.append(channel);
    const answer = await store.readFrom(store.floor(), 1_000, 1_000_000);
    const records = answer.belowFloor ? [] : answer.records;
    const position = await store.position("bridge:up");
    return `${store.next()} ${store.floor()} ${store.bytes()} ${position?.offset}: ` +
      records.map(({ offset, message }) => `${offset}:${text(message)}`).join(" ");
  };
  const values = async (channel: string) => {
    const store = provider.latest(channel);
    const found = await store.scan("#", 0, true).next(1_000);
    return `${store.next()}: ` +
      found.map(({ offset, message }) => `${offset}:${text(message)}`).join(" ");
  };
  files.set("events.snapshot", await log("events"));
  files.set("audit.snapshot", await log("audit"));
  files.set("state.snapshot", await values("state"));
  files.set("%24saguin%2Fretained.snapshot", await values(RETAINED));
  const queue = provider.queue("jobs");
  const counters = `${queue.next()} ${queue.depth()} ${queue.bytes()}`;
  files.set("jobs.snapshot", `${counters} ${await log("jobs__dlq")}`);
  files.set("saguin.broadcast", await log(BROADCAST_LOG));
  const { sessions } = await provider.sessions().load();
  const inFlight = sessions.map(({ record, cursor, inFlight }) =>
    `${record.clientId}@${cursor}[${inFlight.map(({ offset }) => offset)}]`
  );
  files.set("saguin.sessions", inFlight.sort().join(" "));
  return files;
}

/** Flips the bits of one byte. */
export function flipped(bytes: Uint8Array, at: number): Uint8Array {
  const other = bytes.slice();
  other[at] ^= 0xff;
  return other;
}
