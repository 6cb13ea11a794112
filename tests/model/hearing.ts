/** What clients get, taken apart and told to the model. */
import type { ServerPacket } from "../support/mqtt_bytes.ts";
import { hex } from "./bytes.ts";
import {
  at,
  Broken,
  channelOf,
  isAppend,
  isQueue,
  matches,
  type SessionFacts,
  sharedFilter,
} from "./facts.ts";
import { Model } from "./model.ts";
import type { Outstanding, Peer, Received } from "./peer.ts";
import { SHARED_IDENTIFIER } from "./schedule.ts";

/** A dead letter that somebody was shown. */
export interface Letter {
  readonly topic: string;
  readonly id: string;
}

/** Nothing of these is in flight after a start (D11.22). */
const OF_CHANNELS: ReadonlySet<Outstanding["kind"]> = new Set(["append", "latest", "offer"]);

const utf8 = new TextDecoder("utf-8", { fatal: true });

function property(packet: Received, name: string): string | undefined {
  return packet.properties.userProperties?.find(([each]) => each === name)?.[1];
}

function numberOf(packet: Received, name: string): number {
  const text = property(packet, name);
  const value = Number(text);
  if (!Number.isInteger(value)) {
    throw new Broken("D4.1", `${packet.topic} came with ${name} ${text}`);
  }
  return value;
}

export class Hearing {
  readonly letters: Letter[] = [];
  /** By channel: the offsets that the observer of this life was shown. */
  observed = new Map<string, Set<number>>();
  /** QoS 2 deliveries past their PUBREC, by client, from connections that are gone. */
  readonly #halfDone = new Map<string, Map<number, Outstanding>>();

  /** What was last sent under a packet identifier, by client. */
  readonly #sent = new Map<string, Map<number, Outstanding["kind"]>>();

  constructor(private readonly model: Model, private readonly now: () => number) {}

  /** A delivery to a client of the schedule. */
  delivered(peer: Peer, packet: Received): void {
    const { model } = this;
    const session = model.session(peer.client);
    if (session?.connection !== peer.number) {
      throw new Broken("17", `${packet.topic} came to a connection that ${peer.client} lost`);
    }
    const mark = utf8.decode(packet.payload);
    const { topic, qos, packetId } = packet;
    const kind = this.#kind(peer.client, packet);
    const channel = channelOf(topic) ?? "";
    // A group's copy of a record comes from the log, and names no offset (D9.5).
    // Nor does a deletion that found no value and was not stored (D13.4).
    // Nor does what was sent to a 3.1.1 client before, and now again.
    const told = peer.level === 5 && channel !== "" && kind !== "shared" && !unstored(packet) &&
      !(packet.dup && property(packet, "saguin-offset") === undefined);
    const offset = told
      ? numberOf(packet, "saguin-offset")
      : kind === "shared" || mark === ""
      ? 0
      : model.records.offsetOf(model.facts, channel, mark) ?? 0;
    const id = property(packet, "saguin-id");
    if (channel === "") {
      if (mark !== "") {
        if (peer.level === 5) model.records.broadcastSeen(model.facts, mark, id);
        else model.records.visible(model.facts, mark, "a broadcast");
      }
    } else if (peer.level === 5 && (told || kind === "shared")) {
      if (id === undefined) throw new Broken("8", `${mark} of ${channel} came without an identity`);
      if (offset > 0) model.records.saw(model.facts, channel, offset, mark, id);
      else if (mark !== "") model.records.visible(model.facts, mark, channel);
      if (channel.endsWith("__dlq")) this.#letter(packet, channel, mark, id);
    } else if (mark !== "" && !channel.endsWith("__dlq")) {
      model.records.visible(model.facts, mark, channel);
    }
    const shared = kind === "shared" ? sharedOf(session, topic) : undefined;
    if (kind !== "offer" && kind !== "shared" && !packet.dup && !Model.reaches(session, topic)) {
      throw new Broken(
        "D9.9",
        `${mark} on ${topic} came to ${peer.client}, which holds no filter for it`,
      );
    }
    const { correlationData = new Uint8Array(0) } = packet.properties;
    const deliveryId = kind === "offer" ? hex(correlationData) : "";
    const sameBefore = [...peer.outstanding.values()].some((each) =>
      each.kind === kind && each.mark === mark && mark !== "" && each.topic === topic
    );
    switch (kind) {
      case "append":
        if (offset > 0) {
          model.reading.delivered(model.facts, session, channel, offset, qos, this.now());
        } else {
          const { client, number: connection } = peer;
          const unacknowledged = () => peer.outstanding.has(packetId);
          model.unplaced({ client, connection, channel, mark, qos, unacknowledged });
        }
        break;
      case "latest":
        if (offset > 0) model.latestDelivered(session, topic, offset);
        break;
      case "cast":
        if (mark !== "") {
          model.casting.delivered(session, model.facts.publishes.get(mark)!, qos, sameBefore);
        } else if (qos > 0) session.blank = true;
        break;
      case "shared":
        if (shared !== undefined) {
          model.casting.shared(model.facts, session, shared, mark, this.now());
        }
        break;
      case "offer":
        this.#offered(peer, session, packet, { queue: channel, offset, mark, deliveryId });
        break;
    }
    if (qos === 0) return;
    if (peer.outstanding.has(packetId)) {
      throw new Broken("D8.7", `packet ${packetId} of ${peer.client} is on the wire twice`);
    }
    at(this.#sent, peer.client, () => new Map()).set(packetId, kind);
    const era = session.consumers.get(channel)?.era ?? 0;
    peer.outstanding.set(packetId, {
      packetId,
      qos,
      mark,
      topic,
      kind,
      shared,
      channel,
      offset,
      era,
      deliveryId,
      state: "sent",
    });
    if (peer.outstanding.size > session.window) {
      throw new Broken("D21.1", `${peer.client} takes ${session.window} and got one more: ${mark}`);
    }
  }

  #kind(client: string, packet: Received): Outstanding["kind"] {
    // What is sent again is what it was: options are those of the moment (D8.11).
    const before = packet.dup ? this.#sent.get(client)?.get(packet.packetId) : undefined;
    if (before !== undefined) return before;
    if (packet.properties.subscriptionIdentifiers?.includes(SHARED_IDENTIFIER)) return "shared";
    const channel = channelOf(packet.topic);
    if (isQueue(channel)) return "offer";
    if (isAppend(channel)) return "append";
    if (channel !== undefined) return "latest";
    return packet.retain ? "retained" : "cast";
  }

  #offered(
    peer: Peer,
    session: SessionFacts,
    packet: Received,
    job: { queue: string; offset: number; mark: string; deliveryId: string },
  ): void {
    const { model } = this;
    const what = `job ${job.offset} of ${job.queue}`;
    if (packet.dup) {
      // The session sends its packets again; the delivery is dead, and nothing holds a job by it.
      if (model.working.ids.has(job.deliveryId) || job.deliveryId === "") return;
      throw new Broken("15", `${what} came to ${peer.client} again, and never before`);
    }
    if (packet.properties.responseTopic !== `$saguin/queue/${job.queue}/response`) {
      // A packet that the session sends again on resume would carry a dead id.
      throw new Broken(
        "D14.8",
        `${what} came to ${peer.client} without the queue's Response Topic`,
      );
    }
    if (!session.subscriptions.has(`$saguin/queue/${job.queue}`)) {
      throw new Broken("D14.4", `${what} came to ${peer.client}, which takes no work`);
    }
    if (packet.qos !== 1) {
      throw new Broken("D14.4", `${what} came to ${peer.client} at QoS ${packet.qos}`);
    }
    const attempt = numberOf(packet, "saguin-attempt");
    model.working.offered(model.facts, session, peer.number, this.now(), { ...job, attempt });
  }

  #letter(packet: Received, channel: string, mark: string, id: string): void {
    const { model } = this;
    const queue = channel.slice(0, -"__dlq".length);
    if (property(packet, "saguin-dlq-channel") !== queue) {
      throw new Broken(
        "D14.24",
        `a dead letter of ${queue} names ${property(packet, "saguin-dlq-channel")}`,
      );
    }
    const offset = numberOf(packet, "saguin-dlq-offset");
    const letter = numberOf(packet, "saguin-offset");
    const attempts = numberOf(packet, "saguin-dlq-attempts");
    model.letterSeen(queue, offset, mark, id, letter, attempts, this.now());
    const topic = packet.topic.replace("/__dlq", "");
    if (!this.letters.some((each) => each.id === id)) this.letters.push({ topic, id });
  }

  /** A delivery to the one who watches every channel. */
  watched(packet: Received): void {
    const { model } = this;
    const channel = channelOf(packet.topic);
    if (channel === undefined) throw new Broken("D9.9", `the observer got ${packet.topic}`);
    const mark = utf8.decode(packet.payload);
    if (unstored(packet)) return;
    const offset = numberOf(packet, "saguin-offset");
    const id = property(packet, "saguin-id");
    if (id === undefined) throw new Broken("8", `${mark} of ${channel} came without an identity`);
    model.records.saw(model.facts, channel, offset, mark, id);
    if (channel.endsWith("__dlq")) this.#letter(packet, channel, mark, id);
    let seen = this.observed.get(channel);
    if (seen === undefined) this.observed.set(channel, seen = new Set());
    if (isAppend(channel) && seen.has(offset)) {
      throw new Broken("1", `the observer got record ${offset} of ${channel} twice`);
    }
    seen.add(offset);
  }

  /** All of an append channel came to the observer, from its floor to its end. */
  whole(channel: string): void {
    const floor = this.model.facts.floors.get(channel) ?? 1;
    const next = this.model.facts.nexts.get(channel) ?? 1;
    for (let offset = floor; offset < next; offset++) {
      if (this.observed.get(channel)?.has(offset) === true) continue;
      throw new Broken(
        "1",
        `record ${offset} of ${channel}, floor ${floor}, did not come to the observer`,
      );
    }
  }

  // ------------------------------------------------------------------------------ acknowledging

  /** Takes an outstanding delivery a step further. */
  acknowledge(peer: Peer, delivery: Outstanding): void {
    const { packetId, qos, state } = delivery;
    if (qos === 2 && state === "sent") {
      delivery.state = "recorded";
      return peer.pubrec(packetId);
    }
    if (qos === 2 && state === "recorded") return;
    peer.outstanding.delete(packetId);
    this.#free(peer.client, delivery);
    this.#acknowledging(peer, delivery);
    if (qos === 1) peer.puback(packetId);
    else peer.pubcomp(packetId);
  }

  /**
   * The identifier is anybody's again, also for what a crash may have sent and goes with DUP. Unless it is
   * a group's that the client left: sent again, nothing tells whose it is.
   */
  #free(client: string, { packetId, kind, topic }: Outstanding): void {
    const session = this.model.session(client);
    const told = session !== undefined && sharedOf(session, topic) !== undefined;
    if (kind !== "shared" || told) this.#sent.get(client)?.delete(packetId);
  }

  #acknowledging(
    peer: Peer,
    { kind, channel, offset, era, mark, shared, deliveryId }: Outstanding,
  ) {
    const { model } = this;
    const session = model.session(peer.client);
    if (session?.connection !== peer.number) return;
    const known = offset > 0 ? offset : model.records.offsetOf(model.facts, channel, mark) ?? 0;
    switch (kind) {
      case "append":
        if (session.consumers.get(channel)?.era === era) {
          model.reading.acknowledging(session, channel, known, this.now());
        }
        break;
      case "offer":
        model.working.puback(model.facts, channel, offset, deliveryId, this.now());
        break;
      case "cast":
        model.casting.acknowledging(session, mark, this.now());
        break;
      case "shared":
        if (shared === undefined) break;
        model.casting.acknowledgingShared(model.facts, session, shared, mark, this.now());
        break;
    }
  }

  /** PUBREL, on this connection or for what an earlier one began. */
  released(peer: Peer, { packetId }: Extract<ServerPacket, { type: "pubrel" }>): void {
    const halfDone = this.#halfDone.get(peer.client);
    const delivery = peer.outstanding.get(packetId) ?? halfDone?.get(packetId);
    if (delivery === undefined || delivery.state === "sent") return peer.pubcomp(packetId);
    halfDone?.delete(packetId);
    peer.outstanding.set(packetId, delivery);
    delivery.state = "released";
    const session = this.model.session(peer.client);
    if (delivery.kind === "cast" && session !== undefined) {
      this.model.casting.released(session, delivery.mark);
    }
  }

  /** The connection is gone: exchanges past their PUBREC go on at the next one. */
  gone(peer: Peer): void {
    const kept = this.#halfDone.get(peer.client) ?? new Map<number, Outstanding>();
    for (const [packetId, delivery] of peer.outstanding) {
      if (delivery.state !== "sent") kept.set(packetId, delivery);
    }
    this.#halfDone.set(peer.client, kept);
  }

  /** The session begins anew. */
  fresh(client: string): void {
    this.#halfDone.delete(client);
    this.#sent.delete(client);
  }

  /** The broker died or stopped: deliveries of channels are new packets from here on (I15). */
  stopped(): void {
    for (const kept of this.#halfDone.values()) {
      for (const [packetId, { kind }] of kept) if (kind !== "cast") kept.delete(packetId);
    }
    for (const sent of this.#sent.values()) {
      for (const [packetId, kind] of sent) if (OF_CHANNELS.has(kind)) sent.delete(packetId);
    }
    this.observed = new Map();
  }
}

/** A deletion of a latest topic that had no value: delivered live, and in no channel. */
function unstored(packet: Received): boolean {
  return packet.payload.length === 0 && property(packet, "saguin-offset") === undefined;
}

function sharedOf(session: SessionFacts, topic: string): string | undefined {
  for (const filter of session.subscriptions.keys()) {
    const inner = sharedFilter(filter);
    if (inner !== undefined && matches(inner, topic)) return filter;
  }
  return undefined;
}
