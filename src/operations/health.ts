import type { Clock } from "../platform/clock.ts";
import type { Timers } from "../platform/timers.ts";
import { type HttpResponse, jsonResponse } from "./http/message.ts";

/** How long the publish path may take to let the check through (05 section 5). */
export const HEALTH_MS = 1_000;

const OK = jsonResponse(200, { status: "ok" });
const UNAVAILABLE = jsonResponse(503, { status: "unavailable" });

/**
 * Whether publishes get through: the check queues where every publish is taken in, behind those that
 * are there. It says what a restart would mend, so storage, bridges and lag have no part in it.
 *
 * @param turn resolves once the publish path has come to whoever calls it
 */
export async function health(
  turn: () => Promise<void>,
  clock: Clock,
  timers: Timers,
): Promise<HttpResponse> {
  const asked = clock.monotonic();
  let giveUp!: () => void;
  const late = new Promise<void>((resolve) => giveUp = resolve);
  const timer = timers.after(HEALTH_MS, giveUp);
  await Promise.race([turn(), late]);
  timer.cancel();
  // A loop that stood still comes to the turn and to the deadline in one go.
  return clock.monotonic() - asked < HEALTH_MS ? OK : UNAVAILABLE;
}
