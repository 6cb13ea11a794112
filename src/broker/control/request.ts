import type { Channel as ChannelConfiguration } from "../../config/configuration.ts";
import { type Headers, type Message, NO_HEADERS, NO_PROPERTIES } from "../../storage/record.ts";
import type { Context } from "../context.ts";
import type { ClientLink } from "../link.ts";
import type { PublishRequest } from "../publish.ts";
import { Reason, type Refusal } from "../reason.ts";
import type { Channel, Routes } from "../routes.ts";
import type { Session } from "../session.ts";

/** One request as it arrived: who asks, on which connection, and what. */
export interface ControlRequest {
  readonly session: Session;
  /** The connection that is answered, whoever owns the session by then. */
  readonly link: ClientLink;
  readonly publish: PublishRequest;
}

export type Verb = "write" | "read" | "seek" | "delete" | "consume";

/** Everything that can be done on a channel of each type, in the order the catalogue lists it. */
export const VERBS: Readonly<Record<Channel["kind"], readonly Verb[]>> = {
  append: ["write", "read", "seek"],
  latest: ["write", "read", "delete"],
  queue: ["write", "consume"],
};

/** What a session may do on a channel now. */
export type Verbs = (session: Session, channel: Channel) => readonly Verb[];

/** What the verbs work with. */
export interface ControlParts {
  readonly context: Context;
  readonly routes: Routes;
  /** As configured, derived dead-letter channels included. */
  readonly channels: ReadonlyMap<string, ChannelConfiguration>;
  hangUp(clientId: string): boolean;
  readonly verbs: Verbs;
  mayHangUp(session: Session): boolean;
}

export const EMPTY = new Uint8Array(0);

const ENCODER = new TextEncoder();
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function utf8(text: string): Uint8Array {
  return ENCODER.encode(text);
}

/** The text of a payload; undefined when it is not UTF-8. */
export function payloadText(payload: Uint8Array): string | undefined {
  try {
    return UTF8.decode(payload);
  } catch {
    return undefined;
  }
}

/** The Response Topic, or why a request that cannot do without one is refused. */
export function responseTopic({ link, publish }: ControlRequest): string | Refusal {
  const { responseTopic } = publish.properties;
  if (responseTopic !== undefined && responseTopic !== "") return responseTopic;
  return refusal(
    link.level === 4
      ? "the request needs a Response Topic, which MQTT 3.1.1 does not have; connect with MQTT 5"
      : "the request needs a Response Topic",
  );
}

/** The caller's Correlation Data, safe to keep past the turn: it may be a view of a read buffer. */
export function correlationData({ publish }: ControlRequest): Uint8Array | undefined {
  return publish.properties.correlationData?.slice();
}

export interface Reply {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly correlationData: Uint8Array | undefined;
  /** User Properties of the broker. */
  readonly labels?: Headers;
}

/**
 * Writes a reply straight to the asking connection, at QoS 0: it is nobody else's and never kept (06
 * section 2). False: it is larger than the client takes.
 */
export function reply({ link }: ControlRequest, reply: Reply): boolean {
  const { topic, payload, correlationData, labels } = reply;
  const message: Message = {
    messageId: "",
    topic,
    timestamp: 0n,
    headers: NO_HEADERS,
    properties: correlationData === undefined ? NO_PROPERTIES : { correlationData },
    payload,
    retain: false,
    bridge: "",
    clientId: "",
    qos: 0,
    groupCopy: false,
    onlyFor: "",
  };
  return link.deliver(
    {
      message,
      qos: 0,
      retain: false,
      identifiers: [],
      labels: labels ?? NO_HEADERS,
      expiry: undefined,
    },
    0,
    false,
  );
}

/** Writes a reply, or says that the client takes nothing so large. */
export function answer(request: ControlRequest, content: Reply): Refusal | undefined {
  return reply(request, content)
    ? undefined
    : refusal("the reply is larger than the Maximum Packet Size of this client");
}

/** A request that was understood and cannot be met as it is. */
export function refusal(reason: string): Refusal {
  return { code: Reason.ImplementationSpecificError, reason };
}

export function notAllowed(verb: string, channel: string): Refusal {
  return { code: Reason.NotAuthorized, reason: `no ${verb} grant on channel ${channel}` };
}
