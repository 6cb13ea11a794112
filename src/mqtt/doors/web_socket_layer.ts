import type { Layer } from "../../doors/layers.ts";
import type { OriginRules } from "./origin.ts";
import { readUpgrade } from "./upgrade.ts";
import { WebSocketLink } from "./web_socket_link.ts";

/** @param rules asked at each request, since a reload replaces them */
export function webSocketLayer(secure: boolean, rules: () => OriginRules): Layer {
  return async (below, { log, listener, ending }) => {
    const { link, address } = below;
    const upgrade = await readUpgrade(link, secure, rules);
    if (upgrade === undefined) return undefined;
    const opens = "response" in upgrade;
    if (!opens) {
      ending?.();
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
    return opens ? { ...below, link: new WebSocketLink(link, upgrade.rest) } : undefined;
  };
}
