import type { Nanoseconds } from "../platform/clock.ts";
import type { Timer } from "../platform/timers.ts";
import type { SessionRecord, StoredSubscription, StoredWill } from "../storage/contract.ts";
import type { Message, Offset } from "../storage/record.ts";
import type { AppendChannel } from "./channels/append.ts";
import type { Exchange } from "./exactly_once.ts";
import type { ClientLink, Delivery, Ending } from "./link.ts";
import type { LiveQueue } from "./live_queue.ts";
import type { LogReader } from "./log_reader.ts";
import { pumpTurns } from "./pump_turns.ts";
import { Reason } from "./reason.ts";
import type { SessionAccess } from "./session_access.ts";
import { type Grant, SessionFilters, type TopicGrants } from "./session_filters.ts";
import { ENTRY_BYTES, Window, type WindowEntry, type WindowSource } from "./window.ts";

export type { Grant } from "./session_filters.ts";

/** A part of a session that delivers: an append consumer, a latest view, the log reader, ... */
export interface Source extends WindowSource {
  /**
   * Sends what fits, at most about a quantum, and calls `session.wait(this)` when something is left.
   * Runs within one turn.
   */
  pump(): void;
  /** The connection is gone; the session stays, and its `resume` comes next if it ever is served. */
  detached?(): void;
  /** What the client may do has changed; `pump` comes next. */
  permissionsChanged?(): void;
}

const NOTHING_LEFT = Promise.resolve(true);

/** Deliveries one source sends before the next source of the session has its turn. */
export const QUANTUM = 64;

/**
 * Bytes buffered towards a socket above which nothing but control packets is added; half of
 * `limits.session_queue_bytes` where that is less (D8.2).
 */
const CONGESTED_BYTES = 256 * 1024;

/** What is told of a connection after it is gone; for operators alone (05 section 7.7). */
export interface LastConnection {
  /** The door's name. */
  readonly listener: string;
  readonly address: string;
  /** Seconds, as in force. */
  readonly keepAlive: number;
  readonly cleanStart: boolean;
}

/** Of a session that came back from the store. */
const NO_CONNECTION: LastConnection = {
  listener: "",
  address: "",
  keepAlive: 0,
  cleanStart: false,
};

export interface SessionOptions {
  readonly clientId: string;
  /** The proved identity; empty for none. */
  readonly user: string;
  /** `limits.session_queue_bytes`; half of it may be on the wire. */
  readonly queueBytes: number;
}

/** What one session has begun at QoS 2 and not ended. */
export class InboundExchanges {
  /** Publishes not yet released, by packet identifier. */
  readonly held = new Map<number, Exchange>();
  /** Requests to control topics that were carried out and whose PUBREL is to come. */
  readonly applied = new Set<number>();
  /** Resolves when the last release so far was handed to its store. */
  releases: Promise<void> | undefined;
}

/**
 * A client's session: subscriptions, window, and the sources that deliver to it. It outlives
 * connections when it is durable; the registry (`sessions.ts`) decides who owns it.
 */
export class Session {
  readonly clientId: string;
  user: string;
  /** What an ACL file lets the client do; undefined without such a file: everything. */
  access: SessionAccess | undefined;
  /** The owning connection; undefined while away. */
  link: ClientLink | undefined;
  /** The last connection since the start of the broker. */
  lastConnection: LastConnection = NO_CONNECTION;
  /** Protocol level of the last connection: what a 3.1.1 client cannot read is not sent. */
  level: 4 | 5 = 5;
  /** Granted Session Expiry Interval in seconds; 0 ends with the connection. */
  expiry = 0;
  awaySince: Nanoseconds = 0n;
  will: StoredWill | undefined;
  willDue: Nanoseconds = 0n;
  willTimer: Timer | undefined;
  /** The publication of its Will, while it is under way. */
  willFiring: Promise<void> | undefined;
  expiryTimer: Timer | undefined;
  /** Monotonic ms at which it ends unless it is resumed; undefined while connected. */
  expiresAt: number | undefined;
  /** The session store holds a record of it. */
  stored = false;
  /**
   * A CONNECT is replacing it and has not been answered: nothing of it is written, since the store
   * may already hold its successor (D6.3).
   */
  frozen = false;
  /** Set once by the one path that ends sessions. */
  ended = false;
  /** Broadcasts kept in memory for it. Set by the registry, right after the session is made. */
  live!: LiveQueue;
  /** Its reading of the broadcast log, where it may outlive its connection: set before its first filter. */
  log: LogReader | undefined;
  /** It reads what its filters reach; false between a restart and its first connection. */
  joined = true;
  /**
   * What the session it replaced left behind is dropped: nothing the client sends is looked at before.
   * False: a store refused, and the connection ends (D6.12).
   */
  ready: Promise<boolean> = NOTHING_LEFT;
  /** Positions that the session it replaced held and that retention had not passed (D11.18). */
  inherited: ReadonlyMap<AppendChannel, Offset> | undefined;
  /** Of the client's own QoS 2 publishes; most sessions never send one. */
  exchanges: InboundExchanges | undefined;
  readonly queueBytes: number;
  readonly window: Window;
  /** Charged for deliveries that wait outside the window, over all of their paths (D8.14). */
  waitingBytes = 0;
  readonly #filters = new SessionFilters(() => this.access?.rules.denies("qos2") === true);
  readonly #sources = new Set<Source>();
  #waiting = new Set<Source>();
  #pumpScheduled = false;
  readonly #askedPump = () => {
    this.#pumpScheduled = false;
    this.#pump();
  };
  readonly #congestedBytes: number;
  /** What an earlier connection left unacknowledged and this one has no room for yet, last first. */
  #resends: WindowEntry[] = [];
  #pumping: Source | undefined;
  /** `#pumping` asked for room and there was none: it goes on when room is made, not before. */
  #roomRefused = false;

  constructor(options: SessionOptions) {
    this.clientId = options.clientId;
    this.user = options.user;
    this.queueBytes = options.queueBytes;
    this.window = new Window(options.queueBytes / 2);
    this.#congestedBytes = Math.min(CONGESTED_BYTES, options.queueBytes / 2);
  }

  /** More waits and is on the wire than `limits.session_queue_bytes`: the oldest that can go goes. */
  get overfull(): boolean {
    return this.waitingBytes + this.window.bytes > this.queueBytes;
  }

  get durable(): boolean {
    return this.expiry > 0;
  }

  // ------------------------------------------------------------------------------ subscriptions

  /** By filter; changed by `subscribe` and `unsubscribe` alone. */
  get subscriptions(): ReadonlyMap<string, StoredSubscription> {
    return this.#filters.subscriptions;
  }

  /** Those of them with a declared slice. */
  get partitioned(): number {
    return this.#filters.partitioned;
  }

  /** The slices that they declare, over all of them. */
  get slices(): number {
    return this.#filters.slices;
  }

  /** Moves with every change of `subscriptions`: a read begun before it is read again (S19). */
  get filterVersion(): number {
    return this.#filters.version;
  }

  /** `several`: the filter reaches more than one channel. */
  subscribe(subscription: StoredSubscription, several: boolean): void {
    this.#filters.add(subscription, several);
  }

  /** False: it was not held. */
  unsubscribe(filter: string): boolean {
    return this.#filters.remove(filter);
  }

  /** What the session's own filters grant it of `message`, No Local applied; undefined for nothing. */
  grant(message: Message): Grant | undefined {
    const own = message.clientId === this.clientId && this.clientId !== "";
    const grants = this.grants(message.topic);
    return own ? grants.own : grants.others;
  }

  /** What they grant it of messages of `topic`: its own, and those of others. */
  grants(topic: string): TopicGrants {
    return this.#filters.grants(topic, this.link === undefined);
  }

  // -------------------------------------------------------------------------------- permissions

  /** Whether a message of `topic` may be delivered now; `channel` is the one that holds it, if any. */
  mayRead(topic: string, channel: string | undefined): boolean {
    return this.access === undefined || this.access.rules.mayRead(topic, channel);
  }

  /** The ACL file was read again: whoever was held at a record asks once more (02b 7.5.6). */
  permissionsChanged(): void {
    this.#filters.changed();
    if (this.link === undefined) return;
    for (const source of this.#sources) {
      source.permissionsChanged?.();
      this.#waiting.add(source);
    }
    this.#schedulePump();
  }

  // ------------------------------------------------------------------------------------ sources

  addSource(source: Source): void {
    this.#sources.add(source);
  }

  removeSource(source: Source): void {
    this.#sources.delete(source);
    this.#waiting.delete(source);
  }

  /** `source` has something to send and no room, or used its quantum. */
  wait(source: Source): void {
    this.#waiting.add(source);
    if (source !== this.#pumping && this.canSend()) this.#schedulePump();
  }

  /** `source` waits for room to be made; nothing is asked of it before. */
  park(source: Source): void {
    this.#waiting.add(source);
    if (source === this.#pumping) this.#roomRefused = true;
  }

  /** Lets `source` send in a turn of its own, with what else becomes sendable meanwhile. */
  wake(source: Source): void {
    if (this.link === undefined) return;
    this.#waiting.add(source);
    this.#schedulePump();
  }

  #schedulePump(): void {
    if (this.#pumpScheduled) return;
    this.#pumpScheduled = true;
    pumpTurns.ask(this.#askedPump);
  }

  #pump(): void {
    if (this.link === undefined || this.#waiting.size === 0) return;
    const waiting = this.#waiting;
    this.#waiting = new Set();
    let unfinished = false;
    for (const source of waiting) {
      if (!this.#sources.has(source)) continue;
      this.#pumping = source;
      this.#roomRefused = false;
      try {
        source.pump();
      } finally {
        this.#pumping = undefined;
      }
      if (!this.#roomRefused && this.#waiting.has(source)) unfinished = true;
    }
    if (unfinished) this.#schedulePump();
  }

  /** The socket took what was buffered. */
  drained(): void {
    if (this.#waiting.size > 0) this.#schedulePump();
  }

  // ------------------------------------------------------------------------------------ sending

  /** Connected, and the socket keeps up. */
  canSend(): boolean {
    const can = this.link !== undefined && this.link.buffered < this.#congestedBytes;
    if (!can) this.#roomRefused = true;
    return can;
  }

  /** Room in the window for one more delivery of `bytes` (message and overhead). */
  fits(bytes: number): boolean {
    const fits = this.window.fits(bytes + ENTRY_BYTES);
    if (!fits) this.#roomRefused = true;
    return fits;
  }

  /**
   * What an earlier connection left unacknowledged has gone again. Until then a channel's deliveries wait
   * at QoS 0 too, which asks for no room: a reader is not shown the later before the earlier (D20.1).
   */
  resent(): boolean {
    const resent = this.#resends.length === 0;
    if (!resent) this.#roomRefused = true;
    return resent;
  }

  /** Sends at QoS 0. False: larger than the client takes. */
  sendUnacknowledged(delivery: Delivery): boolean {
    return this.link === undefined || this.link.deliver(delivery, 0, false);
  }

  /**
   * Sends at QoS 1 or 2 and keeps the delivery until it is acknowledged. `undefined`: larger than the
   * client takes; nothing was sent or kept. Called only when `fits` said so.
   */
  send(
    source: WindowSource,
    offset: Offset,
    era: number,
    delivery: Delivery,
    bytes: number,
    packetId = this.window.nextId(),
    dup = false,
  ): WindowEntry | undefined {
    if (this.link !== undefined && !this.link.deliver(delivery, packetId, dup)) return undefined;
    const entry: WindowEntry = {
      packetId,
      qos: delivery.qos === 2 ? 2 : 1,
      state: "sent",
      onWire: this.link !== undefined,
      dup,
      source,
      offset,
      era,
      delivery,
      bytes: bytes + ENTRY_BYTES,
      order: 0,
      older: undefined,
      newer: undefined,
    };
    this.window.add(entry);
    return entry;
  }

  /** As `send`, but nothing leaves before `sendStored`: the identifier is stored first. */
  prepare(
    source: WindowSource,
    offset: Offset,
    delivery: Delivery,
    bytes: number,
    packetId: number,
  ): WindowEntry {
    const entry: WindowEntry = {
      packetId,
      qos: delivery.qos === 2 ? 2 : 1,
      state: "storing",
      onWire: false,
      dup: false,
      source,
      offset,
      era: 0,
      delivery,
      bytes: bytes + ENTRY_BYTES,
      order: 0,
      older: undefined,
      newer: undefined,
    };
    this.window.add(entry);
    return entry;
  }

  /**
   * Sends what `prepare` made; without a connection the next one gets it as something that was never
   * sent. False: larger than the client takes, and still in the window.
   */
  sendStored(entry: WindowEntry): boolean {
    if (this.link !== undefined) {
      if (!this.window.mayResend) {
        // Prepared for a connection that took more at a time than this one.
        entry.state = "sent";
        this.#resends.unshift(entry);
        return true;
      }
      if (!this.link.deliver(entry.delivery, entry.packetId, entry.dup)) return false;
      this.window.sent(entry);
    }
    entry.state = "sent";
    return true;
  }

  /** Ends the connection, not the session. */
  hangUp(ending: Ending): void {
    this.link?.end(ending);
  }

  // ------------------------------------------------------------------------------ acknowledgements

  /** An identifier the connection has not issued is ignored (06 section 9, 12). */
  onPuback(packetId: number): void {
    const entry = this.window.get(packetId);
    if (entry === undefined || !entry.onWire || entry.qos !== 1) return;
    this.#finish(entry);
  }

  onPubrec(packetId: number, refused: boolean): void {
    const entry = this.window.get(packetId);
    if (entry === undefined || !entry.onWire || entry.qos !== 2) {
      if (!refused) this.link?.release(packetId, Reason.PacketIdentifierNotFound);
      return;
    }
    if (refused) return this.#finish(entry);
    if (entry.state === "received") return;
    if (entry.state === "released") {
      this.link?.release(packetId);
      return;
    }
    entry.state = "received";
    entry.source.received(entry, () => {
      if (entry.state !== "received") return;
      entry.state = "released";
      this.link?.release(packetId);
    });
  }

  onPubcomp(packetId: number): void {
    const entry = this.window.get(packetId);
    if (entry === undefined || !entry.onWire || entry.qos !== 2 || entry.state === "sent") return;
    this.#finish(entry);
  }

  #finish(entry: WindowEntry): void {
    this.window.remove(entry);
    entry.source.acknowledged(entry);
    this.#resendSome();
    this.roomMade();
  }

  /** A slot of the window came free: whoever waits may go on. */
  roomMade(): void {
    if (this.#waiting.size > 0) this.#schedulePump();
  }

  // ----------------------------------------------------------------------------------- resumption

  /**
   * The new connection owns the session: what is on the wire goes again under its identifiers
   * (MQTT-4.4.0-1), as much at a time as its Receive Maximum lets (MQTT-3.3.4-9), then every source
   * continues.
   */
  resume(link: ClientLink): void {
    this.link = link;
    this.level = link.level;
    this.#resends = [];
    for (const entry of this.window.entries()) {
      if (entry.state === "storing") continue;
      if (!entry.source.resend(entry)) this.window.remove(entry);
      else if (entry.state === "sent") this.#resends.push(entry);
      else {
        this.window.sent(entry);
        if (entry.state === "released") link.release(entry.packetId);
      }
    }
    this.#resends.reverse();
    this.#resendSome();
    for (const source of this.#sources) this.#waiting.add(source);
    this.#schedulePump();
  }

  /** The entries an earlier connection left behind, in their order, as far as the window lets. */
  #resendSome(): void {
    while (this.#resends.length > 0 && this.link !== undefined && this.window.mayResend) {
      const entry = this.#resends.pop()!;
      if (this.window.get(entry.packetId) !== entry) continue;
      if (this.link.deliver(entry.delivery, entry.packetId, entry.dup)) {
        this.window.sent(entry);
      } else if (entry.source.neverSkips) return this.#tooLarge(entry);
      else {
        this.window.remove(entry);
        entry.source.acknowledged(entry);
      }
    }
  }

  /**
   * What `source` sent on an earlier connection, and this one has had no room for yet, is given up: the
   * reader moved away from it (D12.13).
   */
  dropUnsent(source: WindowSource): void {
    for (const entry of [...this.window.entries()]) {
      if (entry.source === source && !entry.onWire) this.window.remove(entry);
    }
    this.#resends = this.#resends.filter((entry) => this.window.get(entry.packetId) === entry);
  }

  /** D7.1: the record stays on the wire for a connection that takes it. */
  #tooLarge(entry: WindowEntry): void {
    this.hangUp({
      code: Reason.PacketTooLarge,
      reason:
        `unacknowledged delivery ${entry.packetId} is larger than the Maximum Packet Size of this client`,
    });
  }

  /** The connection is gone; the session stays. */
  detach(): void {
    this.link = undefined;
    this.#filters.forget();
    this.#resends = [];
    this.#waiting.clear();
    this.window.detach();
    for (const source of this.#sources) source.detached?.();
  }

  /** What is stored of it. The store refuses a window that more is on the wire of than it holds. */
  record(): SessionRecord {
    return {
      clientId: this.clientId,
      expiry: this.expiry,
      awaySince: this.awaySince,
      subscriptions: [...this.subscriptions.values()],
      will: this.will,
      willDue: this.willDue,
      window: this.storedWindow(this.window.receiveMaximum),
    };
  }

  /** A Receive Maximum as it is stored: not below what an earlier connection left on the wire. */
  storedWindow(receiveMaximum: number): number {
    return Math.max(receiveMaximum, this.log?.window.size ?? 0);
  }
}
