import { DatabaseSync } from "node:sqlite";
import type { AmqpStore } from "../../../../src/storage/amqp.ts";
import type {
  SqliteProvider,
  SqliteProviderOptions,
} from "../../../../src/storage/sqlite/provider.ts";
import { type TestProvider, testProvider } from "./provider.ts";

/** A provider with the AMQP tables on a real disk, over any number of openings. */
export interface AmqpHouse extends AsyncDisposable {
  readonly filePath: string;
  readonly provider: SqliteProvider;
  readonly store: AmqpStore;
  /** Closes and opens the file again. */
  again(options?: Partial<SqliteProviderOptions>): Promise<void>;
  close(): Promise<void>;
  rows(sql: string): Record<string, unknown>[];
}

export async function openProvider(
  options: Partial<SqliteProviderOptions> = {},
): Promise<AmqpHouse> {
  const parent = Deno.env.get("SAGUIN_TEST_DIR") ?? "/var/tmp";
  const directory = await Deno.makeTempDir({ dir: parent, prefix: "saguin-amqp-" });
  const filePath = `${directory}/plant.db`;
  let opened: TestProvider | undefined;
  const open = async (changed: Partial<SqliteProviderOptions>) => {
    opened = testProvider(filePath, { amqp: true, ...options, ...changed });
    await opened.provider.open([]);
  };
  const close = async () => {
    await opened?.stop();
    opened = undefined;
  };
  await open({});
  return {
    filePath,
    get provider() {
      return opened!.provider;
    },
    get store() {
      return opened!.provider.amqp();
    },
    async again(changed = {}) {
      await close();
      await open(changed);
    },
    close,
    rows(sql) {
      const database = new DatabaseSync(filePath, { readOnly: true });
      try {
        return database.prepare(sql).all().map((row) => ({ ...row }));
      } finally {
        database.close();
      }
    },
    async [Symbol.asyncDispose]() {
      await close();
      await Deno.remove(directory, { recursive: true });
    },
  };
}
