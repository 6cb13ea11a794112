/**
 * Every file that says who clients are and what they may do, read together: at the start, by
 * `--check-config`, and again on a reload, where either all of them are taken or none.
 */
import type { Configuration, MqttDoor } from "../config/configuration.ts";
import type { Findings } from "../config/finding.ts";
import type { NamedFiles, ReadFile } from "../config/named_files.ts";
import { Acl } from "./acl/acl.ts";
import { readAcl } from "./acl/read.ts";
import type { DoorAccess } from "./identity.ts";
import { loadOperators, type Operators } from "./operators.ts";
import { type PasswordFile, readPasswordFile } from "./password_file.ts";

export interface Credentials {
  /** By the name of the MQTT door. */
  readonly doors: ReadonlyMap<string, DoorAccess>;
  /** By the name of the AMQP door. */
  readonly amqpDoors: ReadonlyMap<string, DoorAccess>;
  readonly acl: Acl | undefined;
  readonly operators: Operators;
}

/**
 * Reads the files that `configuration` names. What is wrong with any of them goes to `findings`, and what
 * is returned is then not to be used.
 */
export function loadCredentials(
  configuration: Configuration,
  readFile: ReadFile,
  findings: Findings,
): Credentials {
  const { mqtt, amqp, operations, files } = configuration;
  const doors = [...mqtt.doors, ...amqp?.doors ?? []];
  const users = new Map<string, PasswordFile | undefined>();
  for (const { passwordFile } of doors) {
    if (passwordFile === undefined || users.has(passwordFile)) continue;
    const of = doors.filter((door) => door.passwordFile === passwordFile);
    users.set(passwordFile, readUsers(passwordFile, of, files, readFile, findings));
  }
  const access = ({ name, passwordFile, allowAnonymous }: MqttDoor): [string, DoorAccess] => {
    const passwords = passwordFile === undefined ? undefined : users.get(passwordFile);
    return [name, { passwords, allowAnonymous }];
  };
  return {
    doors: new Map(mqtt.doors.map(access)),
    amqpDoors: new Map(amqp?.doors.map(access)),
    acl: readPermissions(configuration, readFile, findings),
    operators: loadOperators(operations, files, readFile, findings),
  };
}

/** The password file of `doors`; a file of nobody is refused where a door admits nobody else. */
function readUsers(
  path: string,
  doors: readonly MqttDoor[],
  files: NamedFiles,
  readFile: ReadFile,
  findings: Findings,
): PasswordFile | undefined {
  const bytes = files.read(path, readFile, findings);
  if (bytes === undefined) return undefined;
  const own = readPasswordFile(bytes, path, "clients", findings);
  const closed = doors.filter((door) => !door.allowAnonymous && !provesOtherwise(door));
  if (own.credentials.size === 0 && !own.faulty && closed.length > 0) {
    const says = `names no user, and nobody else is admitted at ` +
      `${closed.map((door) => door.path).join(" and ")}; add one with saguin --passwd add`;
    files.refuse(path, says, findings);
  }
  return own;
}

/** Whether a client can be known at the door without a password. */
function provesOtherwise(door: MqttDoor): boolean {
  return door.kind === "unix" ? door.proxyProtocol : door.tls?.clientCaFile !== undefined;
}

function readPermissions(
  configuration: Configuration,
  readFile: ReadFile,
  findings: Findings,
): Acl | undefined {
  const path = configuration.mqtt.aclFile;
  if (path === undefined) return undefined;
  const bytes = configuration.files.read(path, readFile, findings);
  if (bytes === undefined) return undefined;
  return new Acl(readAcl(bytes, path, configuration, findings), configuration);
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
