import type { AmqpChange, AmqpPosition, AmqpRemoval } from "../amqp.ts";

/** What a provider asks its writer for the AMQP tables, beside publish rows. */
export type AmqpWrite =
  | AmqpChange
  | { readonly change: "load" }
  | { readonly change: "remove"; readonly removal: AmqpRemoval }
  | { readonly change: "clear"; readonly queue: number }
  | { readonly change: "probe"; readonly bytes: number };

export type AmqpRead =
  | { readonly look: "index"; readonly after: AmqpPosition; readonly max: number }
  | {
    readonly look: "messages";
    readonly queue: number;
    readonly from: number;
    readonly max: number;
    readonly maxBytes: number;
  };

/** Whether a write takes rather than gives, so that it may use the reserve (S185). */
export function amqpWriteRelieves(write: AmqpWrite): boolean {
  switch (write.change) {
    case "remove":
    case "clear":
    case "delete-exchange":
    case "delete-queue":
    case "unbind":
      return true;
    default:
      return false;
  }
}
