import type { AmqpMessage } from "../../../src/amqp/message.ts";
import { join, type Properties, properties } from "./amqp_bytes.ts";

/** Messages for tests that need no publisher. */
export class AmqpMessageBuilder {
  #properties: Uint8Array = properties();
  #body: Uint8Array = new Uint8Array();

  constructor(private readonly exchange: string, private readonly routingKey: string) {}

  properties(of: Properties): this {
    this.#properties = properties(of);
    return this;
  }

  body(body: string | Uint8Array): this {
    this.#body = typeof body === "string" ? new TextEncoder().encode(body) : body;
    return this;
  }

  build(): AmqpMessage {
    return {
      exchange: this.exchange,
      routingKey: this.routingKey,
      content: join(this.#properties, this.#body),
      propertyBytes: this.#properties.length,
    };
  }
}
