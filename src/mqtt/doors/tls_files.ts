import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { SecureContextOptions } from "node:tls";
import type { TlsConfiguration } from "../../config/configuration.ts";
import { errorText } from "../../platform/log.ts";

/** Certificates that were read and found to belong together, ready to be put into force. */
export interface TlsMaterial {
  readonly context: SecureContextOptions;
  /** When the door's own certificate ends. */
  readonly expires: Date;
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
  const cert = readText(tls.certFile, `${door}.tls.cert_file`);
  const key = readText(tls.keyFile, `${door}.tls.key_file`);
  const [own] = readCertificates(cert, tls.certFile, `${door}.tls.cert_file`);
  const privateKey = readKey(key, tls.keyFile, `${door}.tls.key_file`);
  if (!own.checkPrivateKey(privateKey)) {
    throw new Error(
      `${door}.tls.key_file: ${tls.keyFile} is not the key of the first certificate in ` +
        `${tls.certFile}`,
    );
  }
  let ca: string[] | undefined;
  if (tls.clientCaFile !== undefined) {
    const where = `${door}.tls.client_ca_file`;
    const text = readText(tls.clientCaFile, where);
    readCertificates(text, tls.clientCaFile, where);
    ca = text.match(CERTIFICATE)!;
  }
  return {
    context: {
      cert,
      key,
      minVersion: tls.minVersion === "1.3" ? "TLSv1.3" : "TLSv1.2",
      ...ca === undefined ? {} : { ca },
    },
    expires: own.validToDate,
  };
}

function readText(file: string, where: string): string {
  try {
    return Deno.readTextFileSync(file);
  } catch (error) {
    throw new Error(`${where}: cannot read ${file}: ${errorText(error)}`);
  }
}

/** At least one. */
function readCertificates(text: string, file: string, where: string): X509Certificate[] {
  const blocks = text.match(CERTIFICATE);
  if (blocks === null) throw new Error(`${where}: ${file} holds no certificate in PEM`);
  return blocks.map((block, i) => {
    try {
      return new X509Certificate(block);
    } catch (error) {
      throw new Error(
        `${where}: certificate ${i + 1} of ${file} cannot be read: ${errorText(error)}`,
      );
    }
  });
}

function readKey(text: string, file: string, where: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch {
    // What the runtime says of a key may quote from it.
    throw new Error(`${where}: ${file} holds no private key in PEM, or an encrypted one`);
  }
}
