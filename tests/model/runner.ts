/** Carries out a schedule against a broker, with the model listening. */
import type { ServerPacket } from "../support/mqtt_bytes.ts";
import { Asking, type Of } from "./asking.ts";
import { Broken, sharedFilter } from "./facts.ts";
import { Hearing } from "./hearing.ts";
import { type Asked, Model } from "./model.ts";
import { Peer, type Received } from "./peer.ts";
import { APPENDS, QUEUES, type Schedule, type Step } from "./schedule.ts";
import type { World } from "./world.ts";

const LOGS = [...APPENDS, ...QUEUES.map((queue) => `${queue}__dlq`)];
/** Those whose floor retention moves. */
const TRIMMED = ["trail", "brief"];
/** Rounds of acknowledging until nothing is left. */
const MOST_ROUNDS = 60;

/** What a broken promise is told with. */
export interface Failure {
  readonly rule: string;
  readonly message: string;
  /** Of the step that it showed after; the number of steps for the end. */
  readonly step: number;
}

export class Runner {
  readonly model: Model;
  readonly hearing: Hearing;
  readonly asking: Asking;
  readonly #peers = new Map<string, Peer>();
  /** Connections whose CONNECT was not answered. */
  readonly #asked = new Map<Peer, Asked>();
  readonly #impostors = new Set<Peer>();
  /** Client ids whose impostor was closed, and whose session may not have been given back yet (D6.4). */
  readonly #disturbed = new Set<string>();
  /** Replies that are waited for, by Response Topic. */
  readonly #replies = new Map<string, (packet: Received) => void>();
  #observer!: Peer;
  #surveyor!: Peer;
  #stopping = false;
  #connections = 0;
  #requests = 0;
  #broken: unknown;

  private constructor(
    private readonly world: World,
    private readonly storage: Schedule["storage"],
  ) {
    this.model = new Model(world.slackMs);
    const now = () => world.now;
    this.hearing = new Hearing(this.model, now);
    this.asking = new Asking(this.model, this.hearing, now, (client) => this.#usable(client));
  }

  /** What was broken; undefined when all was kept. */
  static async run(world: World, schedule: Schedule): Promise<Failure | undefined> {
    const runner = new Runner(world, schedule.storage);
    let step = 0;
    try {
      await runner.#watch();
      for (; step < schedule.steps.length; step++) {
        await runner.#step(schedule.steps[step]);
      }
      await runner.#finish();
      return undefined;
    } catch (error) {
      if (error instanceof Broken) return { rule: error.rule, message: error.message, step };
      throw error;
    }
  }

  get #now(): number {
    return this.world.now;
  }

  #check(): void {
    if (this.#broken !== undefined) throw this.#broken;
  }

  async #settle(): Promise<void> {
    // Where nobody can look into the broker, a PINGRESP says that what was sent is read.
    if (this.world.slackMs > 0) {
      const peers = [...this.#peers.values(), this.#observer, this.#surveyor];
      await Promise.all(peers.map((peer) => peer.read()));
    }
    await this.world.settle();
    this.#check();
    this.#disturbed.clear();
    this.#reckonNexts();
    this.model.settled(this.#now);
  }

  /** The observer has been shown everything: ends of channels are known. */
  #reckonNexts(): void {
    const { records, nexts } = this.model.facts;
    for (const [channel, seen] of records) {
      let next = nexts.get(channel) ?? 1;
      for (const offset of seen.keys()) next = Math.max(next, offset + 1);
      nexts.set(channel, next);
    }
  }

  async #step(step: Step): Promise<void> {
    await this.#act(step);
    if (step.turns === undefined) await this.#settle();
    else await this.world.turns(step.turns);
    this.#check();
  }

  async #act(step: Step): Promise<void> {
    switch (step.do) {
      case "connect":
        return await this.#connect(step);
      case "impostor":
        return await this.#impostor(step);
      case "disconnect":
        return this.#disconnect(step);
      case "cut": {
        const peer = this.#peers.get(step.client);
        if (peer?.usable === true) peer.cut();
        return;
      }
      case "publish":
        return this.asking.publish(step);
      case "release":
        return this.asking.release(step);
      case "subscribe":
        return this.asking.subscribe(step);
      case "unsubscribe":
        return this.asking.unsubscribe(step);
      case "ack":
        return this.asking.ack(step);
      case "answer":
        return this.asking.answer(step);
      case "seek":
        return await this.#seek(step);
      case "redrive":
        return this.asking.redrive(step);
      case "pass":
        return await this.#pass(step.ms);
      case "crash":
        return await this.#stop(false, step.downMs);
      case "restart":
        return await this.#stop(true, step.downMs);
    }
  }

  // -------------------------------------------------------------------------------- connections

  #usable(client: string): Peer | undefined {
    const peer = this.#peers.get(client);
    return peer?.usable === true ? peer : undefined;
  }

  #peer(client: string, level: 4 | 5): Peer {
    return new Peer(client, level, ++this.#connections, {
      packet: (peer, packet) => this.#heard(() => this.#packet(peer, packet)),
      closed: (peer) => this.#heard(() => this.#closed(peer)),
    });
  }

  /** What is thrown here must not reach the broker, in whose turn it happens. */
  #heard(hear: () => void): void {
    if (this.#broken !== undefined) return;
    try {
      hear();
    } catch (error) {
      this.#broken = error;
    }
  }

  async #connect(step: Of<"connect">): Promise<void> {
    const { client, window } = step;
    const held = [...this.model.session(client)?.subscriptions.keys() ?? []];
    // Below MQTT 5 nothing tells what came by a shared subscription.
    const level = held.some((filter) => sharedFilter(filter) !== undefined) ? 5 : step.level;
    // What a DISCONNECT or an earlier CONNECT does is known before the next CONNECT.
    const waiting = [...this.#asked.keys()].some((peer) => peer.client === client);
    const old = this.#peers.get(client);
    if (waiting || old !== undefined && old.leaving && !old.closed) await this.#settle();
    const session = this.model.session(client);
    const clean = step.clean || session?.unsure === true;
    const passable = [...session?.consumers.keys() ?? []];
    if (!clean && passable.some((channel) => TRIMMED.includes(channel))) {
      await this.#survey(TRIMMED);
    }
    const peer = this.#peer(client, level);
    await peer.open(this.world);
    const expiry = level === 5 ? step.expiry : 0;
    this.#asked.set(peer, { client, level, clean, expiry, window: level === 5 ? window : 65_535 });
    peer.connect({ clean, expiry, window });
  }

  async #impostor({ client, how, clean }: Of<"impostor">): Promise<void> {
    if (how === "cut" && !this.world.deafness) return;
    const peer = this.#peer(client, 5);
    this.#impostors.add(peer);
    this.model.disturbed(client);
    await peer.open(this.world, how === "cut");
    peer.connect({ clean, expiry: 3_000, window: 10, badWill: how === "refused" });
  }

  #disconnect({ client, expiry }: Of<"disconnect">): void {
    const peer = this.#usable(client);
    if (peer === undefined) return;
    // A session that had no expiry may not be given one (3.14.2.2.2).
    const session = this.model.session(client);
    peer.disconnect(session?.expiry === 0 ? undefined : expiry);
    this.model.working.leaving(this.model.facts, peer.number);
    if (session?.expiry === 0 || peer.leavingExpiry === 0) {
      this.model.casting.leaving(this.model.facts, client);
    }
  }

  #closed(peer: Peer): void {
    const { client } = peer;
    if (this.#impostors.delete(peer)) {
      if (this.#stopping) this.model.unheard(client);
      else this.#disturbed.add(client);
      return;
    }
    if (this.#asked.delete(peer)) this.model.unheard(client);
    if (!peer.connected) return;
    this.hearing.gone(peer);
    const { number, leaving, leavingExpiry } = peer;
    if (!leaving) this.model.connectionGone(client, number, this.#now);
    else if (this.#stopping) this.model.leftUnheard(client, number, this.#now, leavingExpiry);
    else this.model.left(client, number, this.#now, leavingExpiry);
    for (const request of peer.requests.values()) {
      if (request.kind !== "publish") continue;
      const publish = this.model.facts.publishes.get(request.mark);
      if (publish?.fate === "sent") publish.fate = "unsure";
    }
  }

  #connack(peer: Peer, present: boolean, code: number): void {
    if (this.#impostors.has(peer)) {
      if (code === 0) throw new Broken("17", `an impostor of ${peer.client} was let in`);
      return;
    }
    const asked = this.#asked.get(peer);
    this.#asked.delete(peer);
    if (code !== 0 || asked === undefined) {
      throw new Broken("17", `the CONNECT of ${peer.client} was refused with ${code}`);
    }
    peer.connected = true;
    if (!present) this.hearing.fresh(peer.client);
    const old = this.#peers.get(peer.client);
    if (old !== undefined && !old.closed && old.connected) this.hearing.gone(old);
    this.model.connected(asked, present, peer.number, this.#now);
    this.#peers.set(peer.client, peer);
  }

  // ------------------------------------------------------------------------------------- packets

  #packet(peer: Peer, packet: ServerPacket): void {
    switch (packet.type) {
      case "connack":
        if (peer === this.#observer || peer === this.#surveyor) {
          peer.connected = packet.reasonCode === 0;
          return;
        }
        return this.#connack(peer, packet.sessionPresent, packet.reasonCode);
      case "publish": {
        const reply = this.#replies.get(packet.topic);
        if (reply !== undefined) return reply(packet);
        if (peer === this.#observer) return this.hearing.watched(packet);
        return this.hearing.delivered(peer, packet);
      }
      case "puback":
        return this.#answered(peer, packet.packetId, packet.reasonCode);
      case "pubrec":
        return this.model.recorded(peer.client, packet.packetId, packet.reasonCode);
      case "pubcomp":
        return this.model.completed(peer.client, packet.packetId, packet.reasonCode);
      case "pubrel":
        return this.hearing.released(peer, packet);
      case "suback": {
        const request = this.#taken(peer, packet.packetId);
        if (request?.kind !== "subscribe") return;
        const [code] = packet.reasonCodes;
        const { asked, handling } = request;
        this.model.subscribed(peer.client, asked, handling, code, this.#now);
        return;
      }
      case "unsuback": {
        const request = this.#taken(peer, packet.packetId);
        if (request?.kind !== "unsubscribe" || request.taken === undefined) return;
        this.model.unsubscribed(peer.client, request.taken);
        return;
      }
    }
  }

  #taken(peer: Peer, packetId: number) {
    const request = peer.requests.get(packetId);
    peer.requests.delete(packetId);
    return request;
  }

  #answered(peer: Peer, packetId: number, code: number): void {
    const request = this.#taken(peer, packetId);
    if (request?.kind === "publish") this.model.stored(request.mark, code);
    else if (request?.kind === "other") request.answered(code);
  }

  // --------------------------------------------------------------------------------------- seeks

  async #seek({ client, channel, to }: Of<"seek">): Promise<void> {
    if (this.#usable(client)?.level !== 5) return;
    await this.#survey([channel]);
    const peer = this.#usable(client);
    const session = this.model.session(client);
    // Another connection may own the session by now.
    if (peer?.level !== 5 || session === undefined) return;
    const floor = this.model.facts.floors.get(channel)!;
    const next = this.model.facts.nexts.get(channel)!;
    const below = floor > 1;
    const [asked, expected] = {
      floor: ["0", String(floor)],
      next: ["-1", String(next)],
      below: below ? [String(floor - 1), "below-floor"] : ["0", String(floor)],
      beyond: [String(next + 5), "beyond-end"],
      middle: [
        String(Math.floor((floor + next) / 2)),
        String(Math.floor((floor + next) / 2)),
      ],
    }[to];
    const durable = session.expiry > 0;
    let replied = false;
    this.#ask(peer, channel, asked, (reply) => {
      replied = true;
      const wanted = durable ? expected : "no-session";
      if (reply !== wanted) {
        throw new Broken(
          "1",
          `a seek of ${channel} to ${asked} was answered ${reply}, not ${wanted}`,
        );
      }
      if (/^\d+$/.test(reply)) this.model.reading.sought(session, channel, Number(reply));
    }, () => {
      if (!replied) this.model.reading.unheard(session, channel);
    });
  }

  /** A seek; `lost` is told when the connection goes before the reply. */
  #ask(
    peer: Peer,
    channel: string,
    payload: string,
    replied: (reply: string) => void,
    lost: () => void,
  ): void {
    const responseTopic = `reply/${++this.#requests}`;
    const packetId = this.asking.packetId(peer.client);
    this.#replies.set(responseTopic, (packet) => {
      this.#replies.delete(responseTopic);
      this.#seeks.delete(responseTopic);
      replied(new TextDecoder().decode(packet.payload));
    });
    this.#seeks.set(responseTopic, { peer, lost });
    peer.requests.set(packetId, { kind: "other", answered: () => {} });
    const topic = `$saguin/consumer/${channel}/seek`;
    peer.publish({ topic, payload, qos: 1, packetId, responseTopic });
  }

  readonly #seeks = new Map<string, { readonly peer: Peer; readonly lost: () => void }>();

  /** Where append channels begin and end; and everything between came to the observer. */
  async #survey(channels: readonly string[]): Promise<void> {
    await this.#settle();
    for (const channel of channels) {
      let floor = 0;
      this.#ask(this.#surveyor, channel, "0", (reply) => floor = Number(reply), () => {});
      this.#ask(this.#surveyor, channel, "-1", (reply) => {
        if (!(floor > 0 && Number(reply) > 0)) {
          throw new Broken("1", `${channel} begins at ${floor} and ends at ${reply}`);
        }
        this.model.surveyed(channel, floor, Number(reply));
      }, () => {});
    }
    await this.#settle();
    this.model.reading.surveyed(this.model.facts);
    for (const channel of channels) this.hearing.whole(channel);
  }

  // ------------------------------------------------------------------------ accidents and watchers

  async #pass(ms: number): Promise<void> {
    await this.#settle();
    this.#letGo();
    const since = this.#now;
    await this.world.pass(ms);
    await this.#settle();
    await this.#survey(TRIMMED);
    this.model.idle(since, this.#now, (client) => this.#peers.get(client)?.outstanding.size ?? 0);
  }

  async #stop(graceful: boolean, downMs: number): Promise<void> {
    this.#stopping = true;
    for (const client of this.#disturbed) this.model.unheard(client);
    this.#disturbed.clear();
    if (graceful) await this.world.restart(downMs);
    else await this.world.crash(downMs);
    this.#check();
    this.#letGo();
    this.#stopping = false;
    this.model.stopped(graceful, this.storage === "sqlite", this.#now - downMs, this.#now);
    this.hearing.stopped();
    this.#peers.clear();
    this.#asked.clear();
    await this.#watch();
  }

  /** Seeks whose connection went before the reply. */
  #letGo(): void {
    for (const [topic, { peer, lost }] of this.#seeks) {
      if (!peer.closed) continue;
      this.#seeks.delete(topic);
      this.#replies.delete(topic);
      lost();
    }
  }

  /** The observer reads every channel from its floor, the surveyor asks where they begin and end. */
  async #watch(): Promise<void> {
    this.#observer = this.#peer("observer", 5);
    this.#surveyor = this.#peer("surveyor", 5);
    for (const peer of [this.#observer, this.#surveyor]) {
      await peer.open(this.world);
      const expiry = peer === this.#surveyor ? 3_600 : 0;
      peer.connect({ clean: true, expiry, window: 1_000 });
    }
    await this.#settle();
    const filters = [...APPENDS, "state"].map((name) => `${name}/#`);
    for (const queue of QUEUES) filters.push(`${queue}/__dlq/#`);
    this.#observer.subscribe(this.asking.packetId("observer"), filters, 0, 0);
    await this.#settle();
    await this.#survey(LOGS);
  }

  // --------------------------------------------------------------------------------------- the end

  /** Everybody comes back and takes what there is; then strangers look at what is left. */
  async #finish(): Promise<void> {
    await this.#pass(700);
    for (const session of [...this.model.facts.sessions.values()]) {
      if (session.unsure || this.#usable(session.client) !== undefined) continue;
      const { client, level } = session;
      const expiry = Math.max(1, session.expiry);
      await this.#connect({ do: "connect", client, level, clean: false, expiry, window: 20 });
      await this.#settle();
    }
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const moved = this.asking.acknowledgeAll(this.#peers.values());
      await this.#settle();
      if (!moved) break;
    }
    await this.#survey(LOGS);
    await this.#settle();
    this.model.finish();
    for (const peer of this.#peers.values()) if (peer.usable) peer.disconnect(undefined);
    await this.#settle();
    // What is there is there for the next broker too.
    await this.#stop(true, 0);
    await this.#drainQueues();
    await this.#readValues();
    await this.#survey(LOGS);
    this.model.finishRecords();
  }

  async #drainQueues(): Promise<void> {
    await this.#connect({
      do: "connect",
      client: "omega",
      level: 5,
      clean: true,
      expiry: 0,
      window: 1_000,
    });
    await this.#settle();
    for (const queue of QUEUES) {
      const filter = `$saguin/queue/${queue}`;
      this.asking.subscribe({ do: "subscribe", client: "omega", filter, qos: 1, handling: 0 });
    }
    for (let quiet = 0, rounds = 0; quiet < 2; rounds++) {
      if (rounds > 20 * MOST_ROUNDS) {
        throw new Broken("5", "the jobs of a queue do not come to an end");
      }
      await this.world.pass(quiet === 0 ? 250 : 10_000);
      await this.#settle();
      quiet = this.asking.acknowledgeAll(this.#peers.values()) ? 0 : quiet + 1;
      await this.#settle();
    }
  }

  /** Whoever subscribes now gets the values that count. */
  async #readValues(): Promise<void> {
    const values = new Map<string, string>();
    const reader = new Peer("reader", 5, ++this.#connections, {
      packet: (_, packet) => {
        if (packet.type !== "publish") return;
        values.set(packet.topic, new TextDecoder().decode(packet.payload));
      },
      closed: () => {},
    });
    await reader.open(this.world);
    reader.connect({ clean: true, expiry: 0, window: 1_000 });
    await this.#settle();
    reader.subscribe(1, ["state/#", "kept/#"], 0, 0);
    await this.#settle();
    reader.cut();
    for (const topic of ["state/x", "state/y", "kept/x"]) {
      const mark = values.get(topic);
      if (this.model.records.mayBeCurrent(this.model.facts, topic, mark)) continue;
      throw new Broken("18", `the value of ${topic} is ${mark}, which was replaced`);
    }
  }
}
