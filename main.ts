/**
 * The one entry of the program: the broker and its storage workers start from this module and take
 * their role from the worker's name, so that bundling and compiling keep working. Each role imports
 * what it needs and no more: a worker that loads the whole broker costs twice the memory.
 */
import { isStorageWorker } from "./src/storage/sqlite/worker_name.ts";

const role = (globalThis as { readonly name?: string }).name ?? "";

if (isStorageWorker(role)) {
  // A message without a handler is dropped, and the first request comes while the import still loads,
  // which takes longest when nothing is cached: on the very first start.
  const early: MessageEvent[] = [];
  const scope = globalThis as unknown as { onmessage: (event: MessageEvent) => void };
  scope.onmessage = (event) => early.push(event);
  const { runStorageWorker } = await import("./src/storage/sqlite/worker.ts");
  runStorageWorker(early);
} else {
  const { run } = await import("./src/cli/run.ts");
  const spawn = (name: string) => new Worker(import.meta.url, { type: "module", name });
  Deno.exit(await run(Deno.args, spawn));
}
