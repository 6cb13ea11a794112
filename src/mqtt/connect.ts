import { unreadProperty } from "../broker/delivery.ts";
import { Reason, type Refusal } from "../broker/reason.ts";
import type { ConnectRequest } from "../broker/sessions.ts";
import type { StoredWill } from "../storage/contract.ts";
import { NO_HEADERS, NO_PROPERTIES, utf8Length } from "../storage/record.ts";
import type { ConnectPacket, WillPacket } from "./packet.ts";

/** Session Expiry Interval "never" (3.1.2.11.2); the broker caps it. */
const NEVER_SECONDS = 0xffff_ffff;

const LARGEST_RECEIVE_MAXIMUM = 65_535;

/** Random bytes in a client id the broker assigns. */
const ASSIGNED_ID_BYTES = 12;

export interface ConnectRules {
  /** `broker.mqtt.min_protocol_version`. */
  readonly minProtocolVersion: 4 | 5;
  readonly maxClientIdLength: number;
  token(bytes: number): string;
}

/** A CONNECT that may be served, with the client id it will have. */
export interface AdmittedConnect {
  readonly request: ConnectRequest;
  /** Present when the client sent none (MQTT 5 3.2.2.3.7). */
  readonly assignedClientId: string | undefined;
}

// deno-lint-ignore no-control-regex
const CONTROL_CHARACTER = /[\x00-\x1f\x7f-\x9f]/;

/**
 * Everything about a CONNECT that is refused before anybody is asked who it is (02a section 10). The
 * request is nobody's until `identified`.
 */
export function admitConnect(
  packet: ConnectPacket,
  rules: ConnectRules,
): AdmittedConnect | Refusal {
  if (packet.level < rules.minProtocolVersion || packet.level === 3) {
    return {
      code: Reason.UnsupportedProtocolVersion,
      reason: `this broker admits ${
        rules.minProtocolVersion === 5 ? "MQTT 5 only" : "MQTT 5 and MQTT 3.1.1"
      }`,
    };
  }
  const level = packet.level === 5 ? 5 : 4;
  if (packet.authenticationMethod !== undefined) {
    return {
      code: Reason.BadAuthenticationMethod,
      reason: "no Authentication Method is supported",
    };
  }
  if (unreadProperty(packet.userProperties, []) !== undefined) {
    return {
      code: Reason.ImplementationSpecificError,
      reason: "a CONNECT carries a saguin- User Property, and none is defined",
    };
  }
  const idRefusal = clientIdRefusal(packet, level, rules.maxClientIdLength);
  if (idRefusal !== undefined) return idRefusal;
  const assignedClientId = packet.clientId === ""
    ? "auto-" + rules.token(ASSIGNED_ID_BYTES)
    : undefined;
  return {
    request: {
      clientId: assignedClientId ?? packet.clientId,
      user: "",
      sentClientId: packet.clientId,
      access: undefined,
      level,
      cleanStart: packet.cleanStart,
      expiry: level === 5 ? packet.sessionExpiry ?? 0 : packet.cleanStart ? 0 : NEVER_SECONDS,
      receiveMaximum: packet.receiveMaximum ?? LARGEST_RECEIVE_MAXIMUM,
      will: packet.will === undefined ? undefined : storedWill(packet.will),
    },
    assignedClientId,
  };
}

/** The request as that of `user`; empty for an anonymous client. */
export function identified(request: ConnectRequest, user: string): ConnectRequest {
  if (user === "") return request;
  return { ...request, user, will: request.will && { ...request.will, user } };
}

function clientIdRefusal(
  packet: ConnectPacket,
  level: 4 | 5,
  longest: number,
): Refusal | undefined {
  const { clientId } = packet;
  const code = Reason.ClientIdentifierNotValid;
  if (utf8Length(clientId) > longest) {
    return {
      code,
      reason: `the client id is longer than limits.max_client_id_length (${longest})`,
    };
  }
  if (CONTROL_CHARACTER.test(clientId)) {
    return { code, reason: "the client id holds a control character" };
  }
  // An id that the broker makes up is not one to come back under (02a section 10).
  const kept = level === 4 ? !packet.cleanStart : (packet.sessionExpiry ?? 0) > 0;
  if (clientId === "" && kept) {
    return { code, reason: "a session that is kept needs a client id" };
  }
  return undefined;
}

function storedWill(will: WillPacket): StoredWill {
  const { contentType, responseTopic, correlationData, payloadFormat, messageExpiry } =
    will.properties;
  const properties = {
    ...contentType === undefined ? {} : { contentType },
    ...responseTopic === undefined ? {} : { responseTopic },
    ...correlationData === undefined ? {} : { correlationData: correlationData.slice() },
    ...payloadFormat === undefined ? {} : { payloadFormat },
    ...messageExpiry === undefined ? {} : { messageExpiry },
  };
  return {
    topic: will.topic,
    payload: will.payload.slice(),
    qos: will.qos,
    retain: will.retain,
    delay: will.delay,
    properties: Object.keys(properties).length === 0 ? NO_PROPERTIES : properties,
    headers: will.properties.userProperties ?? NO_HEADERS,
    user: "",
  };
}
