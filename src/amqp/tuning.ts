import { type Refusal, refuse, Reply } from "./reply.ts";
import { FRAME_MIN_BYTES } from "./wire/frames.ts";
import type { FieldTable, FieldValue } from "./wire/table.ts";
import { textField } from "./wire/table.ts";
import type { MethodOf } from "./wire/methods.ts";

/** What a door offers in connection.tune. */
export interface TuneOffer {
  readonly channelMax: number;
  readonly frameMax: number;
  /** Seconds; 0 for none. */
  readonly heartbeat: number;
}

/** What client and server agree on, or why they do not (A12). */
export function agree(
  offer: TuneOffer,
  { channelMax, frameMax, heartbeat }: MethodOf<"connection.tune-ok">,
): TuneOffer | Refusal {
  if (channelMax > offer.channelMax) {
    return refuse(
      Reply.NotAllowed,
      `channel_max ${channelMax} is above the ${offer.channelMax} offered`,
    );
  }
  if (frameMax > offer.frameMax) {
    return refuse(Reply.NotAllowed, `frame_max ${frameMax} is above the ${offer.frameMax} offered`);
  }
  if (frameMax > 0 && frameMax < FRAME_MIN_BYTES) {
    return refuse(
      Reply.NotAllowed,
      `frame_max ${frameMax} is below the ${FRAME_MIN_BYTES} that every peer has to take`,
    );
  }
  return {
    channelMax: channelMax === 0 ? offer.channelMax : channelMax,
    frameMax: frameMax === 0 ? offer.frameMax : frameMax,
    heartbeat,
  };
}

/** What we tell of ourselves; only what works (A10). */
export function serverProperties(version: string): FieldTable {
  const on: FieldValue = { type: "t", value: true };
  const capabilities = [
    "publisher_confirms",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "per_consumer_qos",
    "authentication_failure_close",
  ];
  return new Map<string, FieldValue>([
    ["product", textField("saguin")],
    ["version", textField(version)],
    ["platform", textField("Deno")],
    ["capabilities", { type: "F", value: new Map(capabilities.map((name) => [name, on])) }],
  ]);
}
