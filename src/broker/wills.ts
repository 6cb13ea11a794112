import type { StoredWill } from "../storage/contract.ts";
import type { Context } from "./context.ts";
import type { Publisher } from "./publish.ts";
import { Reason, type Refusal } from "./reason.ts";
import type { Session } from "./session.ts";

/** Publishes Wills through the ordinary pipeline (D19.1) and says when one failed. */
export class Wills {
  constructor(private readonly context: Context, private readonly publisher: Publisher) {}

  /** Why a CONNECT with this Will is refused; undefined when it may be armed (D19.2). */
  refusal(will: StoredWill): Refusal | undefined {
    const route = this.publisher.destinations.routes.route(will.topic);
    if (route.kind === "refused") {
      const { reason } = route.refusal;
      return { code: Reason.TopicNameInvalid, reason: `the Will Topic is refused: ${reason}` };
    }
    if (route.kind === "control") {
      return { code: Reason.TopicNameInvalid, reason: "a Will is not published under $saguin/" };
    }
    return this.publisher.admit(request(will));
  }

  /** Publishes the session's Will, if it has one, and forgets it. Resolves once it is stored. */
  publish(session: Session): Promise<void> {
    const { will } = session;
    session.willTimer?.cancel();
    session.willTimer = undefined;
    if (will === undefined) return Promise.resolve();
    session.will = undefined;
    session.willDue = 0n;
    return new Promise((resolve) => {
      this.publisher.publish(request(will), session.clientId, {
        answered: (_token, refusal) => {
          if (refusal === undefined) this.context.counters.willsPublished++;
          else {
            this.context.log.warn("a Will could not be published", {
              client: session.clientId,
              topic: will.topic,
              reason: refusal.reason,
            });
          }
          resolve();
        },
      }, 0);
    });
  }

  /** The connection was replaced and the session goes on: delay 0 publishes, else it is dropped. */
  replaced(session: Session): void {
    if (session.will === undefined) return;
    if (session.will.delay === 0) void this.publish(session);
    else this.discard(session);
  }

  discard(session: Session): void {
    session.willTimer?.cancel();
    session.willTimer = undefined;
    session.will = undefined;
    session.willDue = 0n;
  }
}

function request(will: StoredWill) {
  return {
    topic: will.topic,
    payload: will.payload,
    qos: will.qos,
    retain: will.retain,
    properties: will.headers.length === 0
      ? will.properties
      : { ...will.properties, userProperties: will.headers },
  };
}
