/** What arrives, what leaves, what is refused or lost: metrics 21 to 36 of the catalogue. */
import { type ReasonCode, refusalName } from "../../broker/reason.ts";
import type { Family } from "./exposition.ts";
import { byCause, byReason, type Scrape, single } from "./family.ts";

/** Refusals of subscriptions are counted by their code. */
function named(counts: ReadonlyMap<ReasonCode, number>): ReadonlyMap<string, number> {
  return new Map([...counts].map(([code, count]) => [refusalName({ code }), count]));
}

export const TRAFFIC_FAMILIES: readonly Family<Scrape>[] = [
  single(
    "saguin_bytes_received_total",
    "counter",
    "Bytes read from MQTT connections.",
    ({ survey }) => survey.counters.bytesReceived,
  ),
  single(
    "saguin_bytes_sent_total",
    "counter",
    "Bytes written to MQTT connections.",
    ({ survey }) => survey.counters.bytesSent,
  ),
  single(
    "saguin_publishes_received_total",
    "counter",
    "Publishes that arrived, refused ones included.",
    ({ survey }) => survey.counters.publishesReceived,
  ),
  single(
    "saguin_deliveries_sent_total",
    "counter",
    "Publishes sent to subscribers.",
    ({ survey }) => survey.counters.delivered,
  ),
  single(
    "saguin_deliveries_refused_total",
    "counter",
    "Broadcast deliveries not sent for lack of session room or packet ids.",
    ({ survey: { counters: { sessionDeliveriesDropped } } }) =>
      (sessionDeliveriesDropped.get("session_queue_full") ?? 0) +
      (sessionDeliveriesDropped.get("packet_ids_exhausted") ?? 0),
  ),
  {
    name: "saguin_published_total",
    type: "counter",
    labels: ["channel"],
    help: "Publishes accepted, per channel and for broadcast.",
    samples: ({ survey }, add) => {
      for (const { name, published } of survey.channels) add(published, name);
      add(survey.counters.broadcastPublished, "broadcast");
    },
  },
  byReason(
    "saguin_connections_refused_total",
    "Connections refused or ended by a refusal, by reason.",
    ({ survey }) => survey.counters.connectionsRefused,
  ),
  byReason(
    "saguin_publish_refused_total",
    "Publishes refused, by reason.",
    ({ survey: { counters: { publishRefused, publishRateExceeded } } }) =>
      publishRateExceeded === 0
        ? publishRefused
        : new Map([...publishRefused, ["publish rate exceeded", publishRateExceeded]]),
  ),
  byReason(
    "saguin_subscriptions_refused_total",
    "Topic filters refused in a SUBACK, by reason.",
    ({ survey }) => named(survey.counters.subscriptionsRefused),
  ),
  single(
    "saguin_broadcast_unmatched_total",
    "counter",
    "Publishes matching no channel and no subscription.",
    ({ survey }) => survey.counters.broadcastUnmatched,
  ),
  single(
    "saguin_deliveries_dropped_total",
    "counter",
    "QoS 0 broadcast deliveries shed at a full outbound queue.",
    ({ survey }) => survey.counters.deliveriesDropped,
  ),
  single(
    "saguin_deliveries_expired_total",
    "counter",
    "Deliveries discarded because their Message Expiry ran out.",
    ({ survey }) => survey.counters.deliveriesExpired,
  ),
  single(
    "saguin_shares_held_total",
    "counter",
    "Deliveries placed on shared groups' lists.",
    ({ survey }) => survey.counters.sharesHeld,
  ),
  single(
    "saguin_shares_drained_total",
    "counter",
    "Deliveries shared groups handed to members.",
    ({ survey }) => survey.counters.sharesDrained,
  ),
  byCause(
    "saguin_shares_dropped_total",
    "Deliveries shared groups dropped.",
    [
      "backlog_full",
      "expired",
      "member_ended",
      "no_member_left",
      "not_authorized",
      "storage_full",
    ],
    ({ survey }) => survey.counters.sharesDropped,
  ),
  byCause(
    "saguin_session_deliveries_dropped_total",
    "Deliveries sessions never received.",
    [
      "no_shared_member",
      "packet_ids_exhausted",
      "session_queue_full",
      "storage_full",
      "too_large",
    ],
    ({ survey }) => survey.counters.sessionDeliveriesDropped,
  ),
];
