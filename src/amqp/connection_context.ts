import type { Clock } from "../platform/clock.ts";
import type { Declarations } from "./declarations.ts";
import type { Access } from "./login.ts";
import type { Publishing } from "./publishing.ts";
import type { TuneOffer } from "./tuning.ts";
import type { VirtualHost } from "./virtual_host.ts";

/** What a door gives to all of its connections. */
export interface ConnectionContext {
  readonly host: VirtualHost;
  readonly declarations: Declarations;
  readonly publishing: Publishing;
  readonly access: Access;
  readonly clock: Clock;
  readonly listener: string;
  readonly offer: TuneOffer;
  readonly handshakeTimeoutMs: number;
  readonly maxMessageBytes: number;
  readonly maxUnacked: number;
  readonly publishBatch: number;
  readonly outboundHighWater: number;
}
