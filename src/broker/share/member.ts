import type { StoredSubscription } from "../../storage/contract.ts";
import type { Message, QoS } from "../../storage/record.ts";
import type { Delivery } from "../link.ts";
import type { Session, Source } from "../session.ts";
import type { WindowEntry } from "../window.ts";
import type { ShareGroup } from "./group.ts";

/**
 * One session in one shared group: what its subscription asks, and the window source of what it is
 * handed from memory. What outlives the broker is handed through the session's log window instead.
 */
export class Member implements Source {
  subscription: StoredSubscription;

  constructor(
    private readonly group: ShareGroup,
    readonly session: Session,
    subscription: StoredSubscription,
  ) {
    this.subscription = subscription;
  }

  get qos(): QoS {
    return this.subscription.qos;
  }

  /** Its deliveries are stored with its session (D9.11). */
  get kept(): boolean {
    return this.session.durable && this.session.stored && this.session.log !== undefined;
  }

  /** Connected, the socket keeps up, and its session is not being replaced. */
  get ready(): boolean {
    const { session } = this;
    return session.link !== undefined && !session.ended && !session.frozen && session.canSend();
  }

  /** What a delivery of the group carries of this member's subscription. */
  get identifiers(): readonly number[] {
    const { identifier } = this.subscription;
    return identifier === undefined ? [] : [identifier];
  }

  mayReceive({ topic }: Message): boolean {
    const { access } = this.session;
    return access === undefined || access.mayReceive(topic);
  }

  /** Whether the delivery fits the client's Maximum Packet Size. */
  takes(delivery: Delivery): boolean {
    const { link } = this.session;
    return link !== undefined && link.takes(delivery);
  }

  pump(): void {
    this.group.pump();
  }

  acknowledged(entry: WindowEntry): void {
    this.group.finishedInMemory(entry.offset);
  }

  received(_entry: WindowEntry, proceed: () => void): void {
    proceed();
  }

  resend(_entry: WindowEntry): boolean {
    return true;
  }

  /** No longer chosen, and no longer told of room; what it was handed is looked at next. */
  leave(): void {
    this.group.leave(this.session);
  }

  /** Its session ended with these unacknowledged (D9.12). */
  ended(entries: readonly WindowEntry[]): void {
    this.group.endedInMemory(entries);
  }
}
