import type { AccessControl } from "../auth/acl/access.ts";
import type { ClientRules } from "../auth/acl/client_rules.ts";
import { fromMilliseconds } from "../platform/clock.ts";
import type { StoredWill } from "../storage/contract.ts";
import type { Context } from "./context.ts";
import type { WillCause } from "./counters.ts";
import { deniedWill } from "./denials.ts";
import { mayPublish, type Publisher } from "./publish.ts";
import { Reason, type Refusal } from "./reason.ts";
import type { Session } from "./session.ts";

/**
 * Publishes Wills through the ordinary pipeline (D19.1) and says when one failed.
 *
 * ```
 * armed --connection ends, delay > 0--> waiting --due | session ends--> published
 *   |  '--connection ends, delay 0 | session ends--> published      '--resumed--> cancelled
 *   '--DISCONNECT 0x00 | taken over with a delay--> discarded
 * ```
 */
export class Wills {
  /** Sessions whose Will waits out its delay. */
  waiting = 0;

  constructor(
    private readonly context: Context,
    private readonly publisher: Publisher,
    private readonly access: AccessControl,
  ) {}

  /**
   * Why a CONNECT with this Will is refused; undefined when it may be armed (D19.2). `rules`: what an ACL
   * file lets the client do.
   */
  refusal(will: StoredWill, rules: ClientRules | undefined): Refusal | undefined {
    const route = this.publisher.destinations.routes.route(will.topic);
    const denied = rules && deniedWill(rules, will, route);
    if (denied !== undefined) return denied;
    if (route.kind === "refused") {
      const { reason } = route.refusal;
      return { code: Reason.TopicNameInvalid, reason: `the Will Topic is refused: ${reason}` };
    }
    if (route.kind === "control") {
      return { code: Reason.TopicNameInvalid, reason: "a Will is not published under $saguin/" };
    }
    if (rules !== undefined && !mayPublish(rules, will, route)) return NO_WILL_GRANT;
    return this.publisher.admit(request(will));
  }

  /** The connection ended and the session goes on: `due` runs when the delay is over. */
  wait(session: Session, delayMs: number, due: () => void): void {
    session.willDue = this.context.clock.wall() + fromMilliseconds(delayMs);
    session.willTimer = this.context.timers.after(delayMs, due);
    this.waiting++;
  }

  #stopWaiting(session: Session): void {
    if (session.willTimer === undefined) return;
    session.willTimer.cancel();
    session.willTimer = undefined;
    this.waiting--;
  }

  /**
   * Publishes the session's Will, if it has one, and forgets it. Resolves once it is stored or
   * refused; `session.willFiring` is the same promise meanwhile.
   */
  publish(session: Session, cause: WillCause): Promise<void> {
    const { will } = session;
    this.#stopWaiting(session);
    session.will = undefined;
    session.willDue = 0n;
    if (will === undefined) return session.willFiring ?? Promise.resolve();
    const firing = this.fire(session.clientId, will, cause).finally(() => {
      if (session.willFiring === firing) session.willFiring = undefined;
    });
    session.willFiring = firing;
    return firing;
  }

  /** Publishes a Will that no session holds, if its client may publish there still (02b 7.5.5). */
  fire(clientId: string, will: StoredWill, cause: WillCause): Promise<void> {
    const { access } = this;
    const rules = access.acl === undefined ? undefined : access.rules(will.user, clientId);
    return new Promise((resolve) => {
      this.publisher.publish(
        request(will),
        clientId,
        {
          answered: (_token, refusal) => {
            if (refusal === undefined) this.context.counters.willsPublished.add(cause);
            else {
              this.context.log.warn("a Will could not be published", {
                client: clientId,
                topic: will.topic,
                reason: refusal.reason,
              });
            }
            resolve();
          },
        },
        0,
        rules,
      );
    });
  }

  /**
   * The session is resumed. `takenOver`: from a connection, whose Will is published with delay 0 and
   * dropped with any other. A Will that waits is cancelled; one that was armed when the broker stopped
   * gives way to the new CONNECT's (D19.14).
   */
  resumed(session: Session, takenOver: boolean): void {
    if (session.will === undefined) return;
    if (takenOver && session.will.delay === 0) return void this.publish(session, "immediate");
    if (session.willTimer !== undefined) this.context.counters.willsCancelled++;
    this.discard(session);
  }

  discard(session: Session): void {
    this.#stopWaiting(session);
    session.will = undefined;
    session.willDue = 0n;
  }
}

const NO_WILL_GRANT: Refusal = {
  code: Reason.NotAuthorized,
  reason: "no grant to publish to the Will Topic",
};

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
