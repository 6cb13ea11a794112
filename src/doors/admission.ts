import type { Clock } from "../platform/clock.ts";

/** Most sockets that may be open without a slot (02a 13.3). */
const OVERFLOW_PLACES = 32;

/**
 * The connections of all MQTT and AMQP doors together, bounded by `limits.max_connections` (02a 13.3):
 *
 *     enter() -> slot ------------------------------> left
 *            \-> waiting -> slot (first come) -------> left
 *                       \-> refusing (wait is over) -> left
 *
 * A place that waits or refuses is one of a few overflow places. Knows no time: how long a place waits
 * is its door's business.
 */
export class Admission {
  #slots = 0;
  #overflow = 0;
  readonly #overflowPlaces: number;
  #waiting: Place[] = [];
  #stopped = false;

  constructor(private readonly maximum: number) {
    this.#overflowPlaces = Math.min(maximum, OVERFLOW_PLACES);
  }

  /** Connections that hold a slot. */
  get open(): number {
    return this.#slots;
  }

  /** Open sockets without a slot. */
  get overflow(): number {
    return this.#overflow;
  }

  /** The place of a socket that arrived; undefined when it has to be closed at once. */
  enter(): Place | undefined {
    if (this.#stopped) return undefined;
    if (this.#slots < this.maximum) {
      this.#slots++;
      return new Place(this, "slot");
    }
    if (this.#overflow >= this.#overflowPlaces) return undefined;
    this.#overflow++;
    const place = new Place(this, "waiting");
    this.#waiting.push(place);
    return place;
  }

  /** Nobody is admitted any more; whoever waits for a slot hears that there is none. */
  stop(): void {
    this.#stopped = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const place of waiting) place.settle("refusing");
  }

  /** @internal */
  leave(state: PlaceState, place: Place): void {
    if (state === "slot") {
      // First come, first served; a newcomer finds no slot free as long as somebody waits.
      const next = this.#waiting.shift();
      if (next === undefined) this.#slots--;
      else {
        this.#overflow--;
        next.settle("slot");
      }
      return;
    }
    this.#overflow--;
    if (state === "waiting") this.giveUp(place);
  }

  /** @internal */
  giveUp(place: Place): void {
    const at = this.#waiting.indexOf(place);
    if (at >= 0) this.#waiting.splice(at, 1);
  }
}

type PlaceState = "slot" | "waiting" | "refusing" | "left";

/** What one socket holds of the bound. */
export class Place {
  #onSettled: (() => void) | undefined;

  /** @internal */
  constructor(private readonly admission: Admission, private state: PlaceState) {}

  get hasSlot(): boolean {
    return this.state === "slot";
  }

  /** Runs `settled` once the place has got a slot or may not wait any more; at once when it is so. */
  onSettled(settled: () => void): void {
    if (this.state === "waiting") this.#onSettled = settled;
    else settled();
  }

  /** The wait is over: without a slot by now, the place is there for refusing its client. */
  stopWaiting(): void {
    if (this.state !== "waiting") return;
    this.admission.giveUp(this);
    this.settle("refusing");
  }

  /** Gives back what it holds. Idempotent. */
  leave(): void {
    const { state } = this;
    if (state === "left") return;
    this.state = "left";
    this.admission.leave(state, this);
    this.#settled();
  }

  /** @internal */
  settle(state: PlaceState): void {
    this.state = state;
    this.#settled();
  }

  #settled(): void {
    const settled = this.#onSettled;
    this.#onSettled = undefined;
    settled?.();
  }
}

/** `limits.max_connect_rate` of one door: a token bucket with a burst of twice the rate. */
export class ConnectRate {
  #tokens: number;
  #filledAt: number;

  /** `perSecond` undefined admits everything. */
  constructor(private readonly perSecond: number | undefined, private readonly clock: Clock) {
    this.#tokens = (perSecond ?? 0) * 2;
    this.#filledAt = clock.monotonic();
  }

  /** Milliseconds until the next connection may be taken from the accept queue; 0 takes it now. */
  next(): number {
    if (this.perSecond === undefined) return 0;
    const now = this.clock.monotonic();
    this.#tokens = Math.min(
      this.perSecond * 2,
      this.#tokens + (now - this.#filledAt) * this.perSecond / 1_000,
    );
    this.#filledAt = now;
    if (this.#tokens < 1) return Math.ceil((1 - this.#tokens) * 1_000 / this.perSecond);
    this.#tokens--;
    return 0;
  }
}
