import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { SecureContextOptions } from "node:tls";
import type { Configuration, TlsConfiguration } from "../config/configuration.ts";
import type { Findings } from "../config/finding.ts";
import type { ReadFile } from "../config/named_files.ts";
import { unreadable } from "../config/walk.ts";
import { readNamedFile } from "../platform/files.ts";
import { errorText } from "../platform/log.ts";

/** Certificates that were read and found to belong together, ready to be put into force. */
export interface TlsMaterial {
  readonly context: SecureContextOptions;
  /** When the door's own certificate ends. */
  readonly expires: Date;
}

/** What is wrong with one file of a `tls` block. */
interface TlsFault {
  readonly key: "cert_file" | "key_file" | "client_ca_file";
  readonly file: string;
  /** The end of a sentence that begins with the file. */
  readonly says: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Reads the files of a `tls` block. The runtime takes any text for a certificate and says so at the
 * first handshake; here it is said before a port opens (02a 16.3).
 *
 * @param door how messages call it, such as `broker.mqtt.listen.tcp`
 * @throws Error with one sentence naming the door, the key and the file
 */
export function readTlsFiles(tls: TlsConfiguration, door: string): TlsMaterial {
  const read = new TlsFiles(tls, readNamedFile);
  const [fault] = read.faults;
  if (fault !== undefined) {
    throw new Error(`${door}.tls.${fault.key}: ${fault.file} ${fault.says}`);
  }
  return read.material!;
}

/** Reads the TLS files of every door and tells `findings` all that is wrong with them. */
export function checkTlsFiles(
  { mqtt, operations, amqp, files }: Configuration,
  readFile: ReadFile,
  findings: Findings,
): void {
  const told = new Set<string>();
  for (const door of [...mqtt.doors, ...operations?.doors ?? [], ...amqp?.doors ?? []]) {
    if (!("tls" in door) || door.tls === undefined) continue;
    for (const { file, says } of new TlsFiles(door.tls, readFile).faults) {
      // Doors may share a file, and what is wrong with it is told at every key already.
      if (told.has(`${file} ${says}`)) continue;
      told.add(`${file} ${says}`);
      files.refuse(file, says, findings);
    }
  }
}

/** The files of one block as they are now. */
class TlsFiles {
  readonly faults: TlsFault[] = [];
  /** Undefined when there are faults. */
  readonly material: TlsMaterial | undefined;

  constructor(tls: TlsConfiguration, private readonly readFile: ReadFile) {
    const cert = this.#text("cert_file", tls.certFile);
    const key = this.#text("key_file", tls.keyFile);
    const ca = tls.clientCaFile === undefined
      ? undefined
      : this.#text("client_ca_file", tls.clientCaFile);
    const own = cert && this.#certificates("cert_file", tls.certFile, cert)?.[0];
    const privateKey = key && this.#key(tls.keyFile, key);
    if (ca !== undefined) this.#certificates("client_ca_file", tls.clientCaFile!, ca);
    if (own && privateKey && !own.checkPrivateKey(privateKey)) {
      this.#fault(
        "key_file",
        tls.keyFile,
        `is not the key of the first certificate in ${tls.certFile}; name the two that belong together`,
      );
    }
    if (this.faults.length > 0) return;
    this.material = {
      context: {
        cert,
        key,
        minVersion: tls.minVersion === "1.3" ? "TLSv1.3" : "TLSv1.2",
        ...ca === undefined ? {} : { ca: ca.match(CERTIFICATE)! },
      },
      expires: (own as X509Certificate).validToDate,
    };
  }

  #fault(key: TlsFault["key"], file: string, says: string): undefined {
    this.faults.push({ key, file, says });
  }

  #text(key: TlsFault["key"], file: string): string | undefined {
    try {
      return new TextDecoder().decode(this.readFile(file));
    } catch (error) {
      return this.#fault(key, file, unreadable(error));
    }
  }

  /** At least one. */
  #certificates(key: TlsFault["key"], file: string, text: string): X509Certificate[] | undefined {
    const certificates: X509Certificate[] = [];
    for (const block of text.match(CERTIFICATE) ?? []) {
      try {
        certificates.push(new X509Certificate(block));
      } catch (error) {
        const number = certificates.length + 1;
        return this.#fault(key, file, `has no readable certificate ${number}: ${errorText(error)}`);
      }
    }
    if (certificates.length > 0) return certificates;
    return this.#fault(key, file, "holds no certificate in PEM; write one, or convert the file");
  }

  #key(file: string, text: string): KeyObject | undefined {
    try {
      return createPrivateKey(text);
    } catch {
      // What the runtime says of a key may quote from it.
      return this.#fault(
        "key_file",
        file,
        "holds no private key in PEM, or an encrypted one; write it without a passphrase",
      );
    }
  }
}
