import type { Broker } from "../../broker/broker.ts";
import { Reason, type ReasonCode, refusalName } from "../../broker/reason.ts";
import type { Place } from "../../doors/admission.ts";
import { type Accepted, carry, type Layer } from "../../doors/layers.ts";
import type { Timer } from "../../platform/timers.ts";
import type { ConnectRules } from "../connect.ts";
import { type Arrival, type Identify, MqttConnection } from "../connection.ts";
import { answerBusy } from "./busy.ts";

/** How long a socket waits for a slot, and how long it may exist without one (02a 13.3). */
const WAIT_MS = 50;
const UNADMITTED_MS = 100;

/** What all openings of a door share. */
export interface OpeningContext {
  readonly broker: Broker;
  readonly rules: ConnectRules;
  readonly identify: Identify;
  /** The door's name. */
  readonly listener: string;
  readonly layers: readonly Layer[];
  /** Whether a client without a slot is told so in MQTT. */
  readonly answersBusy: boolean;
  /** The opening is over: its CONNECT was read, or there will be none. */
  readonly onOver: (opening: Opening) => void;
}

/**
 * A connection from its accept to its CONNECT: the wait for a slot, the layers of its door, and one
 * clock, `limits.connect_timeout`, over all of it.
 */
export class Opening {
  #timeout: Timer | undefined;
  #counted = false;

  /** The caller has taken `place` for it. */
  constructor(
    private readonly context: OpeningContext,
    private readonly accepted: Accepted,
    private readonly place: Place,
  ) {
    const { timers, limits } = context.broker.context;
    this.#timeout = timers.after(limits.connectTimeoutMs, () => this.#late());
  }

  /** Closes without a word; `run` then ends, or the connection that it has answered. */
  cut(): void {
    this.accepted.link.close();
  }

  /** The connection, ready to be run; undefined when there is none to serve. Never rejects. */
  async run(): Promise<MqttConnection | undefined> {
    if (!this.place.hasSlot && !await this.#waitForSlot()) return undefined;
    const { broker: { context: { log, timers } }, listener, layers } = this.context;
    const ending = () => this.place.leave();
    const onRefused = (code: ReasonCode) => this.#count(code);
    const context = { log, timers, listener, ending, onRefused };
    const carried = await carry(this.accepted, layers, context);
    if (carried === undefined) {
      this.#over();
      return undefined;
    }
    if (!this.place.hasSlot) {
      if (await answerBusy(carried.link)) this.#countBusy(carried.address);
      carried.link.close();
      this.#over();
      return undefined;
    }
    const arrival = new Arrived(this, this.place, carried.address, carried.proved);
    return new MqttConnection(this.context, carried.link, arrival);
  }

  /** False when the socket was closed; true also without a slot, for a client that is to be told. */
  async #waitForSlot(): Promise<boolean> {
    const { timers } = this.context.broker.context;
    const wait = timers.after(WAIT_MS, () => this.place.stopWaiting());
    await new Promise<void>((resolve) => this.place.onSettled(resolve));
    wait.cancel();
    if (this.place.hasSlot) return true;
    if (!this.context.answersBusy) {
      this.#countBusy(this.accepted.address);
      this.#over();
      return false;
    }
    const unadmitted = timers.after(UNADMITTED_MS - WAIT_MS, () => this.cut());
    this.#timeout?.cancel();
    this.#timeout = unadmitted;
    return true;
  }

  /** The one clock over everything before the CONNECT has run out. */
  #late(): void {
    this.#count(Reason.MaximumConnectTime);
    this.context.broker.context.log.warn("refused a connection", {
      listener: this.context.listener,
      address: this.accepted.address,
      code: Reason.MaximumConnectTime,
      reason: "there was no CONNECT within limits.connect_timeout",
    });
    this.cut();
  }

  /** One connection is refused once: what waits in a layer when it is cut finds its own reason later. */
  #count(code: ReasonCode): void {
    if (this.#counted) return;
    this.#counted = true;
    this.context.broker.context.counters.connectionsRefused.add(refusalName({ code }));
  }

  #countBusy(address: string): void {
    this.#count(Reason.ServerBusy);
    this.context.broker.context.log.warn("refused a connection", {
      listener: this.context.listener,
      address,
      code: Reason.ServerBusy,
      reason: "every place of limits.max_connections is taken",
    });
  }

  /** There will be no CONNECT. */
  #over(): void {
    this.accepted.link.close();
    this.place.leave();
    this.opened();
  }

  /** @internal */
  opened(): void {
    this.#timeout?.cancel();
    this.#timeout = undefined;
    this.context.onOver(this);
  }
}

/** What a connection keeps of its opening: as little as it can, since it may idle for months. */
class Arrived implements Arrival {
  #opening: Opening | undefined;

  constructor(
    opening: Opening,
    private readonly place: Place,
    readonly address: string,
    readonly proved: string | undefined,
  ) {
    this.#opening = opening;
  }

  opened(): void {
    this.#opening?.opened();
    this.#opening = undefined;
  }

  ending(): void {
    this.place.leave();
    this.opened();
  }
}
