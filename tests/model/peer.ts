/** A client's end of one connection: packets out, packets in, what it has not acknowledged. */
import { concat } from "./bytes.ts";
import {
  encodeConnect,
  encodeDisconnect,
  encodePingreq,
  encodePuback,
  encodePubcomp,
  encodePublish,
  encodePubrec,
  encodePubrel,
  encodeSubscribe,
  encodeUnsubscribe,
  parseServerPacket,
  type ServerPacket,
} from "../support/mqtt_bytes.ts";
import type { Subscription } from "./facts.ts";
import type { ClientWire, World } from "./world.ts";

export type Received = Extract<ServerPacket, { type: "publish" }>;

/** A delivery at QoS 1 or 2 that is not acknowledged. */
export interface Outstanding {
  readonly packetId: number;
  readonly qos: number;
  readonly mark: string;
  readonly topic: string;
  /** Of a shared subscription: its filter. */
  readonly shared: string | undefined;
  readonly kind: "append" | "latest" | "offer" | "cast" | "shared" | "retained";
  readonly channel: string;
  /** 0 where nobody knows it. */
  readonly offset: number;
  readonly era: number;
  /** Of a job. */
  readonly deliveryId: string;
  /** `recorded`: PUBREC went; `released`: PUBREL came. */
  state: "sent" | "recorded" | "released";
}

/** What an answer is waited for, by packet identifier. */
export type Request =
  | { readonly kind: "publish"; readonly mark: string }
  | { readonly kind: "subscribe"; readonly asked: Subscription; readonly handling: number }
  | { readonly kind: "unsubscribe"; readonly taken: Subscription | undefined }
  | { readonly kind: "other"; readonly answered: (code: number) => void };

export interface PeerEvents {
  packet(peer: Peer, packet: ServerPacket): void;
  closed(peer: Peer): void;
}

export class Peer {
  readonly outstanding = new Map<number, Outstanding>();
  readonly requests = new Map<number, Request>();
  /** CONNACK came. */
  connected = false;
  /** A DISCONNECT went. */
  leaving = false;
  closed = false;
  /** The DISCONNECT changes the session's expiry. */
  leavingExpiry: number | undefined;
  #wire: ClientWire | undefined;
  #pinged: (() => void)[] = [];
  #received: Uint8Array<ArrayBuffer> = new Uint8Array(0);

  constructor(
    readonly client: string,
    readonly level: 4 | 5,
    readonly number: number,
    private readonly events: PeerEvents,
  ) {}

  async open(world: World, deaf = false): Promise<void> {
    this.#wire = await world.open({
      data: (bytes) => this.#take(bytes),
      closed: () => this.#gone(),
    }, deaf);
  }

  #take(bytes: Uint8Array): void {
    this.#received = concat(this.#received, bytes);
    for (;;) {
      const parsed = parseServerPacket(this.#received, this.level);
      if (parsed === undefined) return;
      this.#received = this.#received.slice(parsed.size);
      if (parsed.packet.type === "pingresp") this.#pinged.shift()?.();
      else this.events.packet(this, parsed.packet);
    }
  }

  #gone(): void {
    if (this.closed) return;
    this.closed = true;
    this.#answerPings();
    this.events.closed(this);
  }

  /** The client goes; the broker finds out by itself. */
  cut(): void {
    if (this.closed) return;
    this.closed = true;
    this.#wire?.close();
    this.#answerPings();
    this.events.closed(this);
  }

  get usable(): boolean {
    return this.connected && !this.closed && !this.leaving;
  }

  /** Resolves when the broker has read all that was sent, or the connection is gone. */
  async read(): Promise<void> {
    if (!this.connected || this.closed) return;
    const answered = new Promise<void>((resolve) => this.#pinged.push(resolve));
    this.send(encodePingreq());
    await answered;
  }

  #answerPings(): void {
    for (const resolve of this.#pinged.splice(0)) resolve();
  }

  send(bytes: Uint8Array): void {
    if (!this.closed) this.#wire?.send(bytes);
  }

  connect(
    options: { clean: boolean; expiry: number; window: number; badWill?: boolean },
  ): void {
    this.send(encodeConnect({
      level: this.level,
      clientId: this.client,
      cleanStart: options.clean,
      ...(this.level === 5 && {
        properties: { sessionExpiry: options.expiry, receiveMaximum: options.window },
      }),
      ...(options.badWill === true && { will: { topic: "$saguin/nowhere", payload: "x" } }),
    }));
  }

  publish(options: {
    topic: string;
    payload: string;
    qos: number;
    packetId: number;
    retain?: boolean;
    dup?: boolean;
    id?: string;
    responseTopic?: string;
    correlationData?: Uint8Array;
  }): void {
    const { id, responseTopic, correlationData, ...rest } = options;
    this.send(encodePublish({
      ...rest,
      level: this.level,
      ...(this.level === 5 && {
        properties: {
          ...(id !== undefined && { userProperties: [["saguin-id", id] as const] }),
          ...(responseTopic !== undefined && { responseTopic }),
          ...(correlationData !== undefined && { correlationData }),
        },
      }),
    }));
  }

  pubrel(packetId: number): void {
    this.send(encodePubrel({ packetId }));
  }

  puback(packetId: number): void {
    this.send(encodePuback({ packetId }));
  }

  pubrec(packetId: number): void {
    this.send(encodePubrec({ packetId }));
  }

  pubcomp(packetId: number): void {
    this.send(encodePubcomp({ packetId }));
  }

  subscribe(
    packetId: number,
    filters: readonly string[],
    qos: number,
    handling: number,
    identifier?: number,
  ): void {
    this.send(encodeSubscribe({
      level: this.level,
      packetId,
      subscriptions: filters.map((filter) => ({
        filter,
        qos,
        ...(this.level === 5 && { retainHandling: handling }),
      })),
      ...(identifier !== undefined && { properties: { subscriptionIdentifiers: [identifier] } }),
    }));
  }

  unsubscribe(packetId: number, filter: string): void {
    this.send(encodeUnsubscribe({ level: this.level, packetId, filters: [filter] }));
  }

  disconnect(expiry: number | undefined): void {
    this.leaving = true;
    this.leavingExpiry = this.level === 4 ? undefined : expiry;
    this.send(encodeDisconnect(
      expiry === undefined || this.level === 4
        ? {}
        : { reasonCode: 0, properties: { sessionExpiry: expiry } },
    ));
  }
}
