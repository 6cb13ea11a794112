/**
 * The one entry of the program: the broker and its storage workers start from this module and take
 * their role from the worker's name, so that bundling and compiling keep working.
 */
import { main, realDependencies } from "./src/cli/main.ts";
import { startBroker } from "./src/cli/start.ts";
import { EMPTY_FILE_PAGES, PAGE_SIZE } from "./src/storage/sqlite/schema.ts";
import { isStorageWorker, runStorageWorker } from "./src/storage/sqlite/worker.ts";

const role = (globalThis as { readonly name?: string }).name ?? "";

if (isStorageWorker(role)) runStorageWorker();
else {
  const spawn = (name: string) => new Worker(import.meta.url, { type: "module", name });
  const dependencies = realDependencies(
    (configuration) => startBroker(configuration, spawn),
    EMPTY_FILE_PAGES * PAGE_SIZE,
  );
  Deno.exit(await main(Deno.args, dependencies));
}
