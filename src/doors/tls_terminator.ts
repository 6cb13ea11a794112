import { createHash, X509Certificate } from "node:crypto";
import { EventEmitter } from "node:events";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { Reason, type ReasonCode } from "../broker/reason.ts";
import type { TlsConfiguration } from "../config/configuration.ts";
import { errorText } from "../platform/log.ts";
import type { ByteLink } from "./byte_link.ts";
import { certificateName } from "./certificate_name.ts";
import { LinkDuplex } from "./link_duplex.ts";
import type { TlsMaterial } from "./tls_files.ts";
import { handshakeTurns } from "./turns.ts";
import { TlsLink } from "./tls_link.ts";

/** Certificates that a door remembers to have verified; the longest unseen goes first. */
const REMEMBERED_CERTIFICATES = 10_000;

/** The runtime's own end of a handshake; a door's `connect_timeout` comes before it. */
const HANDSHAKE_TIMEOUT_MS = 3_600_000;

/** A handshake that was completed. */
export interface Secured {
  readonly link: TlsLink;
  /** Undefined: there was no certificate, or it names nobody. */
  readonly name: string | undefined;
  /** There was a certificate, and it was verified. */
  readonly certificate: boolean;
}

/** Why there is no connection: the end of a sentence. */
export interface NotSecured {
  readonly refused: string;
  /** What the refusal is; undefined when the connection ended by itself. */
  readonly code: ReasonCode | undefined;
}

/**
 * TLS of one door. A client's certificate is verified by the runtime, against `client_ca_file` alone.
 *
 * Sessions need care: a ticket of any TLS server in this process is resumed by every other one, with the
 * certificate it was made with and no verification at all. So where certificates count, a resumed
 * session is taken only when this door itself has verified that very certificate, under the authorities
 * that are in force.
 */
export class TlsTerminator {
  readonly #server: Server;
  /** Fingerprints verified under the authorities in force, in the order in which they were last seen. */
  #verified = new Set<string>();

  constructor(private readonly tls: TlsConfiguration, material: TlsMaterial) {
    this.#server = createServer({
      ...material.context,
      requestCert: tls.clientCaFile !== undefined,
      rejectUnauthorized: tls.requireCertificate,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    });
    // Every handshake has a listener of its own (`secure`); a connection that ends here has none.
    this.#server.on("secureConnection", (socket) => socket.destroy());
  }

  /** Later handshakes use these; what is open stays as it is. */
  renew(material: TlsMaterial): void {
    this.#server.setSecureContext(material.context);
    this.#verified = new Set();
  }

  /** The handshake, over `link`, which is closed when it fails. Ends when `link` does. Never rejects. */
  secure(link: ByteLink): Promise<Secured | NotSecured> {
    const below = new LinkDuplex(link);
    const verified = this.#verified;
    return new Promise((resolve) => {
      const refuse = (refused: string, code: ReasonCode | undefined) => {
        below.destroy();
        resolve({ refused, code });
      };
      // What ended it, where it was the handshake itself, is said just after.
      const ended = () =>
        void setImmediate(refuse, "the connection ended during the handshake", undefined);
      below.on("error", (error) => refuse(errorText(error), undefined));
      below.on("end", ended);
      below.on("close", ended);
      // The server's events do not say which connection they are about, so each connection is given to
      // a stand-in that inherits everything but where its events go.
      const server = Object.create(this.#server) as Server;
      server.emit = (event: string | symbol, ...about: unknown[]): boolean => {
        if (event === "secureConnection") {
          below.off("end", ended);
          below.off("close", ended);
          resolve(this.#admit(about[0] as TLSSocket, below, verified));
        } else if (event === "tlsClientError") {
          const why = failure(about[0], about[1]);
          refuse(why, /certificate/i.test(why) ? Reason.NotAuthorized : Reason.ProtocolError);
        }
        return true;
      };
      const begin = () => EventEmitter.prototype.emit.call(server, "connection", below);
      below.opened()
        .then((opened) => opened ? handshakeTurns.run(begin) : ended())
        .catch((error) => refuse(errorText(error), undefined));
    });
  }

  #admit(socket: TLSSocket, below: LinkDuplex, verified: Set<string>): Secured | NotSecured {
    const refuse = (refused: string): NotSecured => {
      socket.on("error", () => {});
      socket.destroy();
      below.destroy();
      return { refused, code: Reason.NotAuthorized };
    };
    const secured = (name: string | undefined, certificate: boolean): Secured => ({
      link: new TlsLink(socket, below),
      name,
      certificate,
    });
    if (this.tls.clientCaFile === undefined) return secured(undefined, false);
    const der = (socket.getPeerCertificate() as { readonly raw?: Uint8Array } | null)?.raw;
    if (der === undefined) {
      return this.tls.requireCertificate
        ? refuse("the client showed no certificate")
        : secured(undefined, false);
    }
    const distrust = untrusted(socket, der, verified);
    return distrust === undefined ? secured(certificateName(der), true) : refuse(distrust);
  }
}

/** Why the certificate counts for nothing; undefined when it was verified, which `verified` remembers. */
function untrusted(socket: TLSSocket, der: Uint8Array, verified: Set<string>): string | undefined {
  if (!socket.authorized) {
    return unverified(socket.authorizationError);
  }
  const fingerprint = createHash("sha256").update(der).digest("base64");
  if (socket.isSessionReused()) {
    if (!verified.has(fingerprint)) {
      return "the client resumed a session whose certificate this door has not verified";
    }
    if (new X509Certificate(der).validToDate.getTime() <= Date.now()) {
      return "the client resumed a session whose certificate has expired";
    }
  }
  verified.delete(fingerprint);
  verified.add(fingerprint);
  if (verified.size > REMEMBERED_CERTIFICATES) {
    const [oldest] = verified;
    verified.delete(oldest);
  }
  return undefined;
}

function failure(error: unknown, socket: unknown): string {
  const why = (socket as TLSSocket | undefined)?.authorizationError;
  if (why) return unverified(why);
  const text = errorText(error);
  return /InvalidContentType/.test(text) ? `the client does not speak TLS: ${text}` : text;
}

/**
 * The runtime says the same of every certificate that it does not believe, so what may be wrong is said
 * beside it. Version 1 is what `openssl x509 -req` makes of a request without extensions.
 */
function unverified(why: unknown): string {
  return `the client's certificate was not verified: ${why}; it has to be of X.509 version 3, not expired, ` +
    "and signed by an authority of client_ca_file";
}
