/** `--acl`: what a user may do, and which line of the ACL file says so (02b section 16). */
import { Acl } from "../auth/acl/acl.ts";
import type { UserEntry } from "../auth/acl/document.ts";
import {
  EVERYTHING_ALLOWED_BODY,
  explain,
  type Explanation,
  explanationBody,
  type GrantRow,
  type WithheldRow,
} from "../auth/acl/explain.ts";
import { readAcl } from "../auth/acl/read.ts";
import type { PublishRates } from "../auth/publish_rates.ts";
import { Findings, plain, quoted } from "../config/finding.ts";
import { loadConfiguration } from "../config/load.ts";
import { writeSize } from "../config/units.ts";
import { reason, type Surroundings } from "../config/walk.ts";
import { type Input, LineTooLong } from "./input.ts";

export interface AclCommand {
  readonly kind: "acl";
  /** The broker's configuration, which names the ACL file. */
  readonly file: string;
  /** Undefined: users come in on standard input, one a line. */
  readonly user: string | undefined;
  readonly clientId: string | undefined;
  readonly json: boolean;
}

export interface AclStreams {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly input: Input;
  readonly surroundings: Surroundings;
}

const DONE = 0;
const REFUSED = 1;

/** Returns the exit code: 0 answered, 1 refused. */
export async function aclCommand(command: AclCommand, on: AclStreams): Promise<number> {
  const loading = loadConfiguration(command.file, on.surroundings);
  if ("findings" in loading) {
    on.stderr(loading.findings);
    return REFUSED;
  }
  const { configuration } = loading;
  const { aclFile } = configuration.mqtt;
  if (aclFile === undefined) {
    on.stdout(
      command.json
        ? `${JSON.stringify(EVERYTHING_ALLOWED_BODY)}\n`
        : `${plain(command.file)}: names no acl_file, so whoever is admitted may do everything\n`,
    );
    return DONE;
  }
  const findings = new Findings();
  let bytes: Uint8Array;
  try {
    bytes = on.surroundings.readFile(aclFile);
  } catch (error) {
    on.stderr(`saguin: ${plain(aclFile)}: cannot be read: ${reason(error)}\n`);
    return REFUSED;
  }
  const document = readAcl(bytes, aclFile, configuration, findings);
  if (!findings.empty) {
    on.stderr(findings.report(aclFile));
    return REFUSED;
  }
  const acl = new Acl(document, configuration);
  if (command.user === undefined) return await answerLines(acl, command.json, on);
  const explanation = explain(acl, command.user, command.clientId);
  on.stdout(
    command.json ? `${JSON.stringify(explanationBody(explanation))}\n` : readable(explanation),
  );
  return DONE;
}

// ------------------------------------------------------------------------------- users on stdin

/** A user, and a client id after a tab; after a blank where there is no tab. */
function readSubject(line: string): readonly [user: string, clientId: string | undefined] {
  const tab = line.indexOf("\t");
  const at = tab < 0 ? line.indexOf(" ") : tab;
  return at < 0 ? [line, undefined] : [line.slice(0, at), line.slice(at + 1)];
}

async function answerLines(acl: Acl, json: boolean, on: AclStreams): Promise<number> {
  if (!json) on.stdout("# user\trole\tkind\tsubject\tverbs\trate\tbytes\n");
  try {
    for await (const line of on.input.lines()) {
      const trimmed = line.trim();
      if (trimmed === "" || (trimmed.startsWith("#") && trimmed !== "#")) continue;
      answerLine(acl, ...readSubject(trimmed), json, on);
    }
  } catch (error) {
    if (!(error instanceof LineTooLong)) throw error;
    on.stderr(`saguin: ${error.message}\n`);
    return REFUSED;
  }
  return DONE;
}

function answerLine(
  acl: Acl,
  user: string,
  clientId: string | undefined,
  json: boolean,
  on: AclStreams,
): void {
  const explanation = explain(acl, user, clientId);
  on.stdout(json ? jsonLines(explanation) : tabLines(explanation));
  const unresolved = explanation.withheld.filter(({ because }) => because === "no client id");
  if (unresolved.length === 0) return;
  const rules = unresolved.map(({ subject }) => plain(subject)).join(", ");
  on.stderr(`saguin: ${quoted(user)}: rules with %c need a client id after the user: ${rules}\n`);
}

function tabLines({ user, grants, rates }: Explanation): string {
  const figures = [
    rates.messagesPerSecond ?? "no bound",
    rates.bytesPerSecond ?? "no bound",
  ];
  const row = (...cells: readonly string[]) => [user, ...cells, ...figures].map(cell).join("\t");
  const rows = grants.length === 0
    ? [row("-", "-", "-", "-")]
    : grants.map((grant) => row(grant.role, grant.kind, grant.subject, verbsOf(grant).join(",")));
  return rows.map((text) => `${text}\n`).join("");
}

function cell(value: string | number): string {
  return plain(String(value));
}

/** What a rule denies stands among its verbs, where there is no column of its own. */
function verbsOf({ verbs, denies }: GrantRow): readonly string[] {
  return [...verbs, ...denies.map((feature) => `deny:${feature}`)];
}

function jsonLines({ user, grants, rates }: Explanation): string {
  const figures = {
    publish_rate: rates.messagesPerSecond ?? null,
    publish_bytes: rates.bytesPerSecond ?? null,
  };
  const rows = grants.length === 0
    ? [{ user, role: null, kind: null, subject: null, verbs: [], denies: [], ...figures }]
    : grants.map((grant) => ({ user, ...grant, ...figures }));
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

// ------------------------------------------------------------------------------------ one user

function readable(explanation: Explanation): string {
  const { user, clientId, file, entry, shadowed, grants } = explanation;
  const named = clientId === undefined ? "" : `, client id ${quoted(clientId)}`;
  const lines = [`user ${quoted(user)}${named}, by ${plain(file)}`];
  if (entry === undefined) lines.push("no pattern matches, so nothing is granted");
  else lines.push(`entry in force: ${entryText(entry)}`);
  for (const other of shadowed) {
    lines.push(`  matches too and contributes nothing: ${entryText(other)}`);
  }
  if (entry?.clientIds !== undefined) {
    const ids = entry.clientIds.map(quoted).join(", ");
    lines.push(`client ids: ${ids}${admission(explanation)}`);
  }
  lines.push(`publish rate: ${ratesText(explanation.rates)}`);
  const limited = shadowed.find(({ limits }) => limits !== undefined);
  if (entry !== undefined && entry.limits === undefined && limited !== undefined) {
    lines.push(
      `note: ${quoted(limited.pattern.text)} has limits and the entry in force has none, ` +
        "so the broker-wide figures hold",
    );
  }
  lines.push(grants.length === 0 ? "grants: none" : "grants:", ...table(grants));
  if (explanation.withheld.length > 0) {
    lines.push("rules that grant nothing here:", ...withheldTable(explanation.withheld));
  }
  if (explanation.usesClientId) {
    lines.push(
      "note: a client chooses its own id, so rules with %c keep clients from accidents, " +
        "not from each other",
    );
  }
  return lines.map((line) => `${line}\n`).join("");
}

function entryText({ pattern, place, roles }: UserEntry): string {
  const names = roles.length === 0
    ? "no roles"
    : `roles ${roles.map(({ name }) => name).join(", ")}`;
  return `${quoted(pattern.text)} at line ${place.line}, ${names}`;
}

function admission({ clientId, clientIdAllowed }: Explanation): string {
  if (clientIdAllowed === undefined) return "";
  const says = clientIdAllowed ? "admitted" : "refused at CONNECT, whatever is granted";
  return `; ${quoted(clientId ?? "")} is ${says}`;
}

function ratesText({ messagesPerSecond, bytesPerSecond }: PublishRates): string {
  const messages = messagesPerSecond === undefined
    ? "no bound on messages"
    : `${messagesPerSecond} messages a second`;
  const bytes = bytesPerSecond === undefined
    ? "no bound on bytes"
    : `${writeSize(bytesPerSecond)} a second`;
  return `${messages}, ${bytes}`;
}

function table(rows: readonly GrantRow[], last: (at: number) => string = () => ""): string[] {
  const cells = rows.map((row) => [row.role, row.kind, row.subject].map(plain));
  const widths = [0, 1, 2].map((column) => Math.max(...cells.map((row) => row[column].length)));
  return rows.map((row, at) => {
    const begin = cells[at].map((text, column) => text.padEnd(widths[column])).join("  ");
    const verbs = row.denies.length > 0 ? `deny ${row.denies.join(", ")}` : row.verbs.join(", ");
    return `  ${begin}  ${verbs}${last(at)}`;
  });
}

function withheldTable(rows: readonly WithheldRow[]): string[] {
  return table(
    rows,
    (at) =>
      rows[at].because === "no client id"
        ? "  (cannot be told without a client id)"
        : "  (the name put in holds +, # or /)",
  );
}
