import { Reply } from "../reply.ts";
import type { Reader } from "./reader.ts";
import { skipTable } from "./table.ts";
import { decodeText } from "./text.ts";

/** What the broker itself looks at in the properties of a message; the rest is carried (A5). */
export interface PropertyNotes {
  /** delivery-mode 2. Absent or anything else is transient. */
  readonly persistent: boolean;
  readonly expiration: boolean;
  readonly directReply: boolean;
}

/** Flag bits of the class basic, from the highest down, with their domains (A4). */
const PROPERTIES = [
  "shortstr", // content-type
  "shortstr", // content-encoding
  "table", // headers
  "octet", // delivery-mode
  "octet", // priority
  "shortstr", // correlation-id
  "shortstr", // reply-to
  "shortstr", // expiration
  "shortstr", // message-id
  "timestamp",
  "shortstr", // type
  "shortstr", // user-id
  "shortstr", // app-id
  "shortstr", // cluster-id
] as const;

const DELIVERY_MODE = 3;
const REPLY_TO = 6;
const EXPIRATION = 7;

const PERSISTENT = 2;
/** RabbitMQ's pseudo queue of direct reply-to. */
export const DIRECT_REPLY = "amq.rabbitmq.reply-to";

/** The most frequent notes, made once. */
const TRANSIENT: PropertyNotes = { persistent: false, expiration: false, directReply: false };
const LASTING: PropertyNotes = { persistent: true, expiration: false, directReply: false };

/**
 * Walks the flags word and the property list that `reader` stands at, to its end, and says what the
 * broker has to know of them. @throws WireFault 502
 */
export function readProperties(reader: Reader): PropertyNotes {
  reader.code = Reply.SyntaxError;
  const flags = reader.short();
  if ((flags & 1) !== 0) reader.fail("the property flags have a second word");
  let persistent = false;
  let directReply = false;
  for (let i = 0; i < PROPERTIES.length; i++) {
    if ((flags >> 15 - i & 1) === 0) continue;
    switch (PROPERTIES[i]) {
      case "shortstr": {
        const length = reader.octet();
        const start = reader.skip(length);
        if (i === REPLY_TO) {
          const text = decodeText(reader.bytes, start, reader.at);
          directReply = text !== undefined && text.startsWith(DIRECT_REPLY);
        }
        break;
      }
      case "octet": {
        const value = reader.octet();
        if (i === DELIVERY_MODE) persistent = value === PERSISTENT;
        break;
      }
      case "timestamp":
        reader.skip(8);
        break;
      case "table":
        skipTable(reader);
        break;
    }
  }
  if (reader.at !== reader.end) reader.fail("the property list is longer than its flags say");
  const expiration = (flags >> 15 - EXPIRATION & 1) === 1;
  if (!expiration && !directReply) return persistent ? LASTING : TRANSIENT;
  return { persistent, expiration, directReply };
}
