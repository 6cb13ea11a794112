/**
 * A message as it was published: address, properties and body, none of which changes on the way to a
 * consumer (A5). One object for all the queues it is in.
 */
export interface AmqpMessage {
  /** As the publisher named it; at most 255 bytes of UTF-8, like the routing key. */
  readonly exchange: string;
  readonly routingKey: string;
  /** The flags word and property list as on the wire, then the body. Shared, never written to. */
  readonly content: Uint8Array;
  /** Where the body begins in `content`. */
  readonly propertyBytes: number;
}

export function bodyBytes(message: AmqpMessage): number {
  return message.content.length - message.propertyBytes;
}
