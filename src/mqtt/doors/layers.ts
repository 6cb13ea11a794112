import type { Log } from "../../platform/log.ts";
import type { Timers } from "../../platform/timers.ts";
import type { ByteLink } from "./byte_link.ts";
import type { OriginRules } from "./origin.ts";
import { believedName, type ProxyReading, readProxyHeader } from "./proxy_header.ts";
import type { TlsTerminator } from "./tls_terminator.ts";
import { readUpgrade } from "./upgrade.ts";
import { WebSocketLink } from "./web_socket_link.ts";

/** What one connection has become so far. */
export interface Carried {
  readonly link: ByteLink;
  /** Peer address as logs print it. */
  readonly address: string;
  /** The user name that a certificate or a proxy proved. */
  readonly proved: string | undefined;
}

/** What a layer needs to know of its connection's door. */
export interface LayerContext {
  readonly log: Log;
  readonly timers: Timers;
  /** The door's name, for logs. */
  readonly listener: string;
  /** The connection is not going to be served: its place is free before the last answer leaves. */
  readonly ending: () => void;
}

/**
 * One layer of a connection, put on before MQTT begins. Undefined when that failed: the reason is then
 * logged and the link below is not used any more. Ends when the link below is closed. Never rejects.
 */
export type Layer = (below: Carried, context: LayerContext) => Promise<Carried | undefined>;

export function tlsLayer(terminator: TlsTerminator): Layer {
  return async ({ link, address }, { log, listener }) => {
    const secured = await terminator.secure(link);
    if ("refused" in secured) {
      log.warn("refused a connection in its TLS handshake", {
        listener,
        address,
        reason: secured.refused,
      });
      return undefined;
    }
    const { name } = secured;
    if (secured.certificate && name === undefined) {
      log.info("a verified certificate has neither a Common Name nor a DNS name and names nobody", {
        listener,
        address,
      });
    }
    return { link: secured.link, address, proved: name };
  };
}

/** How long a proxy has for its header (02b 4.5). */
export const PROXY_HEADER_MS = 5_000;

export const proxyLayer: Layer = async ({ link, address }, { log, listener, timers }) => {
  const deadline = timers.after(PROXY_HEADER_MS, () => link.close());
  const reading = await readHeader(link);
  deadline.cancel();
  if (reading === undefined) return undefined;
  if (reading.state === "refused") {
    log.warn("refused a connection by its PROXY header", {
      listener,
      address,
      reason: reading.reason,
    });
    return undefined;
  }
  const { source, tls } = reading.header;
  const client = source ?? address;
  const proved = believedName(tls);
  if (proved !== undefined) {
    log.info("the proxy vouches for a client", { listener, address: client, principal: proved });
  } else if (tls !== undefined && tls.used && tls.verifyResult !== 0) {
    log.info("the proxy could not verify a client's certificate, which therefore names nobody", {
      listener,
      address: client,
      verify_result: tls.verifyResult,
    });
  }
  return { link, address: client, proved };
};

/** Reads the header and not a byte more; undefined when the stream ends first. */
async function readHeader(
  link: ByteLink,
): Promise<Exclude<ProxyReading, { state: "incomplete" }> | undefined> {
  let bytes = new Uint8Array(0);
  for (let have = 0;;) {
    const reading = readProxyHeader(bytes.subarray(0, have));
    if (reading.state !== "incomplete") return reading;
    if (reading.needed > bytes.length) {
      const grown = new Uint8Array(reading.needed);
      grown.set(bytes);
      bytes = grown;
    }
    const count = await link.read(bytes.subarray(have, reading.needed));
    if (count === null) return undefined;
    have += count;
  }
}

/** @param rules asked at each request, since a reload replaces them */
export function webSocketLayer(secure: boolean, rules: () => OriginRules): Layer {
  return async ({ link, address, proved }, { log, listener, ending }) => {
    const upgrade = await readUpgrade(link, secure, rules);
    if (upgrade === undefined) return undefined;
    const opens = "response" in upgrade;
    if (!opens) {
      ending();
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
    return opens ? { link: new WebSocketLink(link, upgrade.rest), address, proved } : undefined;
  };
}
