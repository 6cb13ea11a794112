/** Providers against each other and against the limits; stores against the providers. */
import { resolve } from "node:path/posix";
import { at, type Findings, plain, quoted } from "../finding.ts";
import { list } from "../reading.ts";
import type { Block, Setting, Settings } from "../settings.ts";
import { writeSize } from "../units.ts";

/** An absolute path without `.`, `..` and doubled slashes; symbolic links stay what they are. */
export function cleanPath(path: string): string {
  return resolve("/", path);
}

export function checkStorage(
  settings: Settings,
  findings: Findings,
  emptyDatabaseBytes: number,
): void {
  const storage = settings.blocks.get("broker")?.blocks.get("storage");
  if (storage === undefined) return;
  const providers = storage.list("providers");
  checkNames(providers, findings);
  checkPlaces(providers, findings);
  for (const provider of providers) {
    checkBound(provider, settings, findings, emptyDatabaseBytes);
    checkCommit(provider, settings, findings);
  }
  const names = providers.map(({ name }) => name);
  for (const setting of references(settings)) {
    if (!setting.written || typeof setting.value !== "string") continue;
    if (names.includes(setting.value)) continue;
    if (names.length === 0) continue;
    const says = `is not a provider; write ${list(names.map(plain))}, or add the provider`;
    findings.add(setting.place, setting.path, says, setting.text);
  }
}

/** Every key that names a provider. */
function* references(block: Block): Generator<Setting> {
  for (const setting of block.settings.values()) {
    if (setting.key.kind.of === "provider") yield setting;
  }
  for (const under of block.blocks.values()) yield* references(under);
  for (const items of block.lists.values()) {
    for (const item of items) yield* references(item);
  }
}

/** A provider's name is a label of metrics and stands in log lines. */
function checkNames(providers: readonly Block[], findings: Findings): void {
  for (const { name, place, path } of providers) {
    // deno-lint-ignore no-control-regex
    if (name !== "" && name.length <= 128 && !/[\x00-\x1f\x7f-\x9f]/.test(name)) continue;
    findings.add(place, path, "is no name; write 1 to 128 characters without control characters");
  }
}

function checkPlaces(providers: readonly Block[], findings: Findings): void {
  for (const key of ["file_path", "snapshot_dir"]) {
    const taken = new Map<string, { readonly name: string; readonly setting: Setting }>();
    for (const { name, settings } of providers) {
      const setting = settings.get(key);
      if (typeof setting?.value !== "string" || setting.value === "none") continue;
      const path = cleanPath(setting.value);
      const other = taken.get(path);
      if (other === undefined) taken.set(path, { name, setting });
      else {
        const says = `is the same place as ${key} of provider ${quoted(other.name)} at ` +
          `${at(other.setting.place)}; give each provider its own`;
        findings.add(setting.place, setting.path, says, setting.text);
      }
    }
  }
}

function checkBound(
  provider: Block,
  settings: Settings,
  findings: Findings,
  emptyDatabaseBytes: number,
): void {
  const bound = provider.settings.get("max_bytes");
  const message = settings.at("broker.limits.max_message_size");
  const header = settings.at("broker.limits.max_header_bytes");
  if (bound === undefined || message === undefined || header === undefined) return;
  const reserve = Number(message.value) + Number(header.value);
  const figures = `${message.path} (${message.text}) and ${header.path} (${header.text})`;
  const larger = Number(message.value) >= Number(header.value) ? message.path : header.path;
  const sqlite = provider.text("type") === "sqlite";
  const least = 2 * reserve + (sqlite ? emptyDatabaseBytes : 0);
  if (Number(bound.value) < least || (sqlite && Number(bound.value) === least)) {
    const says = `leaves no room beside the reserve: ${sqlite ? "more than" : "at least"} ` +
      `${writeSize(least)} is needed, twice ${figures} together` +
      (sqlite ? ` plus an empty database of ${writeSize(emptyDatabaseBytes)}` : "") +
      `; raise it, or lower ${larger}`;
    findings.add(bound.place, bound.path, says, bound.text);
  }
}

function checkCommit(provider: Block, settings: Settings, findings: Findings): void {
  const interval = provider.settings.get("publish_commit_interval");
  const records = provider.settings.get("publish_commit_max_records");
  const waits = typeof interval?.value === "number";
  const path = `${provider.path}.publish_commit_max_records`;
  if (waits && records === undefined && !provider.refused("publish_commit_max_records")) {
    const says = "is missing beside publish_commit_interval; write how many records end the wait";
    findings.add(interval.place, path, says);
  }
  if (records === undefined) return;
  if (!waits && !provider.refused("publish_commit_interval")) {
    const says = "stands without a publish_commit_interval to wait for; write both or neither";
    findings.add(records.place, path, says, records.text);
  }
  const most = settings.at("broker.limits.max_connections");
  if (most !== undefined && Number(records.value) > Number(most.value)) {
    const says = `is above ${most.path} (${most.text}); write a whole number from 2 to that`;
    findings.add(records.place, path, says, records.text);
  }
}
