/** Ingest as the process runs it: joined before the first publish, metrics, the lines of the start. */
import type { Broker } from "../broker/broker.ts";
import type { IngestConfiguration } from "../config/configuration.ts";
import { Ingest } from "../ingest/ingest.ts";
import type { Family } from "../operations/metrics/exposition.ts";
import type { Scrape } from "../operations/metrics/family.ts";
import type { Provider } from "../storage/contract.ts";
import type { IngestStore } from "../storage/ingest.ts";

export class IngestService {
  #ingest: Ingest | undefined;

  constructor(private readonly configuration: IngestConfiguration) {}

  /** Before the broker restores anything, since that may publish a Will. The providers are open. */
  join(broker: Broker, providers: ReadonlyMap<string, Provider>): void {
    const { storage, routes } = this.configuration;
    this.#ingest = new Ingest(this.configuration, providers.get(storage)!, broker.context);
    this.#ingest.join(broker.publisher);
    for (const { filter, table } of routes) {
      broker.context.log.info("publishes become rows of a table", { filter, table, storage });
    }
  }

  /** Removes what is too old already, and goes on doing so. */
  start(): void {
    this.#ingest!.start();
  }

  stop(): void {
    this.#ingest?.stop();
  }

  /** The tables, once it has joined. */
  get store(): IngestStore {
    return this.#ingest!.store;
  }

  /** Metrics, there only where ingest is configured (07 C6). */
  get families(): readonly Family<Scrape>[] {
    const { tables } = this.#ingest!;
    return [{
      name: "saguin_ingest_rows_total",
      type: "counter",
      labels: ["table"],
      help: "Rows that publishes became, by table.",
      samples: (_scrape, add) => {
        for (const { name, rows } of tables) add(rows, name);
      },
    }];
  }
}
