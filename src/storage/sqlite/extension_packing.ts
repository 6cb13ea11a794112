import type { ExtensionRow } from "../contract.ts";
import { type Message, NO_HEADERS, NO_PROPERTIES } from "../record.ts";
import { RowKind } from "./messages.ts";
import { type Pack, Packer } from "./packing.ts";

const NO_BYTES = new Uint8Array(0);

/**
 * Puts a row of a table outside the eleven into a pack. Of an AMQP row the queue is the tag, the length
 * of the properties the extra number, the position the second time, exchange and key are id and topic;
 * of an ingest row the table is the tag.
 *
 * @param first `FIRST_OF_ENTRY`, or 0
 */
export function packExtensionRow(packer: Packer, row: ExtensionRow, first: number): void {
  switch (row.kind) {
    case "amqp-drop":
      packer.add(carrier("", "", NO_BYTES), RowKind.AmqpDrop | first, row.queue, 0, 0, seqOf(row));
      break;
    case "amqp-copy": {
      const message = carrier(row.exchange, row.routingKey, row.content);
      packer.add(message, RowKind.AmqpCopy | first, row.queue, row.propertyBytes, 0, seqOf(row));
      break;
    }
    case "ingest": {
      const { messageId, topic, payload, timestamp } = row.message;
      const message = carrier(messageId, topic, payload, timestamp);
      packer.add(message, RowKind.Ingest | first, row.table, 0, 0, 0n);
    }
  }
}

/** Rows that go with another write; undefined for none. */
export function packExtensionRows(rows: readonly ExtensionRow[]): Pack | undefined {
  if (rows.length === 0) return undefined;
  const packer = new Packer();
  for (const row of rows) packExtensionRow(packer, row, 0);
  return packer.finish();
}

function seqOf({ seq }: { readonly seq: number }): bigint {
  return BigInt(seq);
}

function carrier(
  messageId: string,
  topic: string,
  payload: Uint8Array,
  timestamp = 0n,
): Message {
  return {
    messageId,
    topic,
    timestamp,
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
