import type { Context } from "../broker/context.ts";
import type { Copies, Copying, Origin } from "../broker/copies.ts";
import type { Publisher } from "../broker/publish.ts";
import type { IngestConfiguration } from "../config/configuration.ts";
import type { Provider } from "../storage/contract.ts";
import type { IngestRow, IngestStore } from "../storage/ingest.ts";
import { type Message, recordSize } from "../storage/record.ts";
import { SubscriptionTree } from "../topics/tree.ts";
import { IngestRetention } from "./retention.ts";

/** One table and what is known of it since the start. */
export interface CountedTable {
  readonly name: string;
  /** Rows of publishes that were accepted. */
  rows: number;
}

/**
 * Publishes as rows of tables (07 section 11): one more destination of the publish pipeline. It reads no
 * payload and decides nothing about a publish; what a row holds is the storage writer's business.
 */
export class Ingest implements Copying {
  readonly tables: readonly CountedTable[];
  readonly store: IngestStore;
  readonly #retention: IngestRetention;
  readonly #includeAmqp: boolean;
  /** Places in `tables`, by filter. */
  readonly #routes = new SubscriptionTree<number, number>();

  constructor(
    configuration: IngestConfiguration,
    private readonly provider: Provider,
    context: Context,
  ) {
    const { tables, routes, includeAmqp } = configuration;
    this.store = provider.ingest();
    this.tables = tables.map(({ name }) => ({ name, rows: 0 }));
    this.#includeAmqp = includeAmqp;
    for (const { filter, table } of routes) {
      const place = tables.findIndex(({ name }) => name === table);
      this.#routes.add(filter, place, place);
    }
    this.#retention = new IngestRetention(tables, this.store, context);
  }

  /** Takes part in what is published from now on. */
  join(publisher: Publisher): void {
    publisher.copying.push(this);
  }

  /** Removes what is too old already, and goes on doing so. */
  start(): void {
    this.#retention.start();
  }

  stop(): void {
    this.#retention.stop();
  }

  /** A row a table, however many routes lead there (N3); none of a retained value's removal (N4). */
  copies(message: Message, origin: Origin): Copies | undefined {
    if (origin === "amqp" && !this.#includeAmqp) return undefined;
    if (message.retain && message.payload.byteLength === 0) return undefined;
    let copies: IngestedCopies | undefined;
    this.#routes.match(message.topic, (table) => {
      copies ??= new IngestedCopies(this.provider, this.store, message, this.tables);
      copies.enter(table);
    });
    return copies;
  }
}

/** The rows of one publish. */
class IngestedCopies implements Copies {
  readonly rows: IngestRow[] = [];
  bytes = 0;

  constructor(
    readonly provider: Provider,
    private readonly store: IngestStore,
    private readonly message: Message,
    private readonly tables: readonly CountedTable[],
  ) {}

  enter(table: number): void {
    const { store, message } = this;
    if (this.rows.some((row) => row.table === table)) return;
    this.rows.push({ kind: "ingest", store, table, message, offset: 0 });
    this.bytes += recordSize(message);
  }

  accepted(): void {
    for (const { table } of this.rows) this.tables[table].rows++;
  }

  /** Rows that a provider of their own has stored stay: the publisher may try again (T1). */
  refused(): void {}
}
