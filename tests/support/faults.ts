/** Stores that refuse or wait when a test says so. */
import { type Provider, type PublishEntry, StorageFailure } from "../../src/storage/contract.ts";

/** Where a fault is placed: `<part>.<method>`, such as `sessions.save` or `log.savePosition`. */
export type FaultPlace = string;

/** Calls of one place that wait until a test lets them go on. */
export interface Gate {
  /** Calls that wait now. */
  readonly waiting: number;
  /** Lets the waiting ones, and all to come, go on. */
  open(): void;
}

interface Refusing {
  readonly kind: "full" | "failed";
  left: number;
}

/**
 * Faults of the stores of one broker. Nothing is slowed or reordered where none is placed: the call
 * goes straight through.
 */
export class Faults {
  readonly #refusing = new Map<FaultPlace, Refusing>();
  readonly #gates = new Map<FaultPlace, { waiting: (() => void)[] }>();
  /** Calls that went through, by place. */
  readonly calls = new Map<FaultPlace, number>();
  /** Calls that went through and are not answered yet. */
  underWay = 0;

  /** The next `times` calls are refused without reaching the store. */
  refuse(place: FaultPlace, kind: "full" | "failed" = "failed", times = Infinity): void {
    this.#refusing.set(place, { kind, left: times });
  }

  /** No refusals any more. */
  relent(place: FaultPlace): void {
    this.#refusing.delete(place);
  }

  /** Calls of `place` wait from now on. */
  hold(place: FaultPlace): Gate {
    const gate = { waiting: [] as (() => void)[] };
    this.#gates.set(place, gate);
    return {
      get waiting() {
        return gate.waiting.length;
      },
      open: () => {
        this.#gates.delete(place);
        for (const go of gate.waiting.splice(0)) go();
      },
    };
  }

  /** No refusals and no gates any more; what waits goes on. */
  clear(): void {
    this.#refusing.clear();
    const gates = [...this.#gates.values()];
    this.#gates.clear();
    for (const gate of gates) for (const go of gate.waiting.splice(0)) go();
  }

  /** Puts the places of `provider` under control. `session`: it keeps the sessions. */
  watch(provider: Provider, channels: readonly (readonly [string, object])[], session: boolean) {
    for (const [name, store] of channels) {
      for (const method of METHODS) {
        if (method in store) this.#wrap(store as Wrapped, method, `${name}.${method}`);
      }
    }
    if (session) {
      const sessions = provider.sessions();
      for (const method of ["begin", "save", "end", "change"]) {
        this.#wrap(sessions as unknown as Wrapped, method, `sessions.${method}`);
      }
    }
    const submit = provider.submit.bind(provider);
    provider.submit = (entry: PublishEntry) => {
      const refusal = this.#refusal("submit");
      if (refusal !== undefined) return queueMicrotask(() => entry.settled(refusal));
      const gate = this.#gates.get("submit");
      if (gate !== undefined) gate.waiting.push(() => submit(entry));
      else submit(entry);
    };
  }

  #wrap(object: Wrapped, method: string, place: FaultPlace): void {
    const original = object[method].bind(object);
    object[method] = (...args: unknown[]) => {
      const refusal = this.#refusal(place);
      if (refusal !== undefined) return Promise.reject(refusal);
      const gate = this.#gates.get(place);
      if (gate === undefined) return this.#counted(original(...args));
      return new Promise<void>((resolve) => gate.waiting.push(resolve))
        .then(() => this.#counted(original(...args)));
    };
  }

  #counted(answer: unknown): unknown {
    if (!(answer instanceof Promise)) return answer;
    this.underWay++;
    const answered = () => void this.underWay--;
    answer.then(answered, answered);
    return answer;
  }

  #refusal(place: FaultPlace): StorageFailure | undefined {
    const refusing = this.#refusing.get(place);
    if (refusing === undefined || refusing.left <= 0) {
      this.calls.set(place, (this.calls.get(place) ?? 0) + 1);
      return undefined;
    }
    refusing.left--;
    return new StorageFailure(refusing.kind, `a test lets ${place} fail`);
  }
}

type Wrapped = Record<string, (...args: unknown[]) => unknown>;

const METHODS = [
  "savePosition",
  "dropPosition",
  "position",
  "readFrom",
  "removeMany",
  "releaseHold",
  "abandonHold",
  "scan",
];
