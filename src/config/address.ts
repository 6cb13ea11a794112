/** `host:port` of a door: reading it, and telling whether two doors would want one socket. */
import { isIPv4, isIPv6 } from "node:net";
import type { Address } from "./configuration.ts";

/** Ports that may be written by name: the ones a door of this broker could want. */
const SERVICES: ReadonlyMap<string, number> = new Map([
  ["mqtt", 1883],
  ["secure-mqtt", 8883],
  ["amqp", 5672],
  ["amqps", 5671],
  ["http", 80],
  ["https", 443],
  ["http-alt", 8080],
]);

const REMEDY = "write host:port, such as 0.0.0.0:1883, [::1]:1883 or :1883";

type Split = { readonly host: string; readonly port: number } | { readonly fault: string };

/** What is wrong with an address and what to write; undefined for a good one. */
export function addressFault(text: string): string | undefined {
  const reading = split(text);
  return "fault" in reading ? reading.fault : undefined;
}

/** @throws TypeError for a text that `addressFault` refuses */
export function parseAddress(text: string): Address {
  const reading = split(text);
  if ("fault" in reading) throw new TypeError(`${text} ${reading.fault}`);
  return { host: reading.host, port: reading.port, text };
}

function split(text: string): Split {
  const colon = text.lastIndexOf(":");
  if (colon < 0) return { fault: `has no port; ${REMEDY}` };
  let host = text.slice(0, colon);
  if (host.startsWith("[") && host.endsWith("]")) {
    host = host.slice(1, -1);
    if (!host.includes(":")) return { fault: `has brackets around no IPv6 address; ${REMEDY}` };
  } else if (host.includes(":")) {
    return { fault: `is not host:port, or an IPv6 address without brackets; ${REMEDY}` };
  }
  const fault = hostFault(host);
  if (fault !== undefined) return { fault };
  const port = portNumber(text.slice(colon + 1));
  if (port === undefined) {
    return {
      fault: "has no port from 0 to 65535; write one after the last colon, 0 for any free one",
    };
  }
  return { host, port };
}

function portNumber(text: string): number | undefined {
  if (/^\+?\d+$/.test(text)) {
    const port = Number(text);
    return port <= 65_535 ? port : undefined;
  }
  return SERVICES.get(text.toLowerCase());
}

function hostFault(host: string): string | undefined {
  if (host === "" || isIPv4(host)) return undefined;
  if (host.includes(":")) {
    const { address, zone } = zoned(host);
    const bytes = ipv6(address);
    if (bytes === undefined) return `has a host that is no IPv6 address; ${REMEDY}`;
    if (zone === "") return "has a % with no zone after it; write the interface, such as %eth0";
    if (bytes[0] === 0xff) return "is a multicast address; write one that this machine has";
    if (isLinkLocal(bytes) && zone === undefined) {
      return "is link-local without a zone; write the interface too, such as [fe80::1%eth0]:1883";
    }
    return undefined;
  }
  if (/^[\d.]+$/.test(host)) return `has a host that is no IPv4 address; ${REMEDY}`;
  const name = host.endsWith(".") ? host.slice(0, -1) : host;
  const label = /^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;
  if (name.length > 253 || !name.split(".").every((part) => label.test(part))) {
    return `has a host that is neither an address nor a host name; ${REMEDY}`;
  }
  return undefined;
}

/**
 * Whether two TCP doors would want the same socket: one port, and equal hosts or a wildcard among
 * them. Host names are not resolved; port 0 clashes with nothing.
 */
export function clash(a: Address, b: Address): boolean {
  if (a.port !== b.port || a.port === 0) return false;
  const one = canonicalHost(a.host);
  const other = canonicalHost(b.host);
  return one === WILDCARD || other === WILDCARD || one === other;
}

/** Whether only this machine can reach the address. Host names count as reachable, but `localhost`. */
export function isLoopback(address: Address): boolean {
  const host = canonicalHost(address.host);
  return host === "localhost" || host === LOOPBACK_6 || host.startsWith("4:127.");
}

const WILDCARD = "*";
const LOOPBACK_6 = "6:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:1";

function canonicalHost(host: string): string {
  if (host === "") return WILDCARD;
  if (isIPv4(host)) return host === "0.0.0.0" ? WILDCARD : `4:${host}`;
  if (!host.includes(":")) return host.toLowerCase().replace(/\.$/, "");
  const { address, zone } = zoned(host);
  const bytes = ipv6(address)!;
  if (bytes.every((byte) => byte === 0)) return WILDCARD;
  const mapped = bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff &&
    bytes[11] === 0xff;
  if (mapped) return canonicalHost(bytes.slice(12).join("."));
  return `6:${bytes.join(":")}${isLinkLocal(bytes) ? `%${zone}` : ""}`;
}

function zoned(host: string): { readonly address: string; readonly zone: string | undefined } {
  const percent = host.indexOf("%");
  return percent < 0
    ? { address: host, zone: undefined }
    : { address: host.slice(0, percent), zone: host.slice(percent + 1) };
}

function isLinkLocal(bytes: readonly number[]): boolean {
  return bytes[0] === 0xfe && (bytes[1] & 0xc0) === 0x80;
}

/** The sixteen bytes of an IPv6 address without zone; undefined if it is none. */
function ipv6(text: string): readonly number[] | undefined {
  if (!isIPv6(text)) return undefined;
  const [left, right] = text.split("::").map(groups);
  const missing = new Array<number>(16 - left.length - (right?.length ?? 0)).fill(0);
  return right === undefined ? left : [...left, ...missing, ...right];
}

function groups(text: string): number[] {
  const bytes: number[] = [];
  for (const group of text.split(":")) {
    if (group === "") continue;
    if (group.includes(".")) bytes.push(...group.split(".").map(Number));
    else bytes.push(parseInt(group, 16) >> 8, parseInt(group, 16) & 0xff);
  }
  return bytes;
}
