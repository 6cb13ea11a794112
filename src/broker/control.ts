import type { Channel as ChannelConfiguration } from "../config/configuration.ts";
import type { Context } from "./context.ts";
import { catalogue } from "./control/catalogue.ts";
import { disconnect } from "./control/disconnect.ts";
import { get } from "./control/get.ts";
import { type ControlParts, type ControlRequest, VERBS, type Verbs } from "./control/request.ts";
import { response } from "./control/response.ts";
import { seek } from "./control/seek.ts";
import type { ClientLink } from "./link.ts";
import type { PublishRequest } from "./publish.ts";
import type { Refusal } from "./reason.ts";
import type { ControlTopic, Routes } from "./routes.ts";
import type { Session } from "./session.ts";

/**
 * The five request topics under `$saguin/` (06 sections 1 to 6, 12). Each verb is a file of `control/`;
 * which topic is which request is decided by `Routes`.
 */
export class ControlTopics {
  readonly #parts: ControlParts;

  /**
   * `hangUp` ends a client's connection and says whether there was one. `verbs`: what a session may do
   * on a channel now. `mayHangUp`: whether it may end other clients' connections.
   */
  constructor(
    context: Context,
    routes: Routes,
    channels: readonly ChannelConfiguration[],
    hangUp: (clientId: string) => boolean,
    verbs: Verbs = (_session, channel) => VERBS[channel.kind],
    mayHangUp: (session: Session) => boolean = () => true,
  ) {
    this.#parts = {
      context,
      routes,
      channels: new Map(channels.map((channel) => [channel.name, channel])),
      hangUp,
      verbs,
      mayHangUp,
    };
  }

  /**
   * Carries out one request. When it resolves, the reply has been written to `link`, so that it leaves
   * before the PUBACK; undefined is `0x00`. The refusal is for QoS 1 and 2: at QoS 0 the caller drops it.
   */
  async handle(
    session: Session,
    link: ClientLink,
    topic: ControlTopic,
    publish: PublishRequest,
  ): Promise<Refusal | undefined> {
    const request: ControlRequest = { session, link, publish };
    switch (topic.verb) {
      case "catalogue":
        return catalogue(this.#parts, request, topic.channel);
      case "get":
        return await get(this.#parts, request);
      case "seek":
        return await seek(this.#parts, request, topic.channel);
      case "response":
        return await response(this.#parts, request, topic.queue);
      case "disconnect":
        return disconnect(this.#parts, request);
    }
  }
}
