/** Deliveries that a session gives up for want of room: counted, and said where operators look. */
import type { Context } from "./context.ts";
import type { Session } from "./session.ts";

/** How often one session is said to be full, however much it drops. */
const SAID_EVERY_MS = 60_000;

/** Monotonic ms of what was said of a session last; most sessions are never full. */
const saidAt = new WeakMap<Session, number>();

/** The session's bound cost it a delivery at QoS 1 or 2 (D8.14, 05 12.2). */
export function shedForRoom(session: Session, { counters, clock, log }: Context): void {
  counters.sessionDeliveriesDropped.add("session_queue_full");
  const now = clock.monotonic();
  if (now - (saidAt.get(session) ?? -Infinity) < SAID_EVERY_MS) return;
  saidAt.set(session, now);
  log.warn("a session holds limits.session_queue_bytes: its oldest deliveries are dropped", {
    client: session.clientId,
  });
}

/** A delivery at QoS 0 found the outbound queue full (D8.2): may happen for each, so only on request. */
export function shedAtOnce(session: Session, topic: string, { counters, log }: Context): void {
  counters.deliveriesDropped++;
  if (!log.enabled("debug")) return;
  log.debug("dropped a QoS 0 delivery at a full outbound queue", {
    client: session.clientId,
    topic,
  });
}
