/** PROXY version 2 headers by hand. */
import { join } from "../support/mqtt_bytes.ts";

export const SIGNATURE = Uint8Array.of(
  ...[0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a],
);

/** 192.0.2.7:49152 to 198.51.100.1:8883 */
export const INET = Uint8Array.of(192, 0, 2, 7, 198, 51, 100, 1, 0xc0, 0x00, 0x22, 0xb3);

/** 2001:db8::5 port 49152, to ::1 port 8883 */
export const INET6 = Uint8Array.of(
  ...[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5],
  ...[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
  ...[0xc0, 0x00, 0x22, 0xb3],
);

export function proxyHeader(
  parts: {
    readonly version?: number;
    /** 0 LOCAL, 1 PROXY. */
    readonly command?: number;
    /** Family and transport; TCP over IPv4 unless said otherwise. */
    readonly family?: number;
    readonly addresses?: Uint8Array;
    readonly entries?: readonly Uint8Array[];
  } = {},
): Uint8Array<ArrayBuffer> {
  const rest = join(parts.addresses ?? INET, ...parts.entries ?? []);
  const first = (parts.version ?? 2) << 4 | (parts.command ?? 1);
  return join(SIGNATURE, [first, parts.family ?? 0x11, rest.length >> 8, rest.length & 0xff], rest);
}

/** One entry (TLV). */
export function entry(type: number, ...value: readonly (Uint8Array | readonly number[])[]) {
  const content = join(...value);
  return join([type, content.length >> 8, content.length & 0xff], content);
}

/** The SSL entry. Flags: 1 TLS, 2 certificate on this connection, 4 in this session. */
export function ssl(flags: number, verify: number, ...entries: readonly Uint8Array[]) {
  const result = [verify >>> 24, verify >> 16 & 0xff, verify >> 8 & 0xff, verify & 0xff];
  return entry(0x20, [flags], result, ...entries);
}

export function text(type: number, value: string) {
  return entry(type, new TextEncoder().encode(value));
}

/** What `send-proxy-v2-ssl-cn` of HAProxy writes about a client with a verified certificate. */
export function haproxy(commonName: string, verify = 0): Uint8Array<ArrayBuffer> {
  return proxyHeader({
    entries: [ssl(0x07, verify, text(0x21, "TLSv1.3"), text(0x22, commonName))],
  });
}

/** What nginx's `proxy_protocol v2` writes: authority, the SSL entry with all it knows, a checksum. */
export function nginx(commonName: string, verify = 0): Uint8Array<ArrayBuffer> {
  return proxyHeader({
    family: 0x21,
    addresses: INET6,
    entries: [
      text(0x02, "mqtt.example"),
      ssl(
        ...[0x03, verify] as const,
        text(0x21, "TLSv1.3"),
        text(0x22, commonName),
        text(0x23, "TLS_AES_256_GCM_SHA384"),
        text(0x24, "ecdsa-with-SHA256"),
        text(0x25, "EC256"),
      ),
      entry(0x03, [0xde, 0xad, 0xbe, 0xef]),
    ],
  });
}
