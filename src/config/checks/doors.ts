/** Doors against each other: names, sockets, and who may come in. */
import { clash, isLoopback, parseAddress } from "../address.ts";
import { at, type Findings, quoted } from "../finding.ts";
import type { Block, Setting, Settings } from "../settings.ts";
import { DEFAULT_MQTT_ADDRESS } from "../table/doors.ts";
import { cleanPath } from "./storage.ts";

export interface Door {
  readonly kind: "tcp" | "ws" | "unix";
  readonly name: string;
  readonly block: Block;
}

/** The doors under a `listen` block; `taken` in the order tcp, ws, unix. */
export function doorsOf(listen: Block | undefined): readonly Door[] {
  const doors: Door[] = [];
  for (const kind of ["tcp", "ws", "unix"] as const) {
    for (const block of listen?.list(kind) ?? []) {
      doors.push({ kind, name: block.text("name") ?? kind, block });
    }
  }
  return doors;
}

export function checkDoors(settings: Settings, findings: Findings): void {
  const broker = settings.blocks.get("broker");
  const mqtt = broker?.blocks.get("mqtt");
  const operations = broker?.blocks.get("operations");
  const amqp = broker?.blocks.get("amqp");
  const mqttDoors = doorsOf(mqtt?.blocks.get("listen"));
  const operationsDoors = doorsOf(operations?.blocks.get("listen"));
  const amqpDoors = doorsOf(amqp?.blocks.get("listen"));
  for (const doors of [mqttDoors, operationsDoors, amqpDoors]) checkNames(doors, findings);

  const all = [...mqttDoors, ...operationsDoors, ...amqpDoors];
  checkPorts(all, mqttDoors.length === 0 && !(mqtt !== undefined && isBlamed(mqtt)), findings);
  checkSockets(all, findings);
  for (const { block } of all) checkCertificateRule(block, findings);
  if (mqtt !== undefined) {
    checkAnonymous(mqtt, mqttDoors, findings);
    checkAccess(mqtt, mqttDoors, findings);
  }
  if (operations !== undefined) checkOperators(operations, operationsDoors, findings);
  if (amqp !== undefined && amqpDoors.length === 0 && !isBlamed(amqp)) {
    findings.add(amqp.place, amqp.path, "opens no door; write listen: with tcp: and an address");
  }
}

function checkNames(doors: readonly Door[], findings: Findings): void {
  const taken = new Map<string, Door>();
  const count = (kind: string) => doors.filter((door) => door.kind === kind).length;
  for (const door of doors) {
    const { block, name, kind } = door;
    if (block.refused("name")) continue;
    if (block.text("name") === undefined && count(kind) > 1) {
      const says = `has no name; each of several ${kind} doors needs its own, write name:`;
      findings.add(block.place, block.path, says);
      continue;
    }
    const other = taken.get(name);
    if (other === undefined) taken.set(name, door);
    else {
      const says = `is also the name of ${other.block.path} at ${at(other.block.place)}; ` +
        "give each door its own";
      findings.add(block.placeOf("name"), `${block.path}.name`, says, name);
    }
  }
}

function checkPorts(doors: readonly Door[], withDefault: boolean, findings: Findings): void {
  const opened: { readonly where: string; readonly address: ReturnType<typeof parseAddress> }[] =
    [];
  if (withDefault) {
    opened.push({
      where: `the MQTT door ${quoted(DEFAULT_MQTT_ADDRESS)} that opens when none is written`,
      address: parseAddress(DEFAULT_MQTT_ADDRESS),
    });
  }
  for (const { block } of doors) {
    const setting = block.settings.get("address");
    if (setting === undefined) continue;
    const address = parseAddress(setting.text);
    const other = opened.find((door) => clash(door.address, address));
    if (other !== undefined) {
      const says = `wants the port of ${other.where}; give each door its own address`;
      findings.add(setting.place, setting.path, says, setting.text);
    }
    opened.push({
      where: `${block.path} ${quoted(setting.text)} at ${at(setting.place)}`,
      address,
    });
  }
}

function checkSockets(doors: readonly Door[], findings: Findings): void {
  const opened = new Map<string, { readonly path: string; readonly setting: Setting }>();
  for (const { block } of doors) {
    const setting = block.settings.get("path");
    if (setting === undefined) continue;
    const last = setting.text.slice(setting.text.lastIndexOf("/") + 1);
    if (!setting.text.startsWith("@") && (last === "" || last === "." || last === "..")) {
      const says = "names a directory; write the path of the socket itself";
      findings.add(setting.place, setting.path, says, setting.text);
      continue;
    }
    const path = setting.text.startsWith("@") ? setting.text : cleanPath(setting.text);
    const other = opened.get(path);
    if (other === undefined) opened.set(path, { path: block.path, setting });
    else {
      const says = `is the socket of ${other.path} ${quoted(other.setting.text)} at ` +
        `${at(other.setting.place)}; give each door its own`;
      findings.add(setting.place, setting.path, says, setting.text);
    }
  }
}

function checkCertificateRule(door: Block, findings: Findings): void {
  const tls = door.blocks.get("tls");
  const rule = tls?.settings.get("require_certificate");
  if (tls === undefined || rule === undefined || !rule.written) return;
  if (tls.text("client_ca_file") !== undefined || tls.refused("client_ca_file")) return;
  const says = "stands without client_ca_file, so that no certificate could be checked; write both";
  findings.add(rule.place, rule.path, says, rule.text);
}

/** Whether a client can prove who it is at this door without a password. */
function identifies(door: Block): boolean {
  return door.flag("proxy_protocol") === true ||
    door.blocks.get("tls")?.text("client_ca_file") !== undefined;
}

/** `allow_anonymous: false` admits somebody only where somebody can be known (02b 6, 19). */
function checkAnonymous(mqtt: Block, doors: readonly Door[], findings: Findings): void {
  const says = "admits nobody: there is no password_file to know anybody by; " +
    "write a password_file, or leave the key out";
  const broad = mqtt.settings.get("allow_anonymous");
  const shared = mqtt.text("password_file") !== undefined || mqtt.refused("password_file");
  let reported = false;
  for (const { block } of doors) {
    const own = block.settings.get("allow_anonymous");
    const known = block.text("password_file") !== undefined || block.refused("password_file") ||
      shared || identifies(block) || block.refused("tls");
    if (known) continue;
    if (own?.value === false) findings.add(own.place, own.path, says, own.text);
    else if (own === undefined && broad?.value === false && !reported) {
      reported = true;
      findings.add(broad.place, broad.path, says, broad.text);
    }
  }
  if (doors.length === 0 && !shared && broad?.value === false) {
    findings.add(broad.place, broad.path, says, broad.text);
  }
}

/** What has to hold where an ACL file decides (02b 7.1). */
function checkAccess(mqtt: Block, doors: readonly Door[], findings: Findings): void {
  const acl = mqtt.settings.get("acl_file");
  if (acl === undefined) return;
  const named = mqtt.text("password_file") !== undefined || mqtt.refused("password_file") ||
    doors.some(({ block }) =>
      block.text("password_file") !== undefined || block.refused("password_file") ||
      block.blocks.get("tls")?.text("client_ca_file") !== undefined
    );
  if (!named) {
    const says = "grants by user name, and no door proves one; write a password_file, or a " +
      "client_ca_file of a door";
    findings.add(acl.place, acl.path, says, acl.text);
  }
  for (const block of [mqtt, ...doors.map((door) => door.block)]) {
    const anonymous = block.settings.get("allow_anonymous");
    if (anonymous?.value !== true) continue;
    const says = "cannot stand beside acl_file, whose * would grant to clients without a name; " +
      "remove one of the two";
    findings.add(anonymous.place, anonymous.path, says, anonymous.text);
  }
}

/** Whether the doors of this block may be missing because of what is reported already. */
function isBlamed(block: Block): boolean {
  return block.blamed || block.blocks.get("listen")?.blamed === true;
}

/** Beyond this machine only operators are answered (02b 9). */
function checkOperators(operations: Block, doors: readonly Door[], findings: Findings): void {
  if (doors.length === 0 && !isBlamed(operations)) {
    const says = "opens no door; write listen: with tcp: or unix:, or remove the block";
    findings.add(operations.place, operations.path, says);
  }
  for (const { block, kind } of doors) {
    const setting = block.settings.get("address");
    if (kind !== "tcp" || setting === undefined) continue;
    const tls = block.blocks.get("tls");
    const proves = block.text("password_file") !== undefined || block.refused("password_file") ||
      operations.text("password_file") !== undefined || operations.refused("password_file") ||
      block.refused("tls") ||
      (tls?.text("client_ca_file") !== undefined && tls.flag("require_certificate") !== false);
    if (proves || isLoopback(parseAddress(setting.text))) continue;
    const says = "can be reached from other machines and asks nobody who they are; write a " +
      "password_file, or a loopback address such as 127.0.0.1:9090";
    findings.add(setting.place, setting.path, says, setting.text);
  }
}
