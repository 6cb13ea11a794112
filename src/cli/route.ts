/** `--route`: where a topic lands, and what a filter is served from (02b section 16, 02a section 2). */
import { plain } from "../config/finding.ts";
import type { Channel, Configuration } from "../config/configuration.ts";
import { loadConfiguration } from "../config/load.ts";
import type { Surroundings } from "../config/walk.ts";
import { filterFault } from "../topics/filter.ts";
import { TopicHolders } from "../topics/holder.ts";
import { SubscriptionTree } from "../topics/tree.ts";
import { type Input, LineTooLong } from "./input.ts";

export interface RouteCommand {
  readonly kind: "route";
  readonly file: string;
  /** A topic or a filter; undefined: they come in on standard input, one a line. */
  readonly subject: string | undefined;
  readonly json: boolean;
}

export interface RouteStreams {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly input: Input;
  readonly surroundings: Surroundings;
}

/** One line of an answer; null where broadcast has nothing to name. */
interface Row {
  readonly subject: string;
  readonly channel: string | null;
  readonly type: string;
  readonly why: string | null;
}

const DONE = 0;
const REFUSED = 1;

/** Resolves as the broker does: over the same claims, by the same functions. */
export class RouteTable {
  readonly #holders: TopicHolders<Channel>;
  readonly #ingest = new SubscriptionTree<string>();

  constructor(private readonly configuration: Configuration) {
    for (const { filter, table } of configuration.ingest?.routes ?? []) {
      this.#ingest.add(filter, table, table);
    }
    this.#holders = new TopicHolders(
      configuration.channels.flatMap((channel) =>
        channel.filters.map((filter) => [filter, channel] as const)
      ),
    );
  }

  /** A topic's holder in one row; a filter's channels in one row each, most exact claim first. */
  rows(subject: string): Row[] {
    if (/[+#]/.test(subject)) return this.#filterRows(subject);
    const claim = this.#holders.claim(subject);
    if (claim === undefined) return [{ subject, channel: null, type: "broadcast", why: null }];
    return [{ subject, channel: claim.value.name, type: claim.value.type, why: claim.filter }];
  }

  #filterRows(subject: string): Row[] {
    const served = { append: "replayed", latest: "current", queue: "excluded" } as const;
    const touched = [...this.#holders.touched(subject)].sort((a, b) => a.name < b.name ? -1 : 1);
    const rows = touched.map((channel) => ({
      subject,
      channel: channel.name,
      type: channel.type,
      why: served[channel.type],
    }));
    return rows.length > 0 ? rows : [{ subject, channel: null, type: "broadcast", why: null }];
  }

  /** Ingest tables that a publish to the topic is a row of; none of a job or a dead letter (07 N4). */
  tables(topic: string): readonly string[] {
    if (this.#ingest.isEmpty || /[+#]/.test(topic)) return [];
    const holder = this.#holders.claim(topic)?.value;
    if (holder?.type === "queue") return [];
    if (holder?.type === "append" && holder.deadLetterOf !== undefined) return [];
    const tables = new Set<string>();
    this.#ingest.match(topic, (table) => tables.add(table));
    return [...tables].sort();
  }

  /** Every channel with the plain filters it claims topics by, braces expanded. */
  routes(): { channel: string; type: string; filters: readonly string[] }[] {
    return this.configuration.channels.map(({ name, type, filters }) => ({
      channel: name,
      type,
      filters,
    }));
  }
}

/** Returns the exit code: 0 answered, 1 refused. */
export async function routeCommand(command: RouteCommand, on: RouteStreams): Promise<number> {
  const loading = loadConfiguration(command.file, on.surroundings);
  if ("findings" in loading) {
    on.stderr(loading.findings);
    return REFUSED;
  }
  const table = new RouteTable(loading.configuration);
  if (command.subject === undefined) return await answerLines(table, command.json, on);
  const fault = subjectFault(command.subject);
  if (fault !== undefined) {
    on.stderr(`saguin: ${plain(command.subject)}: ${fault}\n`);
    return REFUSED;
  }
  const { subject } = command;
  const rows = table.rows(subject);
  const tables = loading.configuration.ingest && { tables: table.tables(subject) };
  on.stdout(
    command.json
      ? `${JSON.stringify({ subject, answers: rows, ...tables, routes: table.routes() })}\n`
      : readable(subject, rows, table),
  );
  return DONE;
}

/** What no channel could hold and is not broadcast either has no route (02a 1.1). */
function subjectFault(subject: string): string | undefined {
  switch (subject.split("/", 1)[0]) {
    case "$SYS":
      return "there is no $SYS tree; the operations listener tells how a broker is";
    case "$saguin":
      return "topics under $saguin are the broker's own, and no channel holds them";
    case "$share":
      return "a shared subscription has no route of its own; ask for the filter inside it";
  }
  return filterFault(subject);
}

async function answerLines(table: RouteTable, json: boolean, on: RouteStreams): Promise<number> {
  if (!json) on.stdout("# topic-or-filter\tchannel\ttype\twhy\n");
  let code = DONE;
  try {
    for await (const line of on.input.lines()) {
      const subject = line.trim();
      // A line that is only "#" is the filter that matches everything.
      if (subject === "" || (subject.startsWith("#") && subject !== "#")) continue;
      const fault = subjectFault(subject);
      if (fault !== undefined) {
        on.stderr(`saguin: ${plain(subject)}: ${fault}\n`);
        code = REFUSED;
        continue;
      }
      for (const row of table.rows(subject)) on.stdout(json ? jsonLine(row) : tabLine(row));
    }
  } catch (error) {
    if (!(error instanceof LineTooLong)) throw error;
    on.stderr(`saguin: ${error.message}\n`);
    return REFUSED;
  }
  return code;
}

function jsonLine({ subject, channel, type, why }: Row): string {
  return `${JSON.stringify({ subject, channel, type, why })}\n`;
}

function tabLine({ subject, channel, type, why }: Row): string {
  return `${[subject, channel ?? "-", type, why ?? "-"].map(plain).join("\t")}\n`;
}

function readable(subject: string, rows: readonly Row[], table: RouteTable): string {
  let answers = rows.map((row) => `${sentence(subject, row)}\n`).join("");
  for (const name of table.tables(subject)) {
    answers += `${plain(subject)}: a row of ingest table ${name}\n`;
  }
  const routes = table.routes().flatMap(({ channel, type, filters }) =>
    filters.map((filter) => `  ${plain(filter)}  ${plain(channel)} (${type})\n`)
  );
  return `${answers}\nchannels:\n${routes.join("")}`;
}

function sentence(subject: string, { channel, type, why }: Row): string {
  if (channel === null) return `${plain(subject)}: no channel; it is broadcast`;
  const name = `${plain(channel)} (${type})`;
  switch (why) {
    case "replayed":
      return `${plain(subject)}: ${name}, replayed and then live`;
    case "current":
      return `${plain(subject)}: ${name}, current values and then changes`;
    case "excluded":
      return `${plain(subject)}: ${name}, never served to a filter`;
    default:
      return `${plain(subject)}: ${name}, claimed by ${plain(why ?? "")}`;
  }
}
