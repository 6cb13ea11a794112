import type { Limits } from "../config/configuration.ts";
import type { StoredSubscription } from "../storage/contract.ts";
import type { Headers, QoS } from "../storage/record.ts";
import { filterFault, isFault, levels, splitShared } from "../topics/filter.ts";
import { parseDeclaration, type Partitions } from "../topics/partition.ts";
import { unreadProperty } from "./delivery.ts";
import { Reason, type Refusal } from "./reason.ts";
import type { Routes } from "./routes.ts";
import type { Session } from "./session.ts";
import { sharedInner } from "./share/shares.ts";

export interface FilterRequest {
  readonly filter: string;
  readonly qos: QoS;
  readonly noLocal: boolean;
  readonly retainAsPublished: boolean;
  readonly retainHandling: 0 | 1 | 2;
}

/** User Properties of SUBSCRIBE that the broker reads (D3.14). */
const READ_PROPERTIES = ["saguin-filter", "saguin-deletions"];

export const QUEUE_FORM = "$saguin/queue/";
const SEEK_REPLY = /^\$saguin\/consumer\/[^/+#]+\/seek\/reply$/;

/** The SUBSCRIBE as a whole cannot be served: the connection ends (02a section 6). */
export class SubscribeProtocolError extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.reason);
  }
}

/** Which filters a client may hold (02a sections 2, 4, 5, 6), whatever it holds already. */
export class FilterAdmission {
  constructor(private readonly routes: Routes, private readonly limits: Limits) {}

  /** What the User Properties of the packet say for all of its filters (D3.11, D15.3). */
  packet(
    userProperties: Headers | undefined,
  ): Refusal | { readonly partitions: Partitions | undefined } {
    const unread = unreadProperty(userProperties, READ_PROPERTIES);
    if (unread !== undefined) {
      return {
        code: Reason.ImplementationSpecificError,
        reason: "a SUBSCRIBE carries a saguin- User Property that is not defined",
      };
    }
    const declared = (userProperties ?? []).filter(([name]) => name === "saguin-filter");
    if (declared.length === 0) return { partitions: undefined };
    const partitions = parseDeclaration(declared.map(([, value]) => value));
    if (isFault(partitions)) {
      return { code: Reason.ImplementationSpecificError, reason: partitions.fault };
    }
    return { partitions };
  }

  /** One filter: the QoS it is granted, or why not. @throws SubscribeProtocolError */
  filter(
    session: Session,
    asked: FilterRequest,
    partitions: Partitions | undefined,
  ): Refusal | { readonly qos: QoS } {
    const shared = splitShared(asked.filter);
    const decided = shared !== undefined
      ? this.#shared(session, asked, shared, partitions)
      : this.#plain(session, asked, partitions, false);
    if ("code" in decided || decided.qos < 2) return decided;
    return session.access?.rules.denies("qos2") ? { qos: 1 } : decided;
  }

  /** `inside`: the filter stands in a shared subscription, where queues are no matter (02a 5). */
  #plain(
    session: Session,
    asked: FilterRequest,
    partitions: Partitions | undefined,
    inside: boolean,
  ): Refusal | { readonly qos: QoS } {
    const { filter } = asked;
    const own = filter.startsWith("$saguin/");
    if (!own && levels(filter) > this.limits.maxTopicLevels) {
      return invalid(
        `the filter has more levels than limits.max_topic_levels (${this.limits.maxTopicLevels})`,
      );
    }
    const fault = filterFault(filter);
    if (fault !== undefined) {
      if (session.level === 4) throw new SubscribeProtocolError(invalid(fault));
      return invalid(fault);
    }
    if (!inside && (filter.startsWith(QUEUE_FORM) || filter === "$saguin/queue")) {
      return this.#queueForm(session, asked, partitions);
    }
    if (own || filter === "$saguin") {
      if (!inside && SEEK_REPLY.test(filter)) return { qos: asked.qos };
      return notAllowed("nothing is delivered under that topic of $saguin/");
    }
    if (filter === "$SYS" || filter.startsWith("$SYS/")) {
      return notAllowed("there is no $SYS tree");
    }
    const queue = inside ? undefined : this.routes.insideQueue(filter);
    if (queue !== undefined) {
      return invalid(
        `the filter lies inside queue ${queue.name}; its workers subscribe to ${QUEUE_FORM}${queue.name}`,
      );
    }
    return { qos: asked.qos };
  }

  #shared(
    session: Session,
    asked: FilterRequest,
    shared: NonNullable<ReturnType<typeof splitShared>>,
    partitions: Partitions | undefined,
  ): Refusal | { readonly qos: QoS } {
    if (session.level === 4) return invalid("a shared subscription is made with MQTT 5 only");
    if (session.access?.rules.denies("share")) {
      throw new SubscribeProtocolError({
        code: Reason.SharedSubscriptionsNotSupported,
        reason: "the roles of this client deny shared subscriptions",
      });
    }
    if (isFault(shared)) return invalid(shared.fault);
    if (asked.noLocal) {
      throw new SubscribeProtocolError({
        code: Reason.ProtocolError,
        reason: "No Local on a shared subscription (MQTT-3.8.3-4)",
      });
    }
    const inner = this.#plain(session, { ...asked, filter: shared.filter }, undefined, true);
    if ("code" in inner || partitions === undefined) return inner;
    return {
      code: Reason.ImplementationSpecificError,
      reason: "saguin-filter does not apply to a shared subscription: the broker picks the member",
    };
  }

  #queueForm(
    session: Session,
    asked: FilterRequest,
    partitions: Partitions | undefined,
  ): Refusal | { readonly qos: QoS } {
    const name = asked.filter.slice(QUEUE_FORM.length);
    const channel = this.routes.channel(name);
    if (channel === undefined || channel.kind !== "queue") {
      return invalid(`${QUEUE_FORM}<queue> names exactly one queue, and ${name} is none`);
    }
    if (session.level === 4) return invalid("a queue is consumed with MQTT 5 only");
    if (asked.noLocal) {
      return invalid(`take No Local off ${asked.filter}: a queue serves whoever is free`);
    }
    if (partitions !== undefined) {
      return {
        code: Reason.ImplementationSpecificError,
        reason: "saguin-filter does not apply to a queue: the broker picks the worker",
      };
    }
    if (asked.qos === 0) {
      return {
        code: Reason.ImplementationSpecificError,
        reason: "a queue is consumed at QoS 1",
      };
    }
    return { qos: 1 };
  }

  /**
   * Why a stored filter would be refused now, and its session ends at the start (D6.14); undefined when
   * it may stay. Counts of levels and of filters are not asked again (02a 13.6, 13.7).
   */
  refusalNow(session: Session, { filter, qos, noLocal }: StoredSubscription): Refusal | undefined {
    const inner = sharedInner(filter);
    if (inner !== undefined) return this.#reserved(inner);
    const queued = this.#reserved(filter);
    if (queued === undefined) {
      const queue = this.routes.insideQueue(filter);
      return queue === undefined
        ? undefined
        : invalid(`the filter lies inside queue ${queue.name}`);
    }
    if (SEEK_REPLY.test(filter)) return undefined;
    if (!filter.startsWith(QUEUE_FORM)) return queued;
    const asked = { filter, qos, noLocal, retainAsPublished: false, retainHandling: 0 as const };
    const decided = this.#queueForm(session, asked, undefined);
    return "code" in decided ? decided : undefined;
  }

  #reserved(filter: string): Refusal | undefined {
    const reserved = filter.startsWith("$saguin/") || filter.startsWith("$SYS/") ||
      filter === "$saguin" || filter === "$SYS";
    return reserved ? notAllowed("nothing is delivered under that topic") : undefined;
  }
}

export function isShared(filter: string): boolean {
  return filter.startsWith("$share/");
}

/** Matched against topics; the others are names. */
export function isPlain(filter: string): boolean {
  return !filter.startsWith("$saguin/") && !isShared(filter);
}

function invalid(reason: string): Refusal {
  return { code: Reason.TopicFilterInvalid, reason };
}

function notAllowed(reason: string): Refusal {
  return { code: Reason.NotAuthorized, reason };
}
