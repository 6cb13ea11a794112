import type { ByteLink } from "./byte_link.ts";
import { type Accepted, type Carried, carry, type Layer, type LayerContext } from "./layers.ts";

/** The connections of one door whose layers are being put on, each with a deadline. */
export class Handshakes {
  readonly #links = new Set<ByteLink>();

  constructor(
    private readonly layers: readonly Layer[],
    private readonly context: LayerContext,
    private readonly deadlineMs: number,
  ) {}

  /** How many are under way. */
  get size(): number {
    return this.#links.size;
  }

  /** Undefined when there is nothing to serve: the connection is closed. Never rejects. */
  async carry(accepted: Accepted): Promise<Carried | undefined> {
    const { link } = accepted;
    this.#links.add(link);
    const deadline = this.context.timers.after(this.deadlineMs, () => link.close());
    const carried = await carry(accepted, this.layers, this.context);
    deadline.cancel();
    this.#links.delete(link);
    if (carried === undefined) link.close();
    return carried;
  }

  /** Closes all that are under way. */
  cut(): void {
    for (const link of this.#links) link.close();
  }
}
