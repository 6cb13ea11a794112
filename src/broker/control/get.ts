import { errorText } from "../../platform/log.ts";
import { StorageFailure } from "../../storage/contract.ts";
import type { LatestChannel } from "../channels/latest.ts";
import { Reason, type Refusal } from "../reason.ts";
import {
  answer,
  type ControlParts,
  type ControlRequest,
  correlationData,
  EMPTY,
  notAllowed,
  payloadText,
  refusal,
  responseTopic,
  utf8,
} from "./request.ts";

/** Point read of one current value (D13.22 to D13.24). The caller becomes no subscriber. */
export async function get(
  parts: ControlParts,
  request: ControlRequest,
): Promise<Refusal | undefined> {
  const topic = responseTopic(request);
  if (typeof topic !== "string") return topic;
  if (request.publish.qos === 0) return undefined;
  const { payload } = request.publish;
  if (payload.byteLength === 0) return refusal("the payload must be the topic to read");
  const key = payloadText(payload);
  if (key === undefined) return notAKey("the payload is not UTF-8, so it is no topic");
  const channel = latestChannel(parts, key);
  if ("code" in channel) return channel;
  const { session } = request;
  if (!parts.verbs(session, channel).includes("read") || !session.mayRead(key, channel.name)) {
    return notAllowed("read", channel.name);
  }
  const correlation = correlationData(request) ?? utf8(key);
  let value: Uint8Array;
  try {
    const record = await channel.store.get(key);
    value = record === undefined || channel.isPast(record.message) ? EMPTY : record.message.payload;
  } catch (error) {
    if (!(error instanceof StorageFailure)) throw error;
    parts.context.counters.storageErrors.add(channel.name);
    parts.context.log.error("cannot read a value for a client", {
      channel: channel.name,
      client: request.session.clientId,
      error: errorText(error),
    });
    return refusal("the value could not be read");
  }
  return answer(request, { topic, payload: value, correlationData: correlation });
}

/** The `latest` channel that holds `key`, or why it cannot be read. */
function latestChannel(parts: ControlParts, key: string): LatestChannel | Refusal {
  if (key.startsWith("$")) return notAKey("a topic that starts with $ has no current value");
  const refused = parts.routes.topicRefusal(key);
  if (refused !== undefined) return refused;
  const channel = parts.routes.holder(key);
  if (channel === undefined) return notAKey("no channel holds that topic");
  if (channel.kind === "latest") return channel;
  return notAKey(
    `channel ${channel.name} holds that topic and is of type ${channel.kind}; only latest has current values`,
  );
}

function notAKey(reason: string): Refusal {
  return { code: Reason.TopicNameInvalid, reason };
}
