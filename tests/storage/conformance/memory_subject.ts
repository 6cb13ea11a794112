import { LogfmtLog } from "../../../src/platform/log.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { MemoryProvider } from "../../../src/storage/memory/provider.ts";
import { type Bound, type Opened, STORES, type Subject } from "./subject.ts";

function discard(): void {}

async function openMemory(bound?: Bound): Promise<Opened> {
  const provider = new MemoryProvider({
    name: "main",
    maxBytes: bound?.maxBytes,
    reserveBytes: bound?.reserveBytes ?? 0,
    clock: systemClock,
    log: new LogfmtLog("broker", "error", systemClock, discard),
  });
  await provider.open(STORES);
  return {
    provider,
    restart: () => Promise.reject(new Error("nothing of it outlives a stop")),
    [Symbol.asyncDispose]: () => provider.close(),
  };
}

export const memory: Subject = {
  name: "memory",
  open: openMemory,
  bound: { maxBytes: 200_000, reserveBytes: 20_000 },
  outlivesStop: false,
};
