import type { Context } from "../broker/context.ts";
import type { Channel } from "../broker/routes.ts";
import type { AmqpConfiguration } from "../config/configuration.ts";
import type { Provider } from "../storage/contract.ts";
import type { ConnectionContext } from "./connection_context.ts";
import { Crossing, type CrossingSurroundings } from "./crossing.ts";
import { Declarations } from "./declarations.ts";
import type { Access } from "./login.ts";
import { Publishing } from "./publishing.ts";
import { JobQueue } from "./queues/job_queue.ts";
import { recover } from "./recovery.ts";
import { VirtualHost } from "./virtual_host.ts";

/** What AMQP needs of the broker core. */
export interface BrokerParts extends Pick<CrossingSurroundings, "publisher" | "access"> {
  readonly channels: readonly Channel[];
}

/** Everything of AMQP but its doors: made once, before the first door serves. */
export class Amqp {
  readonly host: VirtualHost;
  readonly declarations: Declarations;
  readonly publishing: Publishing;

  private constructor(
    private readonly configuration: AmqpConfiguration,
    private readonly context: Context,
    provider: Provider,
    broker: BrokerParts,
  ) {
    const { vhost: name, maxReady, maxReadyBytes, maxObjects } = configuration;
    const { ackCommitIntervalMs, timers, log, ids } = context;
    this.host = new VirtualHost(
      { name, maxReady, maxReadyBytes, maxObjects, ackCommitIntervalMs },
      { provider, timers, log, ids },
    );
    this.declarations = new Declarations(this.host);
    const { publisher, access, channels } = broker;
    for (const channel of channels) {
      if (channel.kind !== "queue") continue;
      this.host.jobQueues.set(channel.name, new JobQueue(channel, this.host, access));
    }
    const surroundings = { publisher, access, limits: context.limits };
    const crossing = new Crossing(this.host, surroundings, configuration.crossing);
    this.publishing = new Publishing(this.host, crossing);
    if (configuration.crossing) publisher.copying.push(crossing);
  }

  /**
   * Brings back what is stored (A59), and joins what MQTT publishes and works on. @throws StorageFailure
   */
  static async open(
    configuration: AmqpConfiguration,
    context: Context,
    provider: Provider,
    broker: BrokerParts,
  ): Promise<Amqp> {
    const amqp = new Amqp(configuration, context, provider, broker);
    const { queues, messages, dropped, orphans } = await recover(amqp.host);
    context.log.info("AMQP recovered what is stored", {
      queues,
      messages,
      dropped: dropped > 0 ? dropped : undefined,
      orphans: orphans > 0 ? orphans : undefined,
      storage: provider.name,
    });
    return amqp;
  }

  get handshakeTimeoutMs(): number {
    return this.configuration.handshakeTimeoutMs;
  }

  /** What the connections of a door are given. */
  connectionContext(listener: string, access: Access): ConnectionContext {
    const { configuration, context, host, declarations, publishing } = this;
    return {
      host,
      declarations,
      publishing,
      access,
      clock: context.clock,
      listener,
      offer: {
        channelMax: configuration.channelMax,
        frameMax: configuration.frameMax,
        heartbeat: configuration.heartbeatMs === undefined ? 0 : configuration.heartbeatMs / 1_000,
      },
      handshakeTimeoutMs: configuration.handshakeTimeoutMs,
      maxMessageBytes: context.limits.maxMessageSize,
      maxUnacked: configuration.maxUnacked,
      publishBatch: configuration.publishBatch,
      outboundHighWater: configuration.outboundHighWater,
    };
  }

  /** Stores what is settled. Every connection is gone, the providers are open still. */
  stop(): Promise<void> {
    return this.host.stop();
  }
}
