import type { Offset } from "../storage/record.ts";
import type { Delivery } from "./link.ts";

/** Where a QoS 1 or 2 delivery came from; hears of its end. All calls return within the turn. */
export interface WindowSource {
  /**
   * A delivery that a resumed connection cannot take ends that connection (D7.1); otherwise it is
   * dropped (D7.2).
   */
  readonly neverSkips?: boolean;
  /** PUBACK, PUBCOMP, or a PUBREC that refused: the packet identifier is free again. */
  acknowledged(entry: WindowEntry): void;
  /**
   * PUBREC arrived. Calls `proceed` once PUBREL may leave: at once, or when the state is stored
   * (D8.10).
   */
  received(entry: WindowEntry, proceed: () => void): void;
  /**
   * The session was resumed: true re-sends the entry under its identifier, false drops it (D13.17).
   */
  resend(entry: WindowEntry): boolean;
}

/** One QoS 1 or 2 delivery on the wire, from its PUBLISH to its PUBACK or PUBCOMP. */
export interface WindowEntry {
  readonly packetId: number;
  readonly qos: 1 | 2;
  /**
   * `storing` is not sent yet: its identifier is being stored first. `sent` awaits PUBACK or PUBREC,
   * `received` has PUBREC, `released` was sent PUBREL.
   */
  state: "storing" | "sent" | "received" | "released";
  /** Sent on the present connection; what is not is no packet that this connection can answer. */
  onWire: boolean;
  /** The next time it is sent, it may have been sent before (MQTT-3.3.1-1). */
  dup: boolean;
  readonly source: WindowSource;
  readonly offset: Offset;
  /** The source's era when it was sent (D12.13); an acknowledgement from a closed one moves nothing. */
  readonly era: number;
  delivery: Delivery;
  /** Charged against `limits.session_queue_bytes`. */
  readonly bytes: number;
  /** Place in the order of sending; the window's own. */
  order: number;
  /** Neighbours among what its source has on the wire; the source's own. */
  older: WindowEntry | undefined;
  newer: WindowEntry | undefined;
}

/** Charged for an entry beside the size of its message (02a 13.1). */
export const ENTRY_BYTES = 600;

const LARGEST_PACKET_ID = 65_535;

/** Places of a window that holds something; they grow with it, up to one for each identifier. */
const FEWEST_PLACES = 8;
/** A window that is empty again keeps no more places than this. */
const KEPT_PLACES = 256;

type Places = (WindowEntry | undefined)[];

const NOWHERE: Places = [undefined];

/**
 * The window of one session: what is on the wire to it at QoS 1 and 2, bounded by the client's Receive
 * Maximum (D21.1) and by half of `limits.session_queue_bytes` (02a 13.1). Outlives connections.
 *
 * Each entry has the place of its identifier's low bits. Identifiers are given in order and come back
 * nearly so: a profile of a fan-out showed what a Map of them costs in garbage.
 */
export class Window {
  #places = NOWHERE;
  #size = 0;
  #bytes = 0;
  #lastId = 0;
  #order = 0;
  #onWire = 0;
  #receiveMaximum = LARGEST_PACKET_ID;

  /** `maximumBytes`: bytes that may be written and unacknowledged. */
  constructor(private readonly maximumBytes: number) {}

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get receiveMaximum(): number {
    return this.#receiveMaximum;
  }

  set receiveMaximum(value: number) {
    this.#receiveMaximum = Math.min(value, LARGEST_PACKET_ID);
  }

  /** Room for one more entry of `bytes`; one always fits an empty window, whatever its size. */
  fits(bytes: number): boolean {
    if (this.#size === 0) return true;
    return this.#size < this.#receiveMaximum && this.#bytes + bytes <= this.maximumBytes;
  }

  /** False when the Receive Maximum is reached: no entry fits, however small. */
  get open(): boolean {
    return this.#size < this.#receiveMaximum;
  }

  /** The present connection may be sent one more of the entries that an earlier one left behind. */
  get mayResend(): boolean {
    return this.#onWire < this.#receiveMaximum;
  }

  /** A free packet identifier, 1 to 65535. Called only when `fits` said so. */
  nextId(): number {
    if (2 * this.#size >= this.#places.length && this.#places.length <= LARGEST_PACKET_ID) {
      this.#grow();
    }
    const mask = this.#places.length - 1;
    let id = this.#lastId;
    do {
      id = id === LARGEST_PACKET_ID ? 1 : id + 1;
    } while (this.#places[id & mask] !== undefined);
    this.#lastId = id;
    return id;
  }

  /**
   * The packet identifier of a log message that can be told from its offset alone, so that a broker
   * that was killed before it stored it uses the same again (MQTT-4.4.0-1); undefined while something
   * else has it.
   */
  idOf(offset: Offset): number | undefined {
    const id = 1 + offset % LARGEST_PACKET_ID;
    return this.get(id) === undefined ? id : undefined;
  }

  /** The identifier is free. */
  add(entry: WindowEntry): void {
    while (this.#places === NOWHERE || this.#at(entry.packetId) !== undefined) this.#grow();
    this.#places[entry.packetId & (this.#places.length - 1)] = entry;
    this.#size++;
    entry.order = this.#order++;
    this.#bytes += entry.bytes;
    if (entry.onWire) this.#onWire++;
  }

  /** Twice the places, at most one for each identifier: no two entries share one. */
  #grow(): void {
    const old = this.#places;
    if (old.length > LARGEST_PACKET_ID) throw new Error("a packet identifier is used twice");
    const places: Places = new Array(Math.max(FEWEST_PLACES, 2 * old.length)).fill(undefined);
    for (const entry of old) {
      if (entry !== undefined) places[entry.packetId & (places.length - 1)] = entry;
    }
    this.#places = places;
  }

  #at(packetId: number): WindowEntry | undefined {
    return this.#places[packetId & (this.#places.length - 1)];
  }

  get(packetId: number): WindowEntry | undefined {
    const entry = this.#at(packetId);
    return entry?.packetId === packetId ? entry : undefined;
  }

  /** Frees the identifier. */
  remove(entry: WindowEntry): void {
    if (this.#at(entry.packetId) !== entry) return;
    this.#places[entry.packetId & (this.#places.length - 1)] = undefined;
    this.#size--;
    this.#bytes -= entry.bytes;
    if (entry.onWire) this.#onWire--;
    entry.onWire = false;
    if (this.#size === 0 && this.#places.length > KEPT_PLACES) this.#places = NOWHERE;
  }

  /** The entry was sent on the present connection. */
  sent(entry: WindowEntry): void {
    if (entry.onWire) return;
    entry.onWire = true;
    this.#onWire++;
  }

  /** The connection is gone: what was on its wire goes with DUP on the next one. */
  detach(): void {
    this.#onWire = 0;
    for (const entry of this.#places) {
      if (entry === undefined || !entry.onWire) continue;
      entry.dup = true;
      entry.onWire = false;
    }
    if (this.#size === 0) this.#places = NOWHERE;
  }

  /** Every entry, in the order sent. */
  entries(): WindowEntry[] {
    if (this.#size === 0) return [];
    const entries = this.#places.filter((entry) => entry !== undefined);
    return entries.sort((a, b) => a.order - b.order);
  }
}
