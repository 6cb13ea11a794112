import type { ClientRules } from "../auth/acl/client_rules.ts";
import type { Limits } from "../config/configuration.ts";
import { Reason } from "../broker/reason.ts";
import type { ConnackPacket, ConnectPacket } from "./packet.ts";
import { TOPIC_ALIAS_MAXIMUM } from "./topic_aliases.ts";

/** What a CONNECT was granted. */
export interface Granted {
  readonly sessionPresent: boolean;
  /** Seconds. */
  readonly expiry: number;
}

/**
 * The CONNACK of an accepted CONNECT (02a 11.2). At level 4 nothing but Session Present leaves. `rules`:
 * what an ACL file lets the client do, where there is one.
 */
export function acceptance(
  packet: ConnectPacket,
  granted: Granted,
  assignedClientId: string | undefined,
  limits: Limits,
  rules: ClientRules | undefined,
): ConnackPacket {
  const ceiling = keepAliveCeiling(packet, limits);
  return {
    sessionPresent: granted.sessionPresent,
    reasonCode: Reason.Success,
    topicAliasMaximum: TOPIC_ALIAS_MAXIMUM,
    maximumPacketSize: limits.maxMessageSize,
    retainAvailable: 1,
    ...rules?.denies("qos2") ? { maximumQoS: 1 as const } : {},
    ...rules?.denies("share") ? { sharedSubscriptionAvailable: 0 as const } : {},
    ...granted.expiry === (packet.sessionExpiry ?? 0) ? {} : { sessionExpiry: granted.expiry },
    ...assignedClientId === undefined ? {} : { assignedClientId },
    ...ceiling === undefined ? {} : { serverKeepAlive: ceiling },
  };
}

/** Seconds, when `limits.max_keepalive` shortens what an MQTT 5 client asked for (02a 13.4). */
function keepAliveCeiling(packet: ConnectPacket, limits: Limits): number | undefined {
  if (limits.maxKeepaliveMs === undefined || packet.level !== 5) return undefined;
  const ceiling = limits.maxKeepaliveMs / 1_000;
  return packet.keepAlive === 0 || packet.keepAlive > ceiling ? ceiling : undefined;
}

/** The Keep Alive in force, in seconds; 0 for none. */
export function keepAliveSeconds(packet: ConnectPacket, limits: Limits): number {
  return keepAliveCeiling(packet, limits) ?? packet.keepAlive;
}
