import { LogfmtLog } from "../../../src/platform/log.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { FileDirectory } from "../../../src/storage/snapshot/directory.ts";
import { MemoryProvider } from "../../../src/storage/memory/provider.ts";
import { type Bound, type Opened, STORES, type Subject } from "./subject.ts";

function discard(): void {}

async function openMemory(bound?: Bound): Promise<Opened> {
  const path = await Deno.makeTempDir({ prefix: "saguin-conformance-" });
  const make = () =>
    new MemoryProvider({
      name: "main",
      maxBytes: bound?.maxBytes,
      reserveBytes: bound?.reserveBytes ?? 0,
      clock: systemClock,
      log: new LogfmtLog("broker", "error", systemClock, discard),
      snapshots: { directory: new FileDirectory(path), revision: "0123456789abcdef" },
    });
  const opened: Opened = {
    provider: make(),
    async restart() {
      await opened.provider.close();
      opened.provider = make();
      await opened.provider.open(STORES);
    },
    async [Symbol.asyncDispose]() {
      await opened.provider.close();
      await Deno.remove(path, { recursive: true });
    },
  };
  await opened.provider.open(STORES);
  return opened;
}

export const memory: Subject = {
  name: "memory",
  open: openMemory,
  bound: { maxBytes: 200_000, reserveBytes: 20_000 },
};
