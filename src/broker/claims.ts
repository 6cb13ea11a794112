/**
 * What other filters than those of the last run leave to be done at the start (02b sections 11 and 12):
 * retained values of topics that a channel claims now, and values of `latest` channels out of reach.
 */
import { type LatestStore, type PublishRow, StorageFailure } from "../storage/contract.ts";
import { type Message, recordSize } from "../storage/record.ts";
import type { LatestChannel } from "./channels/latest.ts";
import type { Context } from "./context.ts";
import { isExpired, publishedHeaders } from "./delivery.ts";
import type { Channel, Routes } from "./routes.ts";

/** Topics looked at at a time; almost none of them are anybody's. */
const PAGE = 4_096;

/** Values moved at a time. */
const MOVED_AT_ONCE = 256;

/** What became of the retained values that one channel took over. */
interface Taken {
  moved: number;
  dropped: number;
}

/**
 * A publish to a claimed topic goes to its channel, so a retained value of that topic would be served for
 * ever and could never be replaced: a `latest` channel takes it over, any other lets it go. Comes before
 * the first session, which is then owed the values that moved.
 * @throws StorageFailure where a channel has no room for them; what is there already stays, and the next
 * start goes on
 */
export async function settleClaims(
  context: Context,
  routes: Routes,
  retained: LatestStore,
): Promise<void> {
  const taken = new Map<Channel, Taken>();
  if (retained.size() > 0) await takeOver(context, routes, retained, taken);
  for (const [channel, { moved, dropped }] of taken) {
    const fields = { channel: channel.name, moved, dropped };
    if (channel.kind === "latest") {
      context.log.info("moved retained values into the channel that claims their topics", fields);
    } else {
      context.log.warn("dropped retained values of topics that a channel claims", fields);
    }
  }
  for (const { channel, filters } of routes.placements()) {
    if (channel.kind !== "latest" || channel.store.size() === 0) continue;
    const values = await count(channel.store, filters);
    if (values === 0) continue;
    context.log.warn("a channel keeps values whose topics its filter does not match", {
      channel: channel.name,
      values,
    });
  }
}

async function takeOver(
  context: Context,
  routes: Routes,
  retained: LatestStore,
  taken: Map<Channel, Taken>,
): Promise<void> {
  const scan = retained.topics([]);
  for (;;) {
    const topics = await scan.next(PAGE);
    if (topics.length === 0) return;
    const claimed = Map.groupBy(
      topics.filter((topic) => routes.holder(topic) !== undefined),
      (topic) => routes.holder(topic)!,
    );
    for (const [channel, of] of claimed) {
      const so = taken.get(channel) ?? { moved: 0, dropped: 0 };
      taken.set(channel, so);
      for (let at = 0; at < of.length; at += MOVED_AT_ONCE) {
        const some = of.slice(at, at + MOVED_AT_ONCE);
        await take(context, retained, channel, some, so).catch(async (error) => {
          throw await explained(error, routes, retained, channel);
        });
      }
    }
  }
}

/** Stored in the channel first: a start that ends between the two finds the same value twice. */
async function take(
  context: Context,
  retained: LatestStore,
  channel: Channel,
  topics: readonly string[],
  taken: Taken,
): Promise<void> {
  const gone: { topic: string; offset: number }[] = [];
  const moving: Message[] = [];
  for (const topic of topics) {
    const found = await retained.get(topic);
    if (found === undefined) continue;
    gone.push({ topic, offset: found.offset });
    if (channel.kind === "latest" && await isNews(context, channel, found.message)) {
      moving.push(asRecord(context, found.message));
    }
  }
  if (channel.kind === "latest" && moving.length > 0) await store(channel, moving);
  await retained.removeMany(gone);
  taken.moved += moving.length;
  taken.dropped += gone.length - moving.length;
}

/** Whether the channel does not know better: it may have held the topic before. */
async function isNews(
  { clock }: Context,
  channel: LatestChannel,
  message: Message,
): Promise<boolean> {
  if (isExpired(message, clock.wall())) return false;
  const held = await channel.store.get(message.topic);
  return held === undefined || held.message.timestamp < message.timestamp;
}

/** A broadcast as the record that it would have been. */
function asRecord({ ids }: Context, message: Message): Message {
  const { headers, messageId } = publishedHeaders(message.headers);
  const id = messageId ?? (message.messageId === "" ? ids.messageId() : message.messageId);
  return { ...message, headers, messageId: id };
}

async function store(channel: LatestChannel, messages: readonly Message[]): Promise<void> {
  const rows = messages.map((message): Extract<PublishRow, { kind: "set" }> => ({
    kind: "set",
    store: channel.store,
    message,
    offset: 0,
  }));
  const bytes = messages.reduce((sum, message) => sum + recordSize(message), 0);
  const failure = await new Promise<StorageFailure | undefined>((settled) =>
    channel.provider.submit({ rows, bytes, settled })
  );
  if (failure !== undefined) throw failure;
  for (const { offset, message } of rows) channel.recorded(offset, message);
}

/** The failure as an operator can act on it. */
async function explained(
  error: unknown,
  routes: Routes,
  retained: LatestStore,
  channel: Channel,
): Promise<unknown> {
  if (!(error instanceof StorageFailure) || error.kind !== "full") return error;
  const values = await count(retained, [], (topic) => routes.holder(topic) === channel);
  const says = `channel ${JSON.stringify(channel.name)}: its storage provider ` +
    `${
      JSON.stringify(channel.provider.name)
    } has no room for ${values} retained values of topics ` +
    "that the channel claims; raise the provider's max_bytes, or narrow the channel's filter";
  return new StorageFailure("full", says, { cause: error });
}

async function count(
  values: LatestStore,
  outside: readonly string[],
  counts: (topic: string) => boolean = () => true,
): Promise<number> {
  const scan = values.topics(outside);
  let count = 0;
  for (;;) {
    const topics = await scan.next(PAGE);
    if (topics.length === 0) return count;
    count += topics.filter(counts).length;
  }
}
