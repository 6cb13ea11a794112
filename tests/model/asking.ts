/** What clients ask of the broker, each told to the model as it goes. */
import { unhex } from "./bytes.ts";
import { Broken, sharedFilter } from "./facts.ts";
import type { Hearing } from "./hearing.ts";
import type { Model } from "./model.ts";
import type { Peer } from "./peer.ts";
import { SHARED_IDENTIFIER, type Step } from "./schedule.ts";

/** Exchanges one client leaves open at most. */
const MOST_EXCHANGES = 8;

/** A step of one kind. */
export type Of<Name extends Step["do"]> = Extract<Step, { do: Name }>;

export class Asking {
  readonly #packetIds = new Map<string, number>();

  /** `usable`: the client's connection, if it has one that takes requests. */
  constructor(
    private readonly model: Model,
    private readonly hearing: Hearing,
    private readonly now: () => number,
    private readonly usable: (client: string) => Peer | undefined,
  ) {}

  /** A packet identifier that the client has not used for long. */
  packetId(client: string): number {
    const exchanges = this.model.session(client)?.exchanges;
    for (;;) {
      const next = (this.#packetIds.get(client) ?? 0) % 60_000 + 1;
      this.#packetIds.set(client, next);
      if (exchanges?.has(next) !== true) return next;
    }
  }

  publish({ client, topic, qos, retain, mark: number, empty, named }: Of<"publish">): void {
    const mark = `p${number}`;
    const id = named ? `named-${number}` : undefined;
    this.#send(client, { topic, qos, retain, mark, empty, id });
  }

  #send(
    client: string,
    { topic, qos, retain, mark, empty, id }: {
      topic: string;
      qos: 0 | 1 | 2;
      retain: boolean;
      mark: string;
      empty: boolean;
      id: string | undefined;
    },
  ): void {
    const peer = this.usable(client);
    const session = this.model.session(client);
    if (peer === undefined || session === undefined || this.model.facts.publishes.has(mark)) return;
    if (qos === 2 && session.exchanges.size >= MOST_EXCHANGES) return;
    const packetId = this.packetId(client);
    const named = id !== undefined && peer.level === 5;
    this.model.publishing({
      mark,
      client,
      topic,
      qos,
      retain,
      empty,
      named,
      id: named ? id : undefined,
    });
    if (qos === 1) peer.requests.set(packetId, { kind: "publish", mark });
    if (qos === 2) this.model.exchangeBegun(client, packetId, mark);
    peer.publish({
      topic,
      payload: empty ? "" : mark,
      qos,
      packetId,
      retain,
      ...(named && { id }),
    });
  }

  release({ client, pick, repeat }: Of<"release">): void {
    const peer = this.usable(client);
    const exchanges = [...this.model.session(client)?.exchanges.values() ?? []];
    if (peer === undefined || exchanges.length === 0) return;
    const exchange = exchanges[pick % exchanges.length];
    const publish = this.model.facts.publishes.get(exchange.mark)!;
    // A client that has PUBREC goes on with PUBREL and never with PUBLISH (MQTT-4.3.3-7).
    if (exchange.recorded && !(repeat && !exchange.released)) {
      this.model.releasing(exchange);
      return peer.pubrel(exchange.packetId);
    }
    const { topic, retain, empty, named, id } = publish;
    peer.publish({
      topic,
      payload: empty ? "" : exchange.mark,
      qos: 2,
      packetId: exchange.packetId,
      retain,
      dup: true,
      ...(named && { id }),
    });
  }

  subscribe({ client, filter, qos, handling }: Of<"subscribe">): void {
    const peer = this.usable(client);
    if (peer === undefined) return;
    const shared = sharedFilter(filter) !== undefined;
    // A newer connection of the client speaks MQTT 5, and is under way; this one does not.
    if (shared && peer.level < 5) return;
    const packetId = this.packetId(client);
    const granted = shared ? 1 : qos;
    const asked = this.model.subscribing(client, filter, granted);
    peer.requests.set(packetId, { kind: "subscribe", asked, handling });
    const identifier = shared && peer.level === 5 ? SHARED_IDENTIFIER : undefined;
    peer.subscribe(packetId, [filter], granted, handling, identifier);
  }

  unsubscribe({ client, filter }: Of<"unsubscribe">): void {
    const peer = this.usable(client);
    if (peer === undefined) return;
    const packetId = this.packetId(client);
    const taken = this.model.unsubscribing(client, filter);
    peer.requests.set(packetId, { kind: "unsubscribe", taken });
    peer.unsubscribe(packetId, filter);
  }

  ack({ client, pick, all }: Of<"ack">): void {
    const peer = this.usable(client);
    if (peer === undefined || peer.outstanding.size === 0) return;
    const outstanding = [...peer.outstanding.values()];
    const chosen = all ? outstanding : [outstanding[pick % outstanding.length]];
    for (const delivery of chosen) this.hearing.acknowledge(peer, delivery);
  }

  answer({ client, own, pick, verdict }: Of<"answer">): void {
    const peer = this.usable(client);
    if (peer?.level !== 5) return;
    const ids = own ? this.heldBy(peer) : [...this.model.working.ids.keys()];
    if (ids.length > 0) this.reply(peer, ids[pick % ids.length], verdict);
  }

  /** Delivery IDs of the jobs that are with a connection. */
  heldBy(peer: Peer): string[] {
    const ids: string[] = [];
    for (const jobs of this.model.facts.jobs.values()) {
      for (const { held } of jobs.values()) {
        if (held?.connection === peer.number) ids.push(held.deliveryId);
      }
    }
    return ids;
  }

  reply(peer: Peer, deliveryId: string, verdict: "ack" | "return"): void {
    const { queue } = this.model.working.ids.get(deliveryId)!;
    const packetId = this.packetId(peer.client);
    const { working, facts } = this.model;
    const { job, valid } = working.answer(facts, peer.number, deliveryId, verdict, this.now());
    const attempt = job?.spentAtMost ?? 0;
    peer.requests.set(packetId, {
      kind: "other",
      answered: (code) => {
        if (code !== 0) {
          throw new Broken("D14.12", `an answer to ${queue} was refused with ${code}`);
        }
        if (job !== undefined && valid) working.answered(job, verdict, attempt);
      },
    });
    peer.publish({
      topic: `$saguin/queue/${queue}/response`,
      payload: verdict,
      qos: 1,
      packetId,
      correlationData: unhex(deliveryId),
    });
  }

  redrive({ client, pick, mark }: Of<"redrive">): void {
    const { letters } = this.hearing;
    if (letters.length === 0 || this.usable(client)?.level !== 5) return;
    const { topic, id } = letters[pick % letters.length];
    this.#send(client, { topic, qos: 1, retain: false, mark: `p${mark}`, empty: false, id });
  }

  /** False: nobody had anything to acknowledge, to release or to answer. */
  acknowledgeAll(peers: Iterable<Peer>): boolean {
    let moved = false;
    for (const peer of peers) {
      if (!peer.usable) continue;
      const { client } = peer;
      for (const delivery of [...peer.outstanding.values()]) {
        if (delivery.qos === 2 && delivery.state === "recorded") continue;
        this.hearing.acknowledge(peer, delivery);
        moved = true;
      }
      for (const id of this.heldBy(peer)) {
        this.reply(peer, id, "ack");
        moved = true;
      }
      const exchanges = this.model.session(client)?.exchanges.size ?? 0;
      for (let pick = 0; pick < exchanges; pick++) {
        this.release({ do: "release", client, pick, repeat: false });
        moved = true;
      }
    }
    return moved;
  }
}
