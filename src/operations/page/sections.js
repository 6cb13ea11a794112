import {
  byId,
  bytes,
  clockTime,
  count,
  duration,
  element,
  LISTS_EVERY_MS,
  NEARLY_FULL,
  rate,
  rates,
  read,
  Sparkline,
  visible,
  write,
} from "./figures.js";
import { kept, Table } from "./table.js";

// ------------------------------------------------------------------------------------------ summary

const TILES = [
  ["Connected", ({ sessions }) => ({
    text: count(sessions.connected),
    note: `MQTT 5: ${count(sessions.connected_v5)}, 3.1.1: ${count(sessions.connected_v311)}`,
    value: sessions.connected,
  })],
  ["Sessions away", ({ sessions }) => ({
    text: count(sessions.offline),
    note: `subscriptions: ${count(sessions.subscriptions)}`,
    value: sessions.offline,
  })],
  ["Publishes a second", ({ totals }) => {
    const value = rates.of("publishes", totals.publishes_received);
    return { text: rate(value), note: `${count(totals.publishes_received)} so far`, value };
  }],
  ["Deliveries a second", ({ totals }) => {
    const value = rates.of("deliveries", totals.deliveries_sent);
    return { text: rate(value), note: `${count(totals.deliveries_sent)} so far`, value };
  }],
  ["Bytes in a second", ({ totals }) => {
    const value = rates.of("in", totals.bytes_received);
    return {
      text: value === undefined ? "–" : bytes(value),
      note: `${bytes(totals.bytes_received)} so far`,
      value,
    };
  }],
  ["Bytes out a second", ({ totals }) => {
    const value = rates.of("out", totals.bytes_sent);
    return {
      text: value === undefined ? "–" : bytes(value),
      note: `${bytes(totals.bytes_sent)} so far`,
      value,
    };
  }],
  ["Held for sessions", ({ sessions }) => ({
    text: count(sessions.queued_messages),
    note: `${bytes(sessions.queued_bytes)} charged`,
    value: sessions.queued_messages,
  })],
  ["Refused and dropped", ({ totals }) => {
    const refused = totals.publishes_refused + totals.connections_refused +
      totals.subscriptions_refused;
    const all = refused + totals.deliveries_dropped;
    return {
      text: count(all),
      note: `${count(refused)} refused, ${count(totals.deliveries_dropped)} dropped`,
      value: rates.of("lost", all),
    };
  }],
];

const tiles = TILES.map(([label]) => {
  const node = element("div", "tile");
  const figure = element("dd", "figure", "–");
  const note = element("dd", "note");
  const spark = new Sparkline();
  const graph = element("dd");
  graph.append(spark.node);
  node.append(element("dt", "", label), figure, note, graph);
  byId("tiles").append(node);
  return { figure, note, spark };
});

export function showSummary(overview) {
  const { broker } = overview;
  write(byId("broker"), broker.id);
  write(byId("about"), `saguin ${broker.version}, up ${duration(broker.uptime_seconds)}`);
  document.title = `${broker.id} – saguin`;
  TILES.forEach(([, show], i) => {
    const { text, note, value } = show(overview);
    write(tiles[i].figure, text);
    write(tiles[i].note, note);
    tiles[i].spark.push(value);
  });
}

/** Records behind from which on a reader that does not catch up is worth a look. */
const FAR_BEHIND = 1_000;
/** Readings in a row in which it has to have fallen further. */
const FALLING = 5;

/** By channel: how far the furthest reader was behind in the latest readings. */
const behindBefore = new Map();

function fallsBehind({ channel, behind }) {
  const before = behindBefore.get(channel) ?? [];
  const latest = [...before, behind ?? 0].slice(-FALLING);
  behindBefore.set(channel, latest);
  return behind > FAR_BEHIND && latest.length === FALLING &&
    latest.every((each, i) => i === 0 || each > latest[i - 1]);
}

/** What somebody should look at, the worst first: how bad, in words, and where it stands. */
function problemsOf({ channels, providers, totals, amqp }) {
  const problems = [];
  const falling = channels.filter(fallsBehind);
  for (const { channel, losing } of channels) {
    if (!losing) continue;
    const text = `Retention of ${channel} has passed a reader: it loses records`;
    problems.push(["bad", text, `#channel-${channel}`]);
  }
  for (const provider of providers) {
    const { provider: name, bytes: held, max_bytes: most, flush_failing, errors } = provider;
    const add = (kind, text) => problems.push([kind, `Storage ${name} ${text}`, "#storage"]);
    if (flush_failing) add("bad", "cannot be flushed to its disk");
    else if (errors > 0) add("warn", `has failed ${times(errors)} since the start`);
    if (most > 0 && held > NEARLY_FULL * most) {
      add("bad", `is ${Math.floor(100 * held / most)}% full`);
    }
  }
  for (const { channel, behind, losing } of falling) {
    if (losing) continue;
    const text = `A reader of ${channel} is ${count(behind)} records behind, and falls further`;
    problems.push(["warn", text, `#channel-${channel}`]);
  }
  for (const { channel, type, depth, workers } of channels) {
    if (type !== "queue" || depth === 0 || workers > 0) continue;
    const text = `${count(depth)} jobs of ${channel} wait, and it has no worker`;
    problems.push(["warn", text, `#queue-${channel}`]);
  }
  for (const { queue, stored, ready, consumers } of amqp?.queues ?? []) {
    if (!stored || ready === 0 || consumers > 0) continue;
    const text = `Messages wait in ${visible(queue)}, and nobody consumes them: ${count(ready)}`;
    problems.push(["warn", text, "#amqp"]);
  }
  if (totals.deliveries_dropped > 0) {
    const text = `${count(totals.deliveries_dropped)} deliveries were dropped since the start`;
    problems.push(["warn", text, "#summary"]);
  }
  return problems;
}

function times(number) {
  return number === 1 ? "once" : `${count(number)} times`;
}

export function showProblems(overview) {
  const problems = problemsOf(overview);
  const list = byId("problems");
  const wanted = problems.length === 0 ? [["none", "Nothing needs attention."]] : problems;
  // A line stays while it is about the same, so that whoever is on it with a keyboard stays there.
  while (list.children.length > wanted.length) list.lastChild.remove();
  wanted.forEach(([kind, text, href], i) => {
    let line = list.children[i];
    if (line === undefined || (href === undefined) !== (line.dataset.href === undefined)) {
      const made = element("li");
      made.append(element(href === undefined ? "span" : "a"));
      if (line === undefined) list.append(made);
      else line.replaceWith(made);
      line = made;
    }
    if (line.className !== kind) line.className = kind;
    if (href !== undefined && line.dataset.href !== href) {
      line.dataset.href = href;
      line.firstChild.setAttribute("href", href);
    }
    write(line.firstChild, text);
  });
}

// ----------------------------------------------------------------------------------------- channels

/** The latest overview, and the consumers of each channel as they were read last. */
export const board = { overview: undefined, readers: new Map() };

function named(shown, table, channel, sub) {
  const node = kept(shown, "name", () => element("div"));
  const about = kept(shown, "about", () => element("span", "sub"));
  const badge = kept(shown, "badge", () => element("span", "badge"));
  const heading = table === undefined
    ? kept(shown, "heading", () => element("span"))
    : table.opener(shown, channel.channel, () => rowOf(channel.channel));
  if (table === undefined) write(heading, channel.channel);
  write(badge, channel.dead_letters ? "dead letters" : channel.type);
  write(about, sub);
  if (node.childNodes.length === 0) node.append(heading, badge, about);
  return node;
}

function rowOf(name) {
  return board.overview.channels.find(({ channel }) => channel === name);
}

/** One more point for each reading, however often the row is shown. */
function rateCell(shown, row) {
  const node = kept(shown, "rate", () => element("div", "rate"));
  const spark = kept(shown, "spark", () => new Sparkline());
  const figure = kept(shown, "figure", () => element("span"));
  if (node.childNodes.length === 0) node.append(spark.node, figure);
  if (shown.pushedAt !== rates.at) spark.push(row.rate);
  shown.pushedAt = rates.at;
  write(figure, rate(row.rate));
  return node;
}

function behindCell({ type, consumers, behind, losing, position_lost }) {
  if (type === "latest") return { text: "", className: "quiet" };
  if (consumers === 0) return { text: "–", className: "quiet" };
  const text = count(behind) + (position_lost > 0 ? `, lost ${count(position_lost)}×` : "");
  return { text, className: losing ? "bad-text" : behind > FAR_BEHIND ? "warn-text" : "" };
}

const channelsTable = new Table(byId("channels-table"), [
  {
    label: "Channel",
    show: (row, shown) =>
      named(shown, row.type === "append" ? channelsTable : undefined, row, row.filter),
  },
  { label: "Published a second", number: true, show: (row, shown) => rateCell(shown, row) },
  { label: "Records", number: true, show: ({ records }) => count(records) },
  {
    label: "Size",
    number: true,
    show: ({ bytes: held }) => held === undefined ? "" : bytes(held),
  },
  {
    label: "Floor",
    number: true,
    show: ({ floor_offset }) => floor_offset === undefined ? "" : count(floor_offset),
  },
  {
    label: "Next",
    number: true,
    show: ({ next_offset }) => next_offset === undefined ? "" : count(next_offset),
  },
  {
    label: "Consumers",
    number: true,
    show: ({ consumers }) => consumers === undefined ? "" : count(consumers),
  },
  { label: "Furthest behind", number: true, show: behindCell },
], { details: showReaders, id: "channel" });

/** Somebody looks at the consumers of a channel. */
export function readersAreOpen() {
  return channelsTable.someOpen;
}

/** The consumers of one channel, in the row below it. */
function showReaders(inner, row) {
  const known = board.readers.get(row.channel);
  if (known === undefined) {
    write(inner, "its consumers are read with the next lists");
    return;
  }
  if (known.error !== undefined) return write(inner, known.error);
  if (known.positions.length === 0) return write(inner, "No consumer has a stored position.");
  let table = inner.table;
  if (table === undefined) {
    const node = element("table");
    inner.replaceChildren(node);
    inner.table = table = new Table(node, [
      { label: "Reader", className: "text", show: ({ reader }) => visible(reader) },
      {
        label: "Behind",
        number: true,
        show: ({ behind, offset }) => ({
          text: count(behind),
          className: offset < row.floor_offset ? "bad-text" : "",
        }),
      },
      { label: "Position", number: true, show: ({ offset }) => count(offset) },
      { label: "Stored", number: true, show: ({ last_seen }) => clockTime(last_seen) },
    ]);
  }
  table.show(known.positions, ({ reader }) => reader, "");
}

const queuesTable = new Table(byId("queues-table"), [
  { label: "Queue", show: (row, shown) => named(shown, queuesTable, row, row.filter) },
  { label: "Published a second", number: true, show: (row, shown) => rateCell(shown, row) },
  {
    label: "Unresolved",
    number: true,
    show: ({ depth, workers }) => ({
      text: count(depth),
      className: depth > 0 && workers === 0 ? "warn-text" : "",
    }),
  },
  { label: "With a worker", number: true, show: ({ inflight }) => count(inflight) },
  { label: "Workers", number: true, show: ({ workers }) => count(workers) },
  { label: "Done", number: true, show: ({ acknowledged }) => count(acknowledged) },
  { label: "Returned", number: true, show: ({ returned }) => count(returned) },
  { label: "Timed out", number: true, show: ({ redelivered }) => count(redelivered) },
  {
    label: "Dead letters",
    number: true,
    show: ({ dead_lettered }) => ({
      text: count(dead_lettered),
      className: dead_lettered > 0 ? "warn-text" : "",
    }),
  },
], { details: showJobs, id: "queue" });

/** The worst jobs of one queue, in the row below it. */
async function showJobs(inner, row) {
  const now = performance.now();
  if (inner.readAt !== undefined && now - inner.readAt < LISTS_EVERY_MS) return;
  inner.readAt = now;
  try {
    const { records, unresolved } = await read(`queues/${encodeURIComponent(row.channel)}`);
    if (inner.table === undefined) {
      const node = element("table");
      inner.replaceChildren(node);
      inner.table = new Table(node, [
        { label: "Job", number: true, show: ({ offset }) => count(offset) },
        { label: "Topic", className: "text", show: ({ topic }) => visible(topic) },
        { label: "Attempts", number: true, show: ({ attempts }) => count(attempts) },
        {
          label: "State",
          className: "wordy",
          show: ({ state, holder, lease_until }) =>
            holder === undefined
              ? state
              : `${state} by ${visible(holder)} until ${clockTime(lease_until)}`,
        },
        { label: "Since", number: true, show: ({ first_seen }) => clockTime(first_seen) },
      ]);
    }
    inner.table.show(records, ({ offset }) => offset, "No job is unresolved.");
    inner.title = `${records.length} of ${unresolved}`;
  } catch (error) {
    write(inner, error.message);
    inner.table = undefined;
  }
}

export function showChannels({ channels, channels_total: total }) {
  const wanted = byId("filter").value.trim().toLowerCase();
  // By name, so that a row stays where it was; what is wrong stands at the top of the page.
  const shown = channels.filter(({ channel, filter }) =>
    `${channel} ${filter}`.toLowerCase().includes(wanted)
  ).sort((a, b) => a.channel < b.channel ? -1 : 1);
  const streams = shown.filter(({ type }) => type !== "queue");
  const queues = shown.filter(({ type }) => type === "queue");
  channelsTable.show(streams, ({ channel }) => channel, wanted === "" ? "No channels." : "None.");
  queuesTable.show(queues, ({ channel }) => channel, wanted === "" ? "No queues." : "None.");
  const cut = channels.length < total ? `the ${channels.length} worst of ${count(total)}` : "";
  write(byId("channels-count"), cut || count(streams.length));
  write(byId("queues-count"), count(queues.length));
}

// --------------------------------------------------------------------------------------------- AMQP

const amqpTable = new Table(byId("amqp-table"), [
  {
    label: "Queue",
    show: ({ queue, stored }, shown) => {
      const node = kept(shown, "name", () => element("div"));
      const name = kept(shown, "text", () => element("span"));
      const badge = kept(shown, "badge", () => element("span", "badge"));
      if (node.childNodes.length === 0) node.append(name, badge);
      write(name, visible(queue));
      write(badge, stored ? "stored" : "not stored");
      return node;
    },
  },
  {
    label: "Ready",
    number: true,
    show: ({ ready, consumers }) => ({
      text: count(ready),
      className: ready > 0 && consumers === 0 ? "warn-text" : "",
    }),
  },
  { label: "Unacknowledged", number: true, show: ({ unacked }) => count(unacked) },
  { label: "Consumers", number: true, show: ({ consumers }) => count(consumers) },
  {
    label: "Dropped at its bound",
    number: true,
    show: ({ dropped }) => ({ text: count(dropped), className: dropped > 0 ? "warn-text" : "" }),
  },
]);

export function showAmqp({ amqp }) {
  byId("amqp").hidden = byId("amqp-link").hidden = amqp === undefined;
  if (amqp === undefined) return;
  amqpTable.show(amqp.queues, ({ queue }) => queue, "No queues.");
  const cut = amqp.returned < amqp.queues_total ? `the ${amqp.returned} fullest of ` : "";
  write(
    byId("amqp-count"),
    `${cut}${count(amqp.queues_total)}; connections: ${count(amqp.connections)}, ` +
      `publishes a second: ${rate(rates.of("amqp", amqp.published))}`,
  );
}

// ------------------------------------------------------------------------------------------ storage

const cards = new Map();

function card(name) {
  const known = cards.get(name);
  if (known !== undefined) return known;
  const node = element("div", "card");
  const fill = element("div");
  const bar = element("div", "bar");
  bar.append(fill);
  const facts = new Map();
  const list = element("dl");
  const made = { node, fill, bar, facts, list };
  const title = element("h3", "", name);
  made.kind = element("span", "badge");
  title.append(made.kind);
  node.append(title, bar, list);
  cards.set(name, made);
  return made;
}

function fact({ facts, list }, label, text, className = "") {
  let value = facts.get(label);
  if (value === undefined) {
    value = element("dd");
    facts.set(label, value);
    list.append(element("dt", "", label), value);
  }
  write(value, text);
  value.className = className;
}

export function showProviders({ providers }) {
  for (const provider of providers) {
    const { provider: name, type, bytes: held, max_bytes: most, errors, waiting } = provider;
    const shown = card(name);
    write(shown.kind, type);
    const share = most > 0 ? held / most : 0;
    shown.bar.hidden = most === 0;
    shown.fill.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
    shown.fill.className = share > NEARLY_FULL ? "near" : "";
    fact(shown, "Holds", most > 0 ? `${bytes(held)} of ${bytes(most)}` : bytes(held));
    if (provider.commits !== undefined) {
      const commits = rates.of(`commits ${name}`, provider.commits);
      const records = rates.of(`records ${name}`, provider.committed_records);
      fact(shown, "Transactions a second", rate(commits));
      fact(shown, "Records in each", commits > 0 ? (records / commits).toFixed(1) : "–");
      fact(shown, "Waiting to be written", count(waiting), waiting > 1_000 ? "warn-text" : "");
      const { unflushed_seconds: age, flush_failing: failing } = provider;
      const text = failing
        ? `failing for ${age.toFixed(1)} s`
        : age === 0
        ? "everything is on the disk"
        : `${age.toFixed(2)} s old`;
      fact(shown, "Not flushed", text, failing ? "bad-text" : "");
    }
    fact(shown, "Errors", count(errors), errors > 0 ? "warn-text" : "");
  }
  const nodes = providers.map(({ provider }) => cards.get(provider).node);
  if (byId("providers").childElementCount !== nodes.length) {
    byId("providers").replaceChildren(...nodes);
  }
}
