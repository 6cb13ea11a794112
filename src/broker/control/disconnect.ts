import { Reason, type Refusal } from "../reason.ts";
import {
  answer,
  type ControlParts,
  type ControlRequest,
  correlationData,
  payloadText,
  refusal,
  responseTopic,
  utf8,
} from "./request.ts";

/** Hangs up another client; its session stays (06 section 12). Works at QoS 0 too. */
export function disconnect(parts: ControlParts, request: ControlRequest): Refusal | undefined {
  const topic = responseTopic(request);
  if (typeof topic !== "string") return topic;
  const { session, publish } = request;
  if (!parts.mayHangUp(session)) {
    return { code: Reason.NotAuthorized, reason: "no grant to disconnect other clients" };
  }
  if (publish.payload.byteLength === 0) return refusal("the payload must be a client id");
  const clientId = payloadText(publish.payload);
  if (clientId === session.clientId) return refusal("a client cannot hang itself up");
  const hungUp = clientId !== undefined && parts.hangUp(clientId);
  if (hungUp) {
    parts.context.log.info("hung up a client on request", {
      client: clientId,
      by: session.clientId,
    });
  }
  return answer(request, {
    topic,
    payload: utf8(hungUp ? "hung-up" : "no-such-client"),
    correlationData: correlationData(request),
  });
}
