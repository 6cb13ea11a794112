/**
 * Every file that says who clients are and what they may do, read together: at the start, by
 * `--check-config`, and again on a reload, where either all of them are taken or none.
 */
import type { Configuration, MqttDoor } from "../config/configuration.ts";
import type { Findings } from "../config/finding.ts";
import { reason } from "../config/walk.ts";
import { Acl } from "./acl/acl.ts";
import { readAcl } from "./acl/read.ts";
import type { DoorAccess } from "./identity.ts";
import { loadOperators, type Operators } from "./operators.ts";
import { type PasswordFile, readPasswordFile } from "./password_file.ts";

export interface Credentials {
  /** By the name of the MQTT door. */
  readonly doors: ReadonlyMap<string, DoorAccess>;
  readonly acl: Acl | undefined;
  readonly operators: Operators;
}

/** Reads the bytes of a file. @throws whatever the system says */
export type ReadFile = (path: string) => Uint8Array;

/**
 * Reads the files that `configuration` names. What is wrong with any of them goes to `findings`, and what
 * is returned is then not to be used.
 */
export function loadCredentials(
  configuration: Configuration,
  readFile: ReadFile,
  findings: Findings,
): Credentials {
  const { doors, aclFile } = configuration.mqtt;
  const files = new Map<string, PasswordFile | undefined>();
  for (const { passwordFile } of doors) {
    if (passwordFile === undefined || files.has(passwordFile)) continue;
    const of = doors.filter((door) => door.passwordFile === passwordFile);
    files.set(passwordFile, readUsers(passwordFile, of, readFile, findings));
  }
  return {
    doors: new Map(doors.map((door) => [door.name, {
      passwords: door.passwordFile === undefined ? undefined : files.get(door.passwordFile),
      allowAnonymous: door.allowAnonymous,
    }])),
    acl: aclFile === undefined
      ? undefined
      : readPermissions(aclFile, configuration, readFile, findings),
    operators: loadOperators(configuration.operations, readFile, findings),
  };
}

/** The password file of `doors`; a file of nobody is refused where a door admits nobody else. */
function readUsers(
  path: string,
  doors: readonly MqttDoor[],
  readFile: ReadFile,
  findings: Findings,
): PasswordFile | undefined {
  const names = named(doors);
  const bytes = readBytes(path, `is the password file of ${names} and`, readFile, findings);
  if (bytes === undefined) return undefined;
  const own = readPasswordFile(bytes, path, "clients", findings);
  const closed = doors.filter((door) => !door.allowAnonymous && !provesOtherwise(door));
  if (own.credentials.size === 0 && !own.faulty && closed.length > 0) {
    const says = `names no user, and nobody else is admitted at ${named(closed)}; ` +
      "add one with saguin --passwd add";
    findings.add({ file: path, line: 1, column: 1 }, undefined, says);
  }
  return own;
}

function named(doors: readonly MqttDoor[]): string {
  return doors.map((door) => door.path).join(" and ");
}

/** Whether a client can be known at the door without a password. */
function provesOtherwise(door: MqttDoor): boolean {
  return door.kind === "unix" ? door.proxyProtocol : door.tls?.clientCaFile !== undefined;
}

function readPermissions(
  path: string,
  configuration: Configuration,
  readFile: ReadFile,
  findings: Findings,
): Acl | undefined {
  const bytes = readBytes(path, "is broker.mqtt.acl_file and", readFile, findings);
  if (bytes === undefined) return undefined;
  return new Acl(readAcl(bytes, path, configuration, findings), configuration);
}

function readBytes(
  path: string,
  role: string,
  readFile: ReadFile,
  findings: Findings,
): Uint8Array | undefined {
  try {
    return readFile(path);
  } catch (error) {
    const place = { file: path, line: 1, column: 1 };
    findings.add(
      place,
      undefined,
      `${role} cannot be read: ${reason(error)}; name a readable file`,
    );
    return undefined;
  }
}

/**
 * Doors at which, beside an ACL file, a client that nobody knows is served as what the pattern `*`
 * grants (02b 7.1): each is worth a warning at the start and from `--check-config`.
 */
export function doorsWithoutIdentity({ mqtt }: Configuration): readonly MqttDoor[] {
  if (mqtt.aclFile === undefined) return [];
  return mqtt.doors.filter((door) =>
    door.passwordFile === undefined &&
    !(door.kind !== "unix" && door.tls?.requireCertificate === true)
  );
}
