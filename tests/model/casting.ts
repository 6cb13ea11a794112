/** What the broadcast log and shared groups promise (invariant 18): owed is delivered, taken is not again. */
import {
  at,
  Broken,
  channelOf,
  type Facts,
  type Group,
  matches,
  type Owed,
  type Publish,
  type SessionFacts,
  sharedFilter,
} from "./facts.ts";
import { settle } from "./reading.ts";
import { EXPIRY_SLACK_MS } from "./world.ts";

export class Casting {
  constructor(private readonly slackMs: number) {}

  /** A publish is stored: whom it is owed to. */
  stored(facts: Facts, publish: Publish, channel: string | undefined): void {
    // An empty payload names no publish.
    if (publish.qos === 0 || publish.empty) return;
    for (const session of facts.sessions.values()) {
      if (session.expiry === 0 || session.unsure) continue;
      if (channel === undefined && holds(session, publish)) {
        at(session.owed, publish.mark, (): Owed => ({ state: "owed", ack: undefined }));
      }
      for (const [filter, { sure, since }] of session.subscriptions) {
        const inner = sharedFilter(filter);
        if (inner === undefined || !sure || since > publish.askedAt) continue;
        if (matches(inner, publish.topic)) this.#group(facts, filter).owed.add(publish.mark);
      }
    }
  }

  #group(facts: Facts, filter: string): Group {
    return at(facts.groups, filter, () => ({ filter, given: new Map(), owed: new Set() }));
  }

  delivered(session: SessionFacts, publish: Publish, qos: number, onWire: boolean): void {
    if (qos === 0) return;
    const what = `${publish.mark} for ${session.client}`;
    const owed = at(session.owed, publish.mark, (): Owed => ({ state: "owed", ack: undefined }));
    if (onWire) throw new Broken("D4.6", `${what} came twice on one connection`);
    if (owed.state === "released") {
      throw new Broken("18", `${what} was published again after its PUBREL`);
    }
    const { ack } = owed;
    if (ack?.state === "sure" || ack?.state === "stored") {
      throw new Broken("18", `${what} comes again after its acknowledgement was ${ack.state}`);
    }
    owed.state = "wire";
    owed.ack = undefined;
  }

  acknowledging(session: SessionFacts, mark: string, now: number): void {
    const owed = session.owed.get(mark);
    if (owed === undefined || owed.state === "acked") return;
    const released = owed.state === "released";
    owed.state = "acked";
    // A QoS 2 delivery past its PUBREL is over, whatever becomes of its PUBCOMP.
    owed.ack = { state: released ? "stored" : "sent", at: now };
  }

  /** PUBREL came: the PUBREC is stored, and the message must not come again (D8.10). */
  released(session: SessionFacts, mark: string): void {
    const owed = session.owed.get(mark);
    if (owed !== undefined) owed.state = "released";
  }

  // ----------------------------------------------------------------------------------- groups

  shared(facts: Facts, session: SessionFacts, filter: string, mark: string, now: number): void {
    const group = this.#group(facts, filter);
    const before = group.given.get(mark);
    const what = `${mark} of ${filter}`;
    if (before !== undefined) {
      const { acked, client, free } = before;
      if (acked?.state === "sure" || acked?.state === "stored") {
        throw new Broken(
          "18",
          `${what} is given to ${session.client} after ${client} acknowledged it`,
        );
      }
      const holder = facts.sessions.get(client);
      if (client !== session.client && !free && !(holder !== undefined && mayBeOver(holder, now))) {
        throw new Broken("D9.1", `${what} is given to ${session.client} while ${client} has it`);
      }
    }
    group.given.set(mark, { client: session.client, acked: undefined, free: false });
  }

  acknowledgingShared(
    facts: Facts,
    session: SessionFacts,
    filter: string,
    mark: string,
    now: number,
  ) {
    const given = facts.groups.get(filter)?.given.get(mark);
    if (given?.client === session.client) given.acked = { state: "sent", at: now };
  }

  /** A DISCONNECT goes that ends the session: what it has is others' before the close is heard of. */
  leaving(facts: Facts, client: string): void {
    for (const { given } of facts.groups.values()) {
      for (const each of given.values()) if (each.client === client) each.free = true;
    }
  }

  /**
   * A member is a member no more: what it has goes back, and what nobody durable waits for is gone.
   * `unseen`: its session may have ended long ago, before others joined the group.
   */
  left(facts: Facts, client: string, filter: string | undefined, unseen = false): void {
    for (const group of facts.groups.values()) {
      if (filter !== undefined && group.filter !== filter) continue;
      for (const [mark, given] of group.given) {
        if (given.client !== client) continue;
        if (filter === undefined && given.acked === undefined) group.given.delete(mark);
        else given.free = true;
      }
      this.#withoutMember(facts, group, client, unseen);
    }
  }

  /** Whether the session is there, nobody knows: nor whether what waits for it does. */
  doubted(facts: Facts, client: string): void {
    for (const group of facts.groups.values()) this.#withoutMember(facts, group, client, true);
  }

  /** What waits goes on waiting only where others that are there for certain have the filter. */
  #withoutMember(facts: Facts, group: Group, client: string, unseen: boolean): void {
    const others = [...facts.sessions.values()].filter((session) =>
      session.client !== client && session.expiry > 0 && !session.unsure &&
      session.connection !== undefined && session.subscriptions.get(group.filter)?.sure === true
    );
    for (const mark of group.owed) {
      const { askedAt } = facts.publishes.get(mark)!;
      const waits = others.some((session) =>
        !unseen || session.subscriptions.get(group.filter)!.since <= askedAt
      );
      if (!waits) group.owed.delete(mark);
    }
  }

  // --------------------------------------------------------------------------------- accidents

  settled(facts: Facts, session: SessionFacts, now: number): void {
    if (session.connection === undefined) return;
    for (const { ack } of session.owed.values()) {
      if (ack !== undefined) settle(ack, now - this.slackMs, now);
    }
    for (const { given } of facts.groups.values()) {
      for (const { client, acked } of given.values()) {
        if (client === session.client && acked !== undefined) {
          settle(acked, now - this.slackMs, now);
        }
      }
    }
  }

  /** As the close answers a clean DISCONNECT. */
  cleanlyLeft(facts: Facts, session: SessionFacts): void {
    for (const { ack } of session.owed.values()) {
      if (ack !== undefined && ack.state !== "maybe") ack.state = "stored";
    }
    for (const { given } of facts.groups.values()) {
      for (const { client, acked } of given.values()) {
        // The group's cursor may wait for what other members were handed.
        if (client === session.client && acked?.state === "sent") acked.state = "sure";
      }
    }
  }

  connectionGone(facts: Facts, session: SessionFacts): void {
    for (const { ack } of session.owed.values()) if (ack?.state === "sent") ack.state = "maybe";
    for (const { given } of facts.groups.values()) {
      for (const { client, acked } of given.values()) {
        if (client === session.client && acked?.state === "sent") acked.state = "maybe";
      }
    }
  }

  stopped(facts: Facts, graceful: boolean): void {
    const kept = (ack: Owed["ack"]) =>
      ack?.state === "stored" || (graceful && ack?.state === "sure");
    const after = (ack: Owed["ack"], inOrder: boolean) => {
      if (ack !== undefined) ack.state = kept(ack) && inOrder ? "stored" : "maybe";
    };
    let blank = Infinity;
    for (const { empty, topic, askedAt } of facts.publishes.values()) {
      if (empty && channelOf(topic) === undefined) blank = Math.min(blank, askedAt);
    }
    for (const session of facts.sessions.values()) {
      const { owed } = session;
      // A cursor is one offset: what was acknowledged above something that was not, may come again.
      let earliest = session.blank ? blank : Infinity;
      for (const [mark, { state, ack }] of owed) {
        if (state !== "acked" || !kept(ack)) {
          earliest = Math.min(earliest, facts.publishes.get(mark)!.askedAt);
        }
      }
      for (const [mark, { ack }] of owed) {
        after(ack, facts.publishes.get(mark)!.storedAt < earliest);
      }
    }
    for (const { given } of facts.groups.values()) {
      for (const each of given.values()) {
        after(each.acked, true);
        each.free = true;
      }
    }
  }

  finish(facts: Facts, session: SessionFacts): void {
    for (const [mark, { state }] of session.owed) {
      const publish = facts.publishes.get(mark)!;
      if (state !== "owed" || publish.fate !== "stored" || !holds(session, publish)) continue;
      throw new Broken(
        session.disturbed && !session.restarted ? "17" : "18",
        `${session.client} was owed ${mark} and never got it`,
      );
    }
  }

  finishGroups(facts: Facts): void {
    for (const { filter, owed, given } of facts.groups.values()) {
      for (const mark of owed) {
        if (given.has(mark)) continue;
        throw new Broken("18", `${filter} was owed ${mark} and nobody got it`);
      }
    }
  }
}

/** A plain subscription at QoS 1 or 2 that was there when the publish was asked for. */
function holds(session: SessionFacts, publish: Publish): boolean {
  for (const { filter, sure, since, qos } of session.subscriptions.values()) {
    if (!sure || qos === 0 || since > publish.askedAt) continue;
    if (matches(filter, publish.topic)) return true;
  }
  return false;
}

/** It is away, and its expiry may have passed: nobody hears of that before its client is back. */
function mayBeOver({ connection, awayAt, expiryAtLeast }: SessionFacts, now: number): boolean {
  return connection === undefined && now - awayAt > expiryAtLeast * 1_000 - EXPIRY_SLACK_MS;
}
