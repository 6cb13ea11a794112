import { Channel, type ChannelLink } from "./channel.ts";
import { Reply } from "./reply.ts";
import { WireFault } from "./wire/fault.ts";

/** The open channels of one connection, by number (A19). */
export class Channels {
  readonly #open = new Map<number, Channel>();
  /** The highest number; known after tuning. */
  most = 0;

  constructor(private readonly link: ChannelLink) {}

  /** @throws WireFault 504 when it is open already, 530 above `channel_max` */
  open(number: number): void {
    if (this.#open.has(number)) {
      throw new WireFault(Reply.ChannelError, `channel ${number} is open already`);
    }
    if (number > this.most) {
      throw new WireFault(
        Reply.NotAllowed,
        `channel ${number} is above the channel_max of ${this.most}`,
      );
    }
    const channel = new Channel(number, this.link);
    this.#open.set(number, channel);
    this.link.host.counters.channels++;
    channel.write("channel.open-ok", {});
  }

  /** @throws WireFault 504 when no such channel is open */
  get(number: number, what: string): Channel {
    const channel = this.#open.get(number);
    if (channel === undefined) {
      throw new WireFault(Reply.ChannelError, `${what} on channel ${number}, which is not open`);
    }
    return channel;
  }

  /** The number of a channel is free again. */
  closed(channel: Channel): void {
    if (this.#open.get(channel.number) !== channel) return;
    this.#open.delete(channel.number);
    this.link.host.counters.channels--;
  }

  /** Resolves when everything that was read whole on any channel is done. */
  async finished(): Promise<void> {
    await Promise.all([...this.#open.values()].map((channel) => channel.finished()));
  }

  flushConfirms(): void {
    for (const channel of this.#open.values()) channel.flushConfirms();
  }

  /** Consumers may have capacity again. */
  wake(): void {
    for (const channel of this.#open.values()) channel.deliveries.wakeAll();
  }

  /** The connection ends: what is out on any channel goes back (A47). */
  end(): void {
    for (const channel of this.#open.values()) channel.end();
  }

  /** The connection is gone, its channels with it. */
  clear(): void {
    this.link.host.counters.channels -= this.#open.size;
    this.#open.clear();
  }
}
