/** A job on its way to an MQTT session, and the answer on its way back (02a section 6, D14.9 to D14.13). */
import type { Nanoseconds } from "../../platform/clock.ts";
import type { Offer } from "../../storage/contract.ts";
import { channelExpiry, channelLabels } from "../delivery.ts";
import type { Session } from "../session.ts";

/** Random bytes of a Delivery ID; as text twice as many, the most that is allowed (D14.9). */
export const DELIVERY_ID_BYTES = 16;

export type Verdict = "ack" | "return";

const ENCODER = new TextEncoder();

/** What `session` is sent of an offer of `queue`, to be answered under `deliveryId`. */
export function jobDelivery(
  queue: string,
  offer: Offer,
  session: Session,
  deliveryId: string,
  now: Nanoseconds,
) {
  const { message, attempt } = offer;
  const { identifier } = session.subscriptions.get(`$saguin/queue/${queue}`) ?? {};
  return {
    message,
    qos: 1,
    retain: false,
    identifiers: identifier === undefined ? [] : [identifier],
    labels: channelLabels(offer, undefined, attempt),
    reply: {
      responseTopic: `$saguin/queue/${queue}/response`,
      correlationData: ENCODER.encode(deliveryId),
    },
    expiry: message.properties.messageExpiry === undefined
      ? undefined
      : channelExpiry(message, now),
  } as const;
}

/** The Delivery ID in Correlation Data; empty for what cannot be one. */
export function deliveryIdOf(correlationData: Uint8Array | undefined): string {
  if (correlationData?.byteLength !== 2 * DELIVERY_ID_BYTES) return "";
  return String.fromCharCode(...correlationData);
}

/** Undefined for a payload that is no answer. */
export function verdictOf(payload: Uint8Array): Verdict | undefined {
  if (payload.byteLength !== 3 && payload.byteLength !== 6) return undefined;
  const text = String.fromCharCode(...payload);
  return text === "ack" || text === "return" ? text : undefined;
}
