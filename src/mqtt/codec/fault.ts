import type { ReasonCode } from "../../broker/reason.ts";

/** MQTT 3.1.1 CONNACK return codes (3.1.1 3.2.2.3). */
export const ReturnCode = {
  Accepted: 0x00,
  UnacceptableProtocolVersion: 0x01,
  IdentifierRejected: 0x02,
  ServerUnavailable: 0x03,
  BadUserNameOrPassword: 0x04,
  NotAuthorized: 0x05,
} as const;

/** What the peer is told before its connection is closed; undefined says nothing. */
export type FaultAnswer =
  | { readonly packet: "connack"; readonly level: 4 | 5; readonly code: number }
  | { readonly packet: "disconnect"; readonly code: ReasonCode }
  | undefined;

/**
 * Why inbound bytes are no acceptable packet. Every one of them ends the connection. A plain value,
 * not an Error: a hostile peer must not buy a stack trace with every connection.
 */
export class MalformedPacket {
  constructor(
    /** The MQTT 5 reason code. */
    readonly code: ReasonCode,
    /** One sentence for the log and for the Reason String. */
    readonly reason: string,
    /** As the CONNECT declared it, whether known or not; undefined when reading did not get there. */
    readonly level: number | undefined,
    /** True when it is the connection's first packet, so that only a CONNACK may answer. */
    readonly inConnect: boolean,
    /** MQTT 3.1.1 return code of the CONNACK; undefined closes bare below MQTT 5. */
    readonly returnCode: number | undefined = undefined,
    /** True when even MQTT 5 is closed without a packet (a PUBLISH topic that is not UTF-8). */
    readonly bare: boolean = false,
  ) {}

  /**
   * The packet that goes out before the close (02a sections 10 and 11), in the vocabulary of the
   * level the peer declared. The top bit of a declared level is the bridge mark of some brokers and
   * says nothing about the vocabulary.
   */
  get answer(): FaultAnswer {
    if (this.level === undefined || this.bare) return undefined;
    if ((this.level & 0x7f) < 5) {
      return this.inConnect && this.returnCode !== undefined
        ? { packet: "connack", level: 4, code: this.returnCode }
        : undefined;
    }
    return this.inConnect
      ? { packet: "connack", level: 5, code: this.code }
      : { packet: "disconnect", code: this.code };
  }
}
