import { AccessControl } from "../auth/acl/access.ts";
import { type Credentials, doorsWithoutIdentity, loadCredentials } from "../auth/credentials.ts";
import { identify } from "../auth/identity.ts";
import { PasswordChecker } from "../auth/password_checker.ts";
import type { Configuration } from "../config/configuration.ts";
import { Findings } from "../config/finding.ts";
import { REAL_SURROUNDINGS } from "../config/walk.ts";
import type { Identify } from "../mqtt/connection.ts";
import type { Log } from "../platform/log.ts";
import type { Change } from "./reload.ts";

/** Who clients are and what they may do, by the files that were read last. One for the process. */
export class Identities {
  /** Of every door of the process, so that hashing stays bounded over all of them. */
  readonly checker = new PasswordChecker();
  readonly access: AccessControl;
  #credentials: Credentials;

  /** `credentials` were read for the same configuration without a finding. */
  constructor(private readonly configuration: Configuration, credentials: Credentials) {
    this.#credentials = credentials;
    this.access = new AccessControl(configuration, credentials.acl);
  }

  /** Who comes in by the MQTT door of that name. */
  at(door: string): Identify {
    return (claimed, gone) =>
      identify(claimed, this.#credentials.doors.get(door)!, this.checker, gone);
  }

  /** As read last. */
  get credentials(): Credentials {
    return this.#credentials;
  }

  /** Says at which doors an ACL file meets clients that nobody asks who they are (02b 7.1). */
  warn(log: Log): void {
    for (const { name } of doorsWithoutIdentity(this.configuration)) {
      log.warn(
        "clients of a listener are not asked who they are; they get what acl_file grants to *",
        {
          listener: name,
        },
      );
    }
  }

  /**
   * Reads every file again, by its path at the start (02b section 17). Passwords are asked for at the next
   * CONNECT, permissions at the next publish or delivery.
   * @throws Error with every finding in one sentence each
   */
  reread(): Change {
    const findings = new Findings();
    const fresh = loadCredentials(this.configuration, REAL_SURROUNDINGS.readFile, findings);
    if (!findings.empty) throw new Error(inOneLine(findings.report(this.configuration.file)));
    return {
      apply: () => {
        this.#credentials = fresh;
        if (fresh.acl !== undefined) this.access.replace(fresh.acl);
      },
      report: (log) => {
        const doors = [...fresh.doors.values(), ...fresh.amqpDoors.values()];
        for (const passwords of new Set(doors.map((door) => door.passwords))) {
          if (passwords === undefined) continue;
          const { file, credentials } = passwords;
          log.info("password file", { file, users: credentials.size });
        }
        for (const { file, credentials } of new Set(fresh.operators.values())) {
          log.info("password file of operators", { file, users: credentials.size });
        }
        if (fresh.acl === undefined) return;
        const { file, entries, roles } = fresh.acl.document;
        log.info("acl file", { file, users: entries.length, roles: roles.size });
      },
    };
  }
}

/** A report of findings, each with the name of its file, for a log that writes lines. */
function inOneLine(report: string): string {
  const sentences: string[] = [];
  let file = "";
  for (const line of report.trimEnd().split("\n").slice(1)) {
    if (line.startsWith("  - ")) sentences.push(`${file}:${line.slice(4)}`);
    else file = line.slice(0, -1);
  }
  return sentences.join("; ");
}
