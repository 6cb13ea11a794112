import { Reply } from "../reply.ts";
import { WireFault } from "./fault.ts";
import type { Reader } from "./reader.ts";
import { type FieldTable, readTable } from "./table.ts";

/** The argument domains of the standard (4.2.5) and what they are here. */
export interface Domains {
  octet: number;
  short: number;
  long: number;
  /** A Number, exact up to 2^53: delivery tags. */
  longlong: number;
  shortstr: string;
  longstr: Uint8Array;
  table: FieldTable;
  /** Bits that follow each other share octets, the first in the lowest place (A1). */
  bit: boolean;
}

export type Domain = keyof Domains;

interface Definition {
  readonly id: readonly [classId: number, methodId: number];
  /** Who sends it. */
  readonly from: "client" | "server" | "both";
  /** In the order of the wire. Names that begin with `reserved` are written as zero and not read. */
  readonly arguments: Readonly<Record<string, Domain>>;
}

const TICKET = { reservedTicket: "short" } as const;
const CLOSE = { replyCode: "short", replyText: "shortstr", classId: "short", methodId: "short" };
const NOTHING = {} as const;

/**
 * Every method of AMQP 0-9-1 with RabbitMQ's additions, what is refused by name included. All of
 * decoding and encoding follows from here.
 */
const DEFINITIONS = {
  "connection.start": {
    id: [10, 10],
    from: "server",
    arguments: {
      versionMajor: "octet",
      versionMinor: "octet",
      serverProperties: "table",
      mechanisms: "longstr",
      locales: "longstr",
    },
  },
  "connection.start-ok": {
    id: [10, 11],
    from: "client",
    arguments: {
      clientProperties: "table",
      mechanism: "shortstr",
      response: "longstr",
      locale: "shortstr",
    },
  },
  "connection.secure": { id: [10, 20], from: "server", arguments: { challenge: "longstr" } },
  "connection.secure-ok": { id: [10, 21], from: "client", arguments: { response: "longstr" } },
  "connection.tune": {
    id: [10, 30],
    from: "server",
    arguments: { channelMax: "short", frameMax: "long", heartbeat: "short" },
  },
  "connection.tune-ok": {
    id: [10, 31],
    from: "client",
    arguments: { channelMax: "short", frameMax: "long", heartbeat: "short" },
  },
  "connection.open": {
    id: [10, 40],
    from: "client",
    arguments: { virtualHost: "shortstr", reservedText: "shortstr", reservedBit: "bit" },
  },
  "connection.open-ok": { id: [10, 41], from: "server", arguments: { reservedText: "shortstr" } },
  "connection.close": { id: [10, 50], from: "both", arguments: CLOSE as CloseArguments },
  "connection.close-ok": { id: [10, 51], from: "both", arguments: NOTHING },
  "connection.blocked": { id: [10, 60], from: "server", arguments: { reason: "shortstr" } },
  "connection.unblocked": { id: [10, 61], from: "server", arguments: NOTHING },
  "connection.update-secret": {
    id: [10, 70],
    from: "client",
    arguments: { newSecret: "longstr", reason: "shortstr" },
  },
  "connection.update-secret-ok": { id: [10, 71], from: "server", arguments: NOTHING },

  "channel.open": { id: [20, 10], from: "client", arguments: { reservedText: "shortstr" } },
  "channel.open-ok": { id: [20, 11], from: "server", arguments: { reservedText: "longstr" } },
  "channel.flow": { id: [20, 20], from: "both", arguments: { active: "bit" } },
  "channel.flow-ok": { id: [20, 21], from: "both", arguments: { active: "bit" } },
  "channel.close": { id: [20, 40], from: "both", arguments: CLOSE as CloseArguments },
  "channel.close-ok": { id: [20, 41], from: "both", arguments: NOTHING },

  "exchange.declare": {
    id: [40, 10],
    from: "client",
    arguments: {
      ...TICKET,
      exchange: "shortstr",
      type: "shortstr",
      passive: "bit",
      durable: "bit",
      autoDelete: "bit",
      internal: "bit",
      noWait: "bit",
      arguments: "table",
    },
  },
  "exchange.declare-ok": { id: [40, 11], from: "server", arguments: NOTHING },
  "exchange.delete": {
    id: [40, 20],
    from: "client",
    arguments: { ...TICKET, exchange: "shortstr", ifUnused: "bit", noWait: "bit" },
  },
  "exchange.delete-ok": { id: [40, 21], from: "server", arguments: NOTHING },
  "exchange.bind": {
    id: [40, 30],
    from: "client",
    arguments: {
      ...TICKET,
      destination: "shortstr",
      source: "shortstr",
      routingKey: "shortstr",
      noWait: "bit",
      arguments: "table",
    },
  },
  "exchange.bind-ok": { id: [40, 31], from: "server", arguments: NOTHING },
  "exchange.unbind": {
    id: [40, 40],
    from: "client",
    arguments: {
      ...TICKET,
      destination: "shortstr",
      source: "shortstr",
      routingKey: "shortstr",
      noWait: "bit",
      arguments: "table",
    },
  },
  "exchange.unbind-ok": { id: [40, 51], from: "server", arguments: NOTHING },

  "queue.declare": {
    id: [50, 10],
    from: "client",
    arguments: {
      ...TICKET,
      queue: "shortstr",
      passive: "bit",
      durable: "bit",
      exclusive: "bit",
      autoDelete: "bit",
      noWait: "bit",
      arguments: "table",
    },
  },
  "queue.declare-ok": {
    id: [50, 11],
    from: "server",
    arguments: { queue: "shortstr", messageCount: "long", consumerCount: "long" },
  },
  "queue.bind": {
    id: [50, 20],
    from: "client",
    arguments: {
      ...TICKET,
      queue: "shortstr",
      exchange: "shortstr",
      routingKey: "shortstr",
      noWait: "bit",
      arguments: "table",
    },
  },
  "queue.bind-ok": { id: [50, 21], from: "server", arguments: NOTHING },
  "queue.purge": {
    id: [50, 30],
    from: "client",
    arguments: { ...TICKET, queue: "shortstr", noWait: "bit" },
  },
  "queue.purge-ok": { id: [50, 31], from: "server", arguments: { messageCount: "long" } },
  "queue.delete": {
    id: [50, 40],
    from: "client",
    arguments: { ...TICKET, queue: "shortstr", ifUnused: "bit", ifEmpty: "bit", noWait: "bit" },
  },
  "queue.delete-ok": { id: [50, 41], from: "server", arguments: { messageCount: "long" } },
  "queue.unbind": {
    id: [50, 50],
    from: "client",
    arguments: {
      ...TICKET,
      queue: "shortstr",
      exchange: "shortstr",
      routingKey: "shortstr",
      arguments: "table",
    },
  },
  "queue.unbind-ok": { id: [50, 51], from: "server", arguments: NOTHING },

  "basic.qos": {
    id: [60, 10],
    from: "client",
    arguments: { prefetchSize: "long", prefetchCount: "short", global: "bit" },
  },
  "basic.qos-ok": { id: [60, 11], from: "server", arguments: NOTHING },
  "basic.consume": {
    id: [60, 20],
    from: "client",
    arguments: {
      ...TICKET,
      queue: "shortstr",
      consumerTag: "shortstr",
      noLocal: "bit",
      noAck: "bit",
      exclusive: "bit",
      noWait: "bit",
      arguments: "table",
    },
  },
  "basic.consume-ok": { id: [60, 21], from: "server", arguments: { consumerTag: "shortstr" } },
  "basic.cancel": {
    id: [60, 30],
    from: "both",
    arguments: { consumerTag: "shortstr", noWait: "bit" },
  },
  "basic.cancel-ok": { id: [60, 31], from: "both", arguments: { consumerTag: "shortstr" } },
  "basic.publish": {
    id: [60, 40],
    from: "client",
    arguments: {
      ...TICKET,
      exchange: "shortstr",
      routingKey: "shortstr",
      mandatory: "bit",
      immediate: "bit",
    },
  },
  "basic.return": {
    id: [60, 50],
    from: "server",
    arguments: {
      replyCode: "short",
      replyText: "shortstr",
      exchange: "shortstr",
      routingKey: "shortstr",
    },
  },
  "basic.deliver": {
    id: [60, 60],
    from: "server",
    arguments: {
      consumerTag: "shortstr",
      deliveryTag: "longlong",
      redelivered: "bit",
      exchange: "shortstr",
      routingKey: "shortstr",
    },
  },
  "basic.get": {
    id: [60, 70],
    from: "client",
    arguments: { ...TICKET, queue: "shortstr", noAck: "bit" },
  },
  "basic.get-ok": {
    id: [60, 71],
    from: "server",
    arguments: {
      deliveryTag: "longlong",
      redelivered: "bit",
      exchange: "shortstr",
      routingKey: "shortstr",
      messageCount: "long",
    },
  },
  "basic.get-empty": { id: [60, 72], from: "server", arguments: { reservedText: "shortstr" } },
  "basic.ack": {
    id: [60, 80],
    from: "both",
    arguments: { deliveryTag: "longlong", multiple: "bit" },
  },
  "basic.reject": {
    id: [60, 90],
    from: "client",
    arguments: { deliveryTag: "longlong", requeue: "bit" },
  },
  "basic.recover-async": { id: [60, 100], from: "client", arguments: { requeue: "bit" } },
  "basic.recover": { id: [60, 110], from: "client", arguments: { requeue: "bit" } },
  "basic.recover-ok": { id: [60, 111], from: "server", arguments: NOTHING },
  "basic.nack": {
    id: [60, 120],
    from: "both",
    arguments: { deliveryTag: "longlong", multiple: "bit", requeue: "bit" },
  },

  "confirm.select": { id: [85, 10], from: "client", arguments: { noWait: "bit" } },
  "confirm.select-ok": { id: [85, 11], from: "server", arguments: NOTHING },

  "tx.select": { id: [90, 10], from: "client", arguments: NOTHING },
  "tx.select-ok": { id: [90, 11], from: "server", arguments: NOTHING },
  "tx.commit": { id: [90, 20], from: "client", arguments: NOTHING },
  "tx.commit-ok": { id: [90, 21], from: "server", arguments: NOTHING },
  "tx.rollback": { id: [90, 30], from: "client", arguments: NOTHING },
  "tx.rollback-ok": { id: [90, 31], from: "server", arguments: NOTHING },
} as const satisfies Readonly<Record<string, Definition>>;

type CloseArguments = {
  readonly replyCode: "short";
  readonly replyText: "shortstr";
  readonly classId: "short";
  readonly methodId: "short";
};

type Definitions = typeof DEFINITIONS;
export type MethodName = keyof Definitions;

/** The arguments of a method, without the reserved ones. */
export type Arguments<N extends MethodName> = {
  -readonly [
    A in keyof Definitions[N]["arguments"] as A extends `reserved${string}` ? never : A
  ]: Definitions[N]["arguments"][A] extends Domain ? Domains[Definitions[N]["arguments"][A]]
    : never;
};

/** A method with its arguments, told apart by `method`. */
export type Method = {
  [N in MethodName]: { readonly method: N } & Readonly<Arguments<N>>;
}[MethodName];

export type MethodOf<N extends MethodName> = Extract<Method, { readonly method: N }>;

export interface Argument {
  readonly name: string;
  readonly domain: Domain;
  readonly reserved: boolean;
  /** Of a bit: its place in the octet it shares; 0 takes a new one. */
  readonly bit: number;
}

export interface MethodForm {
  readonly name: MethodName;
  readonly classId: number;
  readonly methodId: number;
  readonly from: "client" | "server" | "both";
  readonly arguments: readonly Argument[];
}

export const METHODS = new Map<MethodName, MethodForm>();
const BY_ID = new Map<number, MethodForm>();

for (const [name, definition] of Object.entries<Definition>(DEFINITIONS)) {
  const [classId, methodId] = definition.id;
  const args: Argument[] = [];
  let bit = 0;
  for (const [argument, domain] of Object.entries(definition.arguments)) {
    if (domain !== "bit") bit = 0;
    const reserved = argument.startsWith("reserved");
    args.push({ name: argument, domain, reserved, bit });
    if (domain === "bit") bit = (bit + 1) & 7;
  }
  const form: MethodForm = {
    name: name as MethodName,
    classId,
    methodId,
    from: definition.from,
    arguments: args,
  };
  METHODS.set(form.name, form);
  BY_ID.set(classId << 16 | methodId, form);
}

/** The form of a method by name. */
export function formOf(name: MethodName): MethodForm {
  return METHODS.get(name)!;
}

/**
 * Decodes the method frame that `reader` stands at.
 * @throws WireFault 503 for a method that the standard does not know, 501 or 502 for its arguments
 */
export function readMethod(reader: Reader): Method {
  const classId = reader.short();
  const methodId = reader.short();
  const form = BY_ID.get(classId << 16 | methodId);
  if (form === undefined) {
    throw new WireFault(Reply.CommandInvalid, `there is no method ${classId}.${methodId}`);
  }
  const method: Record<string, unknown> = { method: form.name };
  let bits = 0;
  for (const argument of form.arguments) {
    let value: unknown;
    switch (argument.domain) {
      case "bit":
        if (argument.bit === 0) bits = reader.octet();
        value = (bits >> argument.bit & 1) === 1;
        break;
      case "octet":
        value = reader.octet();
        break;
      case "short":
        value = reader.short();
        break;
      case "long":
        value = reader.long();
        break;
      case "longlong":
        value = reader.longlong();
        break;
      case "shortstr":
        if (argument.reserved) reader.skipShortstr();
        else value = reader.shortstr();
        break;
      case "longstr":
        value = reader.longstr();
        break;
      case "table":
        value = readTable(reader);
        break;
    }
    if (!argument.reserved) method[argument.name] = value;
  }
  if (reader.at !== reader.end) reader.fail(`${form.name} is longer than its arguments`);
  return method as unknown as Method;
}
