import type { DoorAccess } from "../../auth/identity.ts";
import type { Configuration, MqttDoor } from "../../config/configuration.ts";
import { type HttpResponse, jsonResponse } from "../http/message.ts";

/**
 * `users`: names that may connect by MQTT, from the files as they were read last (05 7.8). Never an
 * operator, a hash, or who holds a certificate.
 *
 * @param doors what is in force at each MQTT door, by its name
 */
export function users(
  { mqtt }: Configuration,
  doors: ReadonlyMap<string, DoorAccess>,
): HttpResponse {
  const all = new Set<string>();
  const listeners: [string, ReturnType<typeof atDoor>][] = mqtt.doors.map((door) => {
    const answer = atDoor(door, doors.get(door.name)!);
    for (const user of answer.users) all.add(user);
    return [door.name, answer];
  });
  return jsonResponse(200, {
    users: [...all].sort(),
    anonymous_allowed: listeners.some(([, { anonymous_allowed }]) => anonymous_allowed),
    // Made of entries: a door may be called anything.
    listeners: Object.fromEntries(listeners),
  });
}

function atDoor(door: MqttDoor, { passwords, allowAnonymous }: DoorAccess) {
  return {
    users: passwords?.users.sort() ?? [],
    anonymous_allowed: allowAnonymous,
    certificate: certificateAt(door),
  };
}

function certificateAt(door: MqttDoor): "required" | "accepted" | "none" {
  if (door.kind === "unix" || door.tls?.clientCaFile === undefined) return "none";
  return door.tls.requireCertificate ? "required" : "accepted";
}
