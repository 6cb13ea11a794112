import { appendScript } from "./append.ts";
import { boundsScript } from "./bounds.ts";
import { holdsScript } from "./holds.ts";
import { latestScript } from "./latest.ts";
import { logScript } from "./log.ts";
import { positionsScript } from "./positions.ts";
import { queueScript } from "./queue.ts";
import { sessionsScript } from "./sessions.ts";
import type { Subject } from "./subject.ts";

/** The one script that every storage provider answers alike (S13). */
export function conformance(subject: Subject): void {
  appendScript(subject);
  positionsScript(subject);
  latestScript(subject);
  queueScript(subject);
  boundsScript(subject);
  holdsScript(subject);
  logScript(subject);
  sessionsScript(subject);
}
