import type { Headers, Message, QoS } from "../storage/record.ts";
import type { ReasonCode } from "./reason.ts";

/**
 * One PUBLISH towards a client, before a front door turns it into bytes. It is the same for all who are
 * owed it alike, and may be shared by them; what differs is the packet identifier.
 */
export interface Delivery {
  readonly message: Message;
  readonly qos: QoS;
  readonly retain: boolean;
  /** Subscription Identifiers of every matching subscription that has one. */
  readonly identifiers: readonly number[];
  /** The broker's own `saguin-*` User Properties, sent ahead of the publisher's. */
  readonly labels: Headers;
  /** Replaces the publisher's Response Topic and Correlation Data on a queue offer (D14.8). */
  readonly reply?: { readonly responseTopic: string; readonly correlationData: Uint8Array };
  /** Remaining Message Expiry Interval in seconds; undefined sends none. */
  readonly expiry: number | undefined;
}

/** Why the broker ends a connection; MQTT 5 carries both in DISCONNECT, 3.1.1 just closes. */
export interface Ending {
  readonly code: ReasonCode;
  readonly reason: string;
}

/**
 * One connection as the broker core sees it: no socket, no bytes. All calls return at once; what is
 * sent is buffered by the door and leaves in one write a turn. After `end`, and once the door reported
 * the connection lost, every call is a no-op.
 */
export interface ClientLink {
  /** 4 is MQTT 3.1.1, 5 is MQTT 5. */
  readonly level: 4 | 5;
  /** The listener it came in by, for logs. */
  readonly listener: string;
  /** Peer address, for logs. */
  readonly address: string;
  /** Bytes sent and not yet taken by the socket. */
  readonly buffered: number;
  /**
   * Sends a PUBLISH; `packetId` is 0 at QoS 0. False, with nothing sent, when it is larger than the
   * client's Maximum Packet Size (D7).
   */
  deliver(delivery: Delivery, packetId: number, dup: boolean): boolean;
  /** What `deliver` would answer, with nothing sent. */
  takes(delivery: Delivery): boolean;
  /** Sends a PUBREL; with a code when nothing is known of the exchange. */
  release(packetId: number, code?: ReasonCode): void;
  /** Sends DISCONNECT where the protocol has one, then closes. */
  end(ending: Ending): void;
}
