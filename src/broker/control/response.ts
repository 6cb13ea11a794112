import type { Refusal } from "../reason.ts";
import { type ControlParts, type ControlRequest, notAllowed } from "./request.ts";

/**
 * A worker's answer for a job it holds (06 section 6). Success says that it arrived: an answer that
 * changes nothing is logged and gets the same (D14.12).
 */
export async function response(
  parts: ControlParts,
  request: ControlRequest,
  name: string,
): Promise<Refusal | undefined> {
  const { session, link, publish } = request;
  const queue = parts.routes.channel(name);
  if (queue?.kind !== "queue") throw new Error(`${name} is routed as a queue and is none`);
  if (!parts.verbs(session, queue).includes("consume")) return notAllowed("consume", name);
  // What a connection held went back when another took over its session (D14.19).
  if (session.link !== link) return undefined;
  await queue.answer(session, publish.properties.correlationData, publish.payload);
  return undefined;
}
