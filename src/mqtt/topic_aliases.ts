import type { Ending } from "../broker/link.ts";
import { Reason } from "../broker/reason.ts";
import type { PublishPacket } from "./packet.ts";

/** Largest Topic Alias a client may use (01 section 3). */
export const TOPIC_ALIAS_MAXIMUM = 16;

/** The Topic Aliases of one connection, inbound (MQTT 5 3.3.2.3.4). None is ever used outbound. */
export class TopicAliases {
  /** Made by the first alias; most clients use none. */
  #topics: Map<number, string> | undefined;

  /** The packet with its topic, or why the connection ends. */
  resolve(packet: PublishPacket): PublishPacket | Ending {
    const { topicAlias } = packet.properties;
    if (topicAlias === undefined) return packet;
    if (topicAlias > TOPIC_ALIAS_MAXIMUM) {
      return {
        code: Reason.TopicAliasInvalid,
        reason: `a Topic Alias above the Topic Alias Maximum of ${TOPIC_ALIAS_MAXIMUM}`,
      };
    }
    if (packet.topic !== "") {
      (this.#topics ??= new Map()).set(topicAlias, packet.topic);
      return packet;
    }
    const topic = this.#topics?.get(topicAlias);
    if (topic !== undefined) return { ...packet, topic };
    return {
      code: Reason.ProtocolError,
      reason: "a Topic Alias that was never given a topic on this connection",
    };
  }
}
