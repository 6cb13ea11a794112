import { type Nanoseconds, NANOSECONDS_PER_MS } from "../platform/clock.ts";
import { type Position, sessionReader } from "./contract.ts";

const SESSION_PREFIX = sessionReader("");

/**
 * Whether a stored position belongs to a session that is over, so that it is dropped (S40): no session is
 * held under its client id, and its expiry passed, counted from when the session was last seen. An expiry
 * of 0 ended with its connection. A bridge states none and is never swept.
 */
export function readerEnded(
  position: Position,
  held: (clientId: string) => boolean,
  now: Nanoseconds,
): boolean {
  const { reader, expiry, lastSeen } = position;
  if (!reader.startsWith(SESSION_PREFIX)) return false;
  if (held(reader.slice(SESSION_PREFIX.length))) return false;
  return expiry === 0 || lastSeen + BigInt(expiry) * 1000n * NANOSECONDS_PER_MS < now;
}
