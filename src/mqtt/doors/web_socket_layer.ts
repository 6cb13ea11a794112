import { Reason, type ReasonCode } from "../../broker/reason.ts";
import type { Layer } from "../../doors/layers.ts";
import type { OriginRules } from "./origin.ts";
import { readUpgrade } from "./upgrade.ts";
import { WebSocketLink } from "./web_socket_link.ts";

/** @param rules asked at each request, since a reload replaces them */
export function webSocketLayer(secure: boolean, rules: () => OriginRules): Layer {
  return async (below, { log, listener, ending, onRefused }) => {
    const { link, address } = below;
    const upgrade = await readUpgrade(link, secure, rules);
    if (upgrade === undefined) return undefined;
    const opens = "response" in upgrade;
    if (!opens) {
      ending?.();
      onRefused?.(codeOf(upgrade.status));
      log.warn("answered a request without opening a WebSocket", {
        listener,
        address,
        reason: upgrade.reason,
        origin: upgrade.origin,
      });
    }
    try {
      await link.write(opens ? upgrade.response : upgrade.refusal);
    } catch {
      return undefined;
    }
    if (!opens) return undefined;
    const broken = () => {
      onRefused?.(Reason.ProtocolError);
      log.warn("closed a WebSocket whose client broke its protocol", { listener, address });
    };
    return { ...below, link: new WebSocketLink(link, upgrade.rest, broken) };
  };
}

/** The MQTT name of what HTTP refused, for the counters. */
function codeOf(status: number): ReasonCode {
  if (status === 403) return Reason.NotAuthorized;
  return status === 431 ? Reason.PacketTooLarge : Reason.ProtocolError;
}
