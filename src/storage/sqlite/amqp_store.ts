import type {
  AmqpChange,
  AmqpPosition,
  AmqpRemoval,
  AmqpStore,
  StoredAmqpMessage,
  StoredAmqpObjects,
  StoredMessageIndex,
} from "../amqp.ts";
import type { Urgency } from "../contract.ts";
import { type AmqpMessagesAnswer, unpackMessages } from "./amqp_reads.ts";
import type { ReadPool } from "./read_pool.ts";
import type { WriteQueue } from "./write_queue.ts";

/** The AMQP tables of a sqlite provider as the door knows them. */
export class SqliteAmqp implements AmqpStore {
  constructor(private readonly writes: WriteQueue, private readonly reads: ReadPool) {}

  load(): Promise<StoredAmqpObjects> {
    return this.writes.write("maintenance", { op: "amqp", write: { change: "load" } });
  }

  index(after: AmqpPosition, max: number): Promise<StoredMessageIndex> {
    return this.reads.read({ op: "amqp", read: { look: "index", after, max } });
  }

  change(change: AmqpChange): Promise<void> {
    return this.writes.write("answering", { op: "amqp", write: change });
  }

  remove(removal: AmqpRemoval, urgency: Urgency): Promise<void> {
    return this.writes.write(urgency, { op: "amqp", write: { change: "remove", removal } });
  }

  clear(queue: number): Promise<boolean> {
    return this.writes.write("maintenance", { op: "amqp", write: { change: "clear", queue } });
  }

  async read(
    queue: number,
    from: number,
    max: number,
    maxBytes: number,
  ): Promise<readonly StoredAmqpMessage[]> {
    const read = { look: "messages", queue, from, max, maxBytes } as const;
    return unpackMessages(await this.reads.read<AmqpMessagesAnswer>({ op: "amqp", read }));
  }

  probe(bytes: number): Promise<void> {
    return this.writes.write("maintenance", { op: "amqp", write: { change: "probe", bytes } });
  }
}
