import type { AmqpRow } from "../amqp.ts";
import { type Message, NO_HEADERS, NO_PROPERTIES } from "../record.ts";
import { RowKind } from "./messages.ts";
import { type Pack, Packer } from "./packing.ts";

const NO_BYTES = new Uint8Array(0);

/**
 * Puts a row of the AMQP tables into a pack: the queue is its tag, the length of the properties its
 * extra number, the position its second time, exchange and key its id and topic.
 *
 * @param first `FIRST_OF_ENTRY`, or 0
 */
export function packAmqpRow(packer: Packer, row: AmqpRow, first: number): void {
  const seq = BigInt(row.seq);
  if (row.kind === "amqp-drop") {
    const message = carrier("", "", NO_BYTES);
    packer.add(message, RowKind.AmqpDrop | first, row.queue, 0, 0, seq);
  } else {
    const message = carrier(row.exchange, row.routingKey, row.content);
    packer.add(message, RowKind.AmqpCopy | first, row.queue, row.propertyBytes, 0, seq);
  }
}

/** Rows that go with another write; undefined for none. */
export function packAmqpRows(rows: readonly AmqpRow[]): Pack | undefined {
  if (rows.length === 0) return undefined;
  const packer = new Packer();
  for (const row of rows) packAmqpRow(packer, row, 0);
  return packer.finish();
}

function carrier(messageId: string, topic: string, payload: Uint8Array): Message {
  return {
    messageId,
    topic,
    timestamp: 0n,
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload,
    retain: false,
    bridge: "",
    clientId: "",
    qos: 0,
    groupCopy: false,
    onlyFor: "",
  };
}
