import { EMPTY_FILE_PAGES, PAGE_SIZE } from "../storage/sqlite/schema.ts";
import { main, realDependencies } from "./main.ts";
import { startBroker } from "./start.ts";

/** Carries out a command line in this process, `spawn` starting its storage workers. The exit code. */
export function run(argv: readonly string[], spawn: (name: string) => Worker): Promise<number> {
  return main(
    argv,
    realDependencies(
      (configuration, credentials, settings) =>
        startBroker(configuration, credentials, settings, spawn),
      EMPTY_FILE_PAGES * PAGE_SIZE,
    ),
  );
}
