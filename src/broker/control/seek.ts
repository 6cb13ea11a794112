import type { Nanoseconds } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { type AppendStore, sessionReader, StorageFailure } from "../../storage/contract.ts";
import type { Headers, Offset } from "../../storage/record.ts";
import type { AppendChannel } from "../channels/append.ts";
import type { Refusal } from "../reason.ts";
import type { Session } from "../session.ts";
import {
  type ControlParts,
  type ControlRequest,
  correlationData,
  notAllowed,
  refusal,
  reply,
  utf8,
} from "./request.ts";
import { parseSeekTarget, type SeekTarget } from "./seek_target.ts";

/** Why a position is not moved: the words are the reply's payload (D12.15 to D12.19). */
interface Refused {
  readonly word: "below-floor" | "beyond-end" | "no-session" | "malformed" | "storage";
  readonly reason: string;
  readonly labels?: Headers;
}

/**
 * Moves the asking session's own position on an `append` channel (03 section 12). Every outcome is a
 * reply; a refusal is told twice, but not to a 3.1.1 client, whose connection it would cost.
 */
export async function seek(
  parts: ControlParts,
  request: ControlRequest,
  name: string,
): Promise<Refusal | undefined> {
  const channel = parts.routes.channel(name);
  if (channel?.kind !== "append") throw new Error(`${name} is routed as a log and is none`);
  const { session, link, publish } = request;
  if (!parts.verbs(session, channel).includes("seek")) return notAllowed("seek", name);
  const { responseTopic } = publish.properties;
  const topic = responseTopic === undefined || responseTopic === ""
    ? `$saguin/consumer/${name}/seek/reply`
    : responseTopic;
  const correlation = correlationData(request);
  const say = (word: string, labels?: Headers) => {
    reply(request, {
      topic,
      payload: utf8(word),
      correlationData: correlation,
      labels: link.level === 5 ? labels : undefined,
    });
  };
  const refused = await move(parts, request, channel, (offset) => say(String(offset)));
  if (refused === undefined) return undefined;
  say(refused.word, refused.labels);
  return link.level === 4 ? undefined : refusal(refused.reason);
}

/** `moved` is told the offset once it is stored, before any record from there is sent (D12.12). */
async function move(
  parts: ControlParts,
  { session, link, publish }: ControlRequest,
  channel: AppendChannel,
  moved: (offset: Offset) => void,
): Promise<Refused | undefined> {
  const { context } = parts;
  const now = context.clock.wall();
  const target = parseSeekTarget(publish.payload, now);
  if (target === undefined) {
    return {
      word: "malformed",
      reason: "the payload is neither an offset, -1, a duration such as 12h, nor an RFC 3339 time",
    };
  }
  if (!session.durable) {
    return {
      word: "no-session",
      reason: "only a session with a Session Expiry Interval above 0 has a position to move",
    };
  }
  try {
    const place = await resolve(channel.store, target, now);
    if (typeof place !== "number") return place;
    // Looked at again after every wait: another connection may own the client id by now.
    if (session.link !== link || session.ended) {
      return { word: "no-session", reason: "another connection has taken the client id over" };
    }
    await store(parts, session, channel, place, moved);
    return undefined;
  } catch (error) {
    if (!(error instanceof StorageFailure)) throw error;
    context.counters.storageErrors.add(channel.name);
    context.log.error("cannot store the position that a client asked for", {
      channel: channel.name,
      client: session.clientId,
      error: errorText(error),
    });
    return { word: "storage", reason: "the position could not be stored" };
  }
}

/** Never clamps (D12.20). */
async function resolve(
  store: AppendStore,
  target: SeekTarget,
  now: Nanoseconds,
): Promise<Offset | Refused> {
  switch (target.kind) {
    case "floor":
      return store.floor();
    case "end":
      return store.next();
    case "offset":
      if (target.offset < store.floor()) return belowFloor(store);
      return target.offset > store.next() ? beyondEnd(store) : target.offset;
    case "time":
      return await atOrAfter(store, target.time, now);
  }
}

/** D12.8, D12.9: the lowest offset whose receipt time is at or after `time`. */
async function atOrAfter(
  store: AppendStore,
  time: Nanoseconds,
  now: Nanoseconds,
): Promise<Offset | Refused> {
  const { offset, found } = await store.firstAtOrAfter(time);
  const floor = store.floor();
  if (floor === 1) return found ? offset : store.next();
  if (floor === store.next()) return time < now ? belowFloor(store) : floor;
  if (!found) return store.next();
  if (offset > floor) return offset;
  const oldest = await store.readFrom(floor, 1, 1);
  if (oldest.belowFloor || oldest.records.length === 0) return belowFloor(store);
  return time < oldest.records[0].message.timestamp ? belowFloor(store) : offset;
}

function belowFloor(store: AppendStore): Refused {
  const floor = store.floor();
  return {
    word: "below-floor",
    reason: `the channel's records begin at offset ${floor}`,
    labels: [["saguin-floor", String(floor)]],
  };
}

function beyondEnd(store: AppendStore): Refused {
  const next = store.next();
  return {
    word: "beyond-end",
    reason: `the next record of the channel takes offset ${next}`,
    labels: [["saguin-next", String(next)]],
  };
}

async function store(
  parts: ControlParts,
  session: Session,
  channel: AppendChannel,
  offset: Offset,
  moved: (offset: Offset) => void,
): Promise<void> {
  const reading = channel.consumer(session);
  if (reading !== undefined) return await reading.seekStored(offset, () => moved(offset));
  await channel.store.savePosition({
    reader: sessionReader(session.clientId),
    offset,
    expiry: session.expiry,
    lastSeen: parts.context.clock.wall(),
  }, "answering");
  // It may have begun to read while this was written; it begins where it asked to.
  const begun = channel.consumer(session);
  if (begun !== undefined) await begun.seekStored(offset, () => moved(offset));
  else {
    // Known from here on without asking the store: at a CONNECT, whether retention has passed it (D11.18).
    channel.join(session, offset, false).pause();
    moved(offset);
  }
}
