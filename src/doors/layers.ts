import { Reason, type ReasonCode } from "../broker/reason.ts";
import type { Log } from "../platform/log.ts";
import type { Timers } from "../platform/timers.ts";
import type { ByteLink } from "./byte_link.ts";
import { believedName, type ProxyReading, readProxyHeader } from "./proxy_header.ts";
import type { TlsTerminator } from "./tls_terminator.ts";

/** A connection as it was accepted. */
export interface Accepted {
  readonly link: ByteLink;
  /** Peer address as logs print it. */
  readonly address: string;
}

/** What one connection has become so far. */
export interface Carried extends Accepted {
  /** Somebody was vouched for: a certificate was verified, here or by a proxy. It may name nobody. */
  readonly certified: boolean;
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
  readonly ending?: () => void;
  /** A layer refused the connection; one that its peer or its deadline ended was not refused by it. */
  readonly onRefused?: (code: ReasonCode) => void;
}

/**
 * One layer of a connection, put on before its protocol begins. Undefined when that failed: the reason is
 * then logged and the link below is not used any more. Ends when the link below is closed. Never rejects.
 */
export type Layer = (below: Carried, context: LayerContext) => Promise<Carried | undefined>;

/** Puts on all layers of a door, in order; undefined when one of them failed. Never rejects. */
export async function carry(
  { link, address }: Accepted,
  layers: readonly Layer[],
  context: LayerContext,
): Promise<Carried | undefined> {
  let carried: Carried | undefined = { link, address, certified: false, proved: undefined };
  for (const layer of layers) {
    carried = await layer(carried, context);
    if (carried === undefined) return undefined;
  }
  return carried;
}

export function tlsLayer(terminator: TlsTerminator): Layer {
  return async ({ link, address }, { log, listener, onRefused }) => {
    const secured = await terminator.secure(link);
    if ("refused" in secured) {
      if (secured.code !== undefined) onRefused?.(secured.code);
      log.warn("refused a connection in its TLS handshake", {
        listener,
        address,
        reason: secured.refused,
      });
      return undefined;
    }
    const { certificate: certified, name } = secured;
    if (certified && name === undefined) {
      log.info("a verified certificate has neither a Common Name nor a DNS name and names nobody", {
        listener,
        address,
      });
    }
    return { link: secured.link, address, certified, proved: name };
  };
}

/** How long a proxy has for its header (02b 4.5). */
export const PROXY_HEADER_MS = 5_000;

export const proxyLayer: Layer = async (
  { link, address },
  { log, listener, timers, onRefused },
) => {
  const deadline = timers.after(PROXY_HEADER_MS, () => {
    onRefused?.(Reason.MaximumConnectTime);
    log.warn("refused a connection by its PROXY header", {
      listener,
      address,
      reason: `it was not there within ${PROXY_HEADER_MS / 1_000}s`,
    });
    link.close();
  });
  const reading = await readHeader(link);
  deadline.cancel();
  if (reading === undefined) return undefined;
  if (reading.state === "refused") {
    onRefused?.(Reason.ProtocolError);
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
  return { link, address: client, certified: proved !== undefined, proved };
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
