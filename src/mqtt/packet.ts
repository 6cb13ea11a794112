/**
 * The control packets of MQTT 5 and MQTT 3.1.1 as values. One shape serves both protocol levels: what
 * 3.1.1 cannot say is absent (undefined or empty). Section numbers are those of the MQTT 5 standard.
 */
import type { Headers, QoS } from "../storage/record.ts";

/** Protocol levels on the wire (3.1.2.2): 3 is MQTT 3.1, decoded only to be refused by name. */
export type ProtocolLevel = 3 | 4 | 5;

/** Packet types (2.1.2), the upper four bits of the first byte. */
export const PacketType = {
  Connect: 1,
  Connack: 2,
  Publish: 3,
  Puback: 4,
  Pubrec: 5,
  Pubrel: 6,
  Pubcomp: 7,
  Subscribe: 8,
  Suback: 9,
  Unsubscribe: 10,
  Unsuback: 11,
  Pingreq: 12,
  Pingresp: 13,
  Disconnect: 14,
  Auth: 15,
} as const;

/** Properties of PUBLISH and of a Will (3.3.2.3, 3.1.3.2); each absent when it was not sent. */
export interface PublishPacketProperties {
  readonly payloadFormat?: 0 | 1;
  readonly messageExpiry?: number;
  readonly topicAlias?: number;
  readonly responseTopic?: string;
  readonly correlationData?: Uint8Array;
  /** User Properties in order, repeats kept; absent when none. */
  readonly userProperties?: Headers;
  /** In wire order; absent when none. */
  readonly subscriptionIdentifiers?: readonly number[];
  readonly contentType?: string;
}

export interface WillPacket {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly qos: QoS;
  readonly retain: boolean;
  /** Will Delay Interval, seconds; 0 when absent. */
  readonly delay: number;
  readonly properties: PublishPacketProperties;
}

export interface ConnectPacket {
  readonly type: typeof PacketType.Connect;
  readonly level: ProtocolLevel;
  readonly cleanStart: boolean;
  /** Seconds; 0 switches it off. */
  readonly keepAlive: number;
  readonly clientId: string;
  readonly will?: WillPacket;
  readonly userName?: string;
  readonly password?: Uint8Array;
  /** Seconds; absent counts as 0. 0xFFFFFFFF never expires. */
  readonly sessionExpiry?: number;
  readonly receiveMaximum?: number;
  readonly maximumPacketSize?: number;
  readonly topicAliasMaximum?: number;
  readonly requestResponseInformation?: 0 | 1;
  readonly requestProblemInformation?: 0 | 1;
  readonly userProperties?: Headers;
  readonly authenticationMethod?: string;
  readonly authenticationData?: Uint8Array;
}

export interface PublishPacket {
  readonly type: typeof PacketType.Publish;
  readonly dup: boolean;
  readonly qos: QoS;
  readonly retain: boolean;
  /** Empty when a Topic Alias stands for it. */
  readonly topic: string;
  /** 0 at QoS 0. */
  readonly packetId: number;
  /** A view of the decoder's input buffer, the only one in any packet. */
  readonly payload: Uint8Array;
  readonly properties: PublishPacketProperties;
}

/** PUBACK, PUBREC, PUBREL, PUBCOMP. */
export interface AcknowledgementPacket {
  readonly type:
    | typeof PacketType.Puback
    | typeof PacketType.Pubrec
    | typeof PacketType.Pubrel
    | typeof PacketType.Pubcomp;
  readonly packetId: number;
  readonly reasonCode: number;
  readonly reasonString?: string;
  readonly userProperties?: Headers;
}

export interface SubscriptionRequest {
  readonly filter: string;
  readonly qos: QoS;
  readonly noLocal: boolean;
  readonly retainAsPublished: boolean;
  readonly retainHandling: 0 | 1 | 2;
}

export interface SubscribePacket {
  readonly type: typeof PacketType.Subscribe;
  readonly packetId: number;
  readonly subscriptions: readonly SubscriptionRequest[];
  readonly subscriptionIdentifier?: number;
  readonly userProperties?: Headers;
}

export interface UnsubscribePacket {
  readonly type: typeof PacketType.Unsubscribe;
  readonly packetId: number;
  readonly filters: readonly string[];
  readonly userProperties?: Headers;
}

export interface PingreqPacket {
  readonly type: typeof PacketType.Pingreq;
}

export interface DisconnectPacket {
  readonly type: typeof PacketType.Disconnect;
  readonly reasonCode: number;
  readonly sessionExpiry?: number;
  readonly reasonString?: string;
  readonly userProperties?: Headers;
}

export interface AuthPacket {
  readonly type: typeof PacketType.Auth;
  readonly reasonCode: number;
}

/** What a client may send. */
export type InboundPacket =
  | ConnectPacket
  | PublishPacket
  | AcknowledgementPacket
  | SubscribePacket
  | UnsubscribePacket
  | PingreqPacket
  | DisconnectPacket
  | AuthPacket;

/** The packet only a server sends that has too many fields for a list of arguments. */
export interface ConnackPacket {
  readonly sessionPresent: boolean;
  /** MQTT 5 reason code, or a 3.1.1 return code at level 4. */
  readonly reasonCode: number;
  readonly sessionExpiry?: number;
  readonly maximumQoS?: 0 | 1;
  readonly retainAvailable?: 0 | 1;
  readonly maximumPacketSize?: number;
  readonly assignedClientId?: string;
  readonly topicAliasMaximum?: number;
  readonly reasonString?: string;
  readonly userProperties?: Headers;
  readonly sharedSubscriptionAvailable?: 0 | 1;
  readonly serverKeepAlive?: number;
}
