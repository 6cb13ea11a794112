/** The process and its sessions: metrics 1 to 20 of the catalogue. */
import type { Family } from "./exposition.ts";
import { addSorted, byCause, type Scrape, single } from "./family.ts";

export const BROKER_FAMILIES: readonly Family<Scrape>[] = [
  {
    name: "saguin_build_info",
    type: "gauge",
    labels: ["version", "broker_id"],
    help: "Constant 1 carrying build version and broker id.",
    samples: ({ version, configuration }, add) => add(1, version, configuration.brokerId),
  },
  single(
    "saguin_uptime_seconds",
    "gauge",
    "Seconds this process has been up.",
    ({ uptimeSeconds }) => uptimeSeconds,
  ),
];

export const SESSION_FAMILIES: readonly Family<Scrape>[] = [
  single(
    "saguin_connections",
    "gauge",
    "MQTT clients connected.",
    ({ survey: { sessions: { connected } } }) => connected.v5 + connected.v311,
  ),
  {
    name: "saguin_connections_by_protocol",
    type: "gauge",
    labels: ["protocol"],
    help: "Connected MQTT clients by protocol version.",
    samples: ({ survey: { sessions: { connected } } }, add) => {
      add(connected.v311, "3.1.1");
      add(connected.v5, "5");
    },
  },
  single(
    "saguin_connections_total",
    "counter",
    "Connections accepted.",
    ({ survey }) => survey.counters.connections,
  ),
  single(
    "saguin_sessions_offline",
    "gauge",
    "Sessions held with no connection behind them.",
    ({ survey }) => survey.sessions.offline,
  ),
  single(
    "saguin_subscriptions",
    "gauge",
    "Subscriptions held, of every kind.",
    ({ survey }) => survey.sessions.subscriptions,
  ),
  single(
    "saguin_max_session_expiry_seconds",
    "gauge",
    "Configured session expiry cap.",
    ({ configuration }) => configuration.limits.maxSessionExpiryMs / 1_000,
  ),
  single(
    "saguin_session_expiry_shortened_total",
    "counter",
    "CONNECTs given a shorter session expiry than requested.",
    ({ survey }) => survey.counters.sessionExpiryShortened,
  ),
  single(
    "saguin_sessions_restored_total",
    "counter",
    "Sessions brought back at start.",
    ({ survey }) => survey.counters.sessionsRestored,
  ),
  byCause(
    "saguin_sessions_dropped_total",
    "Sessions the store did not keep.",
    ["expired_while_stopped", "storage_full", "subscription_refused"],
    ({ survey }) => survey.counters.sessionsDropped,
  ),
  single(
    "saguin_session_queue_messages",
    "gauge",
    "Unacknowledged deliveries held for all sessions.",
    ({ survey }) => survey.sessions.queuedMessages,
  ),
  single(
    "saguin_session_queue_bytes",
    "gauge",
    "Memory charged for those deliveries.",
    ({ survey }) => survey.sessions.queuedBytes,
  ),
  {
    name: "saguin_wills_published_total",
    type: "counter",
    labels: ["cause"],
    help: "Wills published for clients, by trigger.",
    samples: ({ survey }, add) => addSorted(survey.counters.willsPublished, add),
  },
  single(
    "saguin_wills_cancelled_total",
    "counter",
    "Wills withdrawn by a client resuming within its delay.",
    ({ survey }) => survey.counters.willsCancelled,
  ),
  single(
    "saguin_wills_waiting",
    "gauge",
    "Wills waiting out their delay.",
    ({ survey }) => survey.willsWaiting,
  ),
  single(
    "saguin_retained_messages",
    "gauge",
    "Retained broadcast values stored.",
    ({ survey }) => survey.retained,
  ),
  single(
    "saguin_qos2_held",
    "gauge",
    "Exactly-once publishes taken and not yet released.",
    ({ survey }) => survey.sessions.held,
  ),
  single(
    "saguin_qos2_abandoned_total",
    "counter",
    "Exactly-once publishes taken and never released.",
    ({ survey }) => survey.counters.qos2Abandoned,
  ),
  single(
    "saguin_qos2_max_inflight_per_client",
    "gauge",
    "Configured unreleased exactly-once limit per client.",
    ({ configuration }) => configuration.qos2.maxInflightPerClient,
  ),
];
