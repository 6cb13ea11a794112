import type { Refusal } from "../reason.ts";
import {
  answer,
  type ControlParts,
  type ControlRequest,
  correlationData,
  EMPTY,
  responseTopic,
  utf8,
} from "./request.ts";

/**
 * What a channel is and what the client may do on it (06 section 3). A channel it may do nothing on is
 * answered like one that does not exist.
 */
export function catalogue(
  parts: ControlParts,
  request: ControlRequest,
  name: string,
): Refusal | undefined {
  const topic = responseTopic(request);
  if (typeof topic !== "string") return topic;
  if (request.publish.qos === 0) return undefined;
  return answer(request, {
    topic,
    payload: describe(parts, request, name),
    correlationData: correlationData(request),
  });
}

function describe(parts: ControlParts, request: ControlRequest, name: string): Uint8Array {
  const channel = parts.routes.channel(name);
  const configuration = parts.channels.get(name);
  if (channel === undefined || configuration === undefined) return EMPTY;
  const verbs = parts.verbs(request.session, channel);
  if (verbs.length === 0) return EMPTY;
  return utf8(JSON.stringify({
    name,
    type: channel.kind,
    filter: configuration.filter,
    verbs,
    pin: channel.kind === "queue" ? `$saguin/queue/${name}` : undefined,
  }));
}
