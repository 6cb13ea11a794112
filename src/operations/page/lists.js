import {
  byId,
  clockTime,
  count,
  duration,
  EVERY_MS,
  LISTS_EVERY_MS,
  NotServed,
  rates,
  read,
  visible,
  write,
} from "./figures.js";
import {
  board,
  readersAreOpen,
  showAmqp,
  showChannels,
  showProblems,
  showProviders,
  showSummary,
} from "./sections.js";
import { Table } from "./table.js";

// -------------------------------------------------------------------------------------------- lists

const sessionsTable = new Table(byId("sessions-table"), [
  { label: "Client", className: "text", show: ({ client_id }) => visible(client_id) },
  {
    label: "State",
    show: ({ connected }) => ({
      text: connected ? "connected" : "away",
      className: connected ? "" : "quiet",
    }),
  },
  { label: "User", className: "text", show: ({ user }) => visible(user) || "–" },
  { label: "Protocol", show: ({ protocol }) => ({ 4: "3.1.1", 5: "5" })[protocol] ?? "–" },
  { label: "Listener", show: ({ listener }) => listener || "–" },
  { label: "From", className: "wordy", show: ({ remote }) => remote || "–" },
  {
    label: "Keep Alive",
    number: true,
    show: ({ keepalive }) => keepalive === 0 ? "off" : duration(keepalive),
  },
  {
    label: "Kept for",
    number: true,
    show: ({ expires_after }) => expires_after === 0 ? "–" : duration(expires_after),
  },
  { label: "Filters", number: true, show: ({ subscriptions }) => count(subscriptions) },
]);

const refusedTable = new Table(byId("refused-table"), [
  {
    label: "Client",
    className: "text",
    show: ({ client_id }) => visible(client_id) || "(not told)",
  },
  { label: "User", className: "text", show: ({ user }) => visible(user) || "–" },
  { label: "Reason", className: "wordy", show: ({ reason }) => reason },
  { label: "Times", number: true, show: ({ count: times }) => count(times) },
  { label: "Last", number: true, show: ({ last_seen }) => clockTime(last_seen) },
]);

const lostTable = new Table(byId("lost-table"), [
  { label: "Reader", className: "text", show: ({ reader }) => visible(reader) },
  { label: "Channel", show: ({ channel }) => channel },
  { label: "Records missed", number: true, show: ({ records_missed }) => count(records_missed) },
  { label: "Times", number: true, show: ({ count: times }) => count(times) },
  {
    label: "Told",
    show: ({ reported }) => ({
      text: reported ? "yes" : "no",
      className: reported ? "" : "warn-text",
    }),
  },
  { label: "Last", number: true, show: ({ last_seen }) => clockTime(last_seen) },
]);

/** One list, or why it cannot be shown; the others are shown all the same. */
async function list(route, table, show) {
  try {
    show(await read(route));
  } catch (error) {
    table?.show([], () => "", error.message);
    return error;
  }
}

async function readLists() {
  await Promise.all([
    list("sessions", sessionsTable, (body) => {
      sessionsTable.show(body.sessions, ({ client_id }) => client_id, "No sessions.");
      const cut = body.returned < body.total ? `, ${count(body.returned)} shown` : "";
      write(
        byId("sessions-count"),
        `${count(body.connected)} connected, ${count(body.offline)} away${cut}`,
      );
    }),
    list("refused", refusedTable, (body) => {
      refusedTable.show(body.clients, ({ client_id }) => client_id, "Nobody was refused.");
      const beyond = body.beyond > 0 ? `, and ${count(body.beyond)} refusals beyond` : "";
      write(byId("refused-count"), body.tracked > 0 ? count(body.tracked) + beyond : "");
    }),
    list("position-lost", lostTable, (body) => {
      lostTable.show(
        body.readers,
        ({ reader, channel }) => `${channel} ${reader}`,
        "No reader was passed.",
      );
      write(byId("lost-count"), body.tracked > 0 ? count(body.tracked) : "");
    }),
  ]);
}

/** Consumers belong to the figures beside them, and are read with these while somebody looks. */
async function readConsumers() {
  const error = await list("consumers", undefined, (body) => {
    board.readers = new Map(body.channels.map((channel) => [channel.channel, channel]));
  });
  if (error === undefined) return;
  board.readers = new Map((board.overview?.channels ?? []).map(({ channel }) => [channel, {
    error: error.message,
  }]));
}

// --------------------------------------------------------------------------------------------- pace

let paused = false;
let listsAt = -Infinity;

function state(kind, text) {
  byId("dot").className = `dot ${kind}`;
  // What stands there is what was, not what is.
  document.querySelector("main").classList.toggle("stale", kind === "down");
  write(byId("updated"), text);
}

async function refresh() {
  try {
    const overview = await read("overview");
    // Asked before the pause began: what stands there stays.
    if (paused) return;
    board.overview = overview;
    rates.begin(overview.broker.taken_at_ms);
    for (const row of overview.channels) row.rate = rates.of(`into ${row.channel}`, row.published);
    showSummary(overview);
    showProblems(overview);
    const listsDue = performance.now() - listsAt >= LISTS_EVERY_MS;
    if (listsDue) listsAt = performance.now();
    await Promise.all([
      listsDue ? readLists() : undefined,
      listsDue || readersAreOpen() ? readConsumers() : undefined,
    ]);
    showChannels(overview);
    showAmqp(overview);
    showProviders(overview);
    if (!paused) state("live", "live");
  } catch (error) {
    const why = error instanceof NotServed ? error.message : "the broker does not answer";
    if (!paused) state("down", why);
  }
}

async function run() {
  for (;;) {
    if (!paused && !document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  write(byId("pause"), paused ? "Resume" : "Pause");
  if (paused) state("", "paused");
  else void refresh();
});

byId("filter").addEventListener("input", () => {
  if (board.overview !== undefined) showChannels(board.overview);
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) void refresh();
});

void run();
