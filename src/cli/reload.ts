import { waitingForRestart } from "../config/changes.ts";
import type { Configuration } from "../config/configuration.ts";
import { loadConfiguration } from "../config/load.ts";
import type { Settings } from "../config/settings.ts";
import { REAL_SURROUNDINGS } from "../config/walk.ts";
import type { Door } from "../mqtt/doors/door.ts";
import { errorText, type Log, type LogfmtLog } from "../platform/log.ts";
import { EMPTY_FILE_PAGES, PAGE_SIZE } from "../storage/sqlite/schema.ts";

/** Keys that one line names; how many there are stands beside them. */
const MOST_KEYS = 5;

/** What one part of the broker has read and not yet put into force. */
export interface Change {
  /** Cannot fail. */
  apply(): void;
  /** Says what is in force now, after all changes were applied. */
  report(log: Log): void;
}

/**
 * Reads what one part takes over in a reload, from the paths it was started with; `now` is the
 * configuration as the file says it now.
 *
 * @throws Error with one sentence naming the file or the door; the part is as it was
 */
export type Prepare = (now: Configuration) => Change;

/**
 * The reload of 02b section 17, all or nothing: everything is read first, and only when all of it is good
 * does any of it change. What the file says now and only a restart takes over is named, `started` being
 * what is in force. Never throws.
 */
export function reload(
  file: string,
  started: Settings,
  parts: readonly Prepare[],
  log: Log,
): void {
  const surroundings = {
    ...REAL_SURROUNDINGS,
    emptyDatabaseBytes: EMPTY_FILE_PAGES * PAGE_SIZE,
  };
  const loading = loadConfiguration(file, surroundings);
  if ("findings" in loading) {
    for (const line of loading.findings.trimEnd().split("\n")) {
      if (!line.startsWith("  - ")) continue;
      log.error("the configuration is invalid", { file, finding: line.slice(4) });
    }
    log.error("nothing was reloaded: the configuration is invalid", { file });
    return;
  }
  let changes: readonly Change[];
  try {
    changes = parts.map((prepare) => prepare(loading.configuration));
  } catch (error) {
    log.error("nothing was reloaded", { error: errorText(error) });
    return;
  }
  for (const change of changes) change.apply();
  log.info("reloaded; addresses, channels, routes, limits and storage change with a restart only", {
    file,
  });
  const waiting = waitingForRestart(started, loading.settings);
  if (waiting.length > 0) {
    log.warn("what the file says otherwise than at the start waits for a restart", {
      keys: waiting.length,
      first: waiting.slice(0, MOST_KEYS).join(","),
    });
  }
  for (const change of changes) change.report(log);
}

const LEVELS = ["debug", "info", "warn", "error"] as const;

/**
 * `broker.log_level`. Stands last among the parts: what they report is written at the more talkative of
 * both levels.
 */
export function reloadLogLevel(log: LogfmtLog, from: Configuration): Prepare {
  let level = from.logLevel;
  return ({ logLevel }) => ({
    apply: () => log.setLevel(LEVELS.find((each) => each === level || each === logLevel)!),
    report: () => {
      log.info("log level", { from: level, to: logLevel });
      level = logLevel;
      log.setLevel(level);
    },
  });
}

/** Certificates, keys and client authorities of a door, and the pages that may connect to it. */
export function reloadDoor(door: Door): Prepare {
  const { name } = door.configuration;
  return ({ mqtt }) => {
    const now = mqtt.doors.find((other) => other.name === name);
    const renewal = door.renew(now);
    return {
      apply: () => renewal.apply(),
      report: (log) => {
        if (renewal.expires !== undefined) {
          log.info("certificate", { listener: name, expires: renewal.expires.toISOString() });
        }
        if (door.configuration.kind !== "ws" || now?.kind !== "ws") return;
        const { sameOrigin, allowedOrigins } = now;
        log.info("pages that may connect", {
          listener: name,
          same_origin: sameOrigin,
          allowed_origins: allowedOrigins.length,
        });
      },
    };
  };
}
