/** The route table of the operations listener, over one running broker (05 section 3). */
import type { Credentials } from "../auth/credentials.ts";
import type { Broker } from "../broker/broker.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Settings } from "../config/settings.ts";
import type { IngestStore } from "../storage/ingest.ts";
import { health } from "./health.ts";
import { textResponse } from "./http/message.ts";
import type { Family } from "./metrics/exposition.ts";
import type { Scrape } from "./metrics/family.ts";
import { Scrapes } from "./metrics/scrape.ts";
import { pageResponse } from "./page/page.ts";
import type { Route, Routes } from "./router.ts";
import { Surveyor } from "./survey.ts";
import { acl } from "./v1/acl.ts";
import { ConfigRoute } from "./v1/config.ts";
import { consumers } from "./v1/consumers.ts";
import { IngestRoute } from "./v1/ingest.ts";
import { Overview } from "./v1/overview.ts";
import { positionLost } from "./v1/position_lost.ts";
import { queue } from "./v1/queues.ts";
import { refused } from "./v1/refused.ts";
import { sessions } from "./v1/sessions.ts";
import { users } from "./v1/users.ts";

export interface RouteParts {
  readonly broker: Broker;
  readonly configuration: Configuration;
  readonly settings: Settings;
  /** As read last, at the start or by a reload. */
  readonly credentials: () => Credentials;
  readonly version: string;
  /** Monotonic ms at which the process began. */
  readonly startedAt: number;
  /** What the broker's timers have done. */
  readonly timers: { readonly fired: number; readonly lateMs: number };
  /** Metrics of doors that are there by configuration only, behind the catalogue. */
  readonly extensions?: readonly Family<Scrape>[];
  /** The part of the overview that AMQP has; undefined where it is not configured. */
  readonly amqp?: () => object;
  /** The ingest tables; undefined where there are none. */
  readonly ingest?: IngestStore;
}

/** @param minScrapeIntervalMs `broker.operations.min_scrape_interval` */
export function routesOf(parts: RouteParts, minScrapeIntervalMs: number): Routes {
  const { broker, configuration, credentials, version, startedAt, timers } = parts;
  const { extensions } = parts;
  const { clock, timers: clockwork, counters } = broker.context;
  const surveyor = new Surveyor(broker, configuration);
  const turn = () => broker.publishTurn();
  const scrapes = new Scrapes(
    { surveyor, configuration, version, clock, startedAt, timers, turn, extensions },
    minScrapeIntervalMs,
  );
  const overview = new Overview({
    surveyor,
    brokerId: configuration.brokerId,
    version,
    clock,
    startedAt,
    amqp: parts.amqp,
  });
  const config = new ConfigRoute(parts.settings);
  const ingest = new IngestRoute(parts.ingest);
  const page = pageResponse();
  return new Map<string, Route>([
    ["/", { methods: ["GET", "HEAD"], answer: () => page }],
    ["/health", {
      methods: ["GET", "HEAD"],
      open: true,
      answer: () => health(turn, clock, clockwork),
    }],
    ["/metrics", { methods: ["GET", "HEAD"], answer: () => scrapes.answer() }],
    listing("acl", ({ query }) => acl(credentials().acl, query)),
    listing("config", ({ query }) => config.answer(query)),
    listing("consumers", () => consumers(broker.channels)),
    listing("ingest/", ({ query }, rest) => ingest.answer(named(rest), query)),
    listing("overview", () => overview.answer()),
    listing("position-lost", () => positionLost(counters.positionLosses)),
    listing("queues/", (_request, rest) => {
      const channel = broker.routes.channel(named(rest));
      if (channel?.kind !== "queue") return textResponse(404, "there is no such queue\n");
      return queue(channel, clock);
    }),
    listing("refused", () => refused(counters.refusedClients)),
    listing("sessions", () => sessions(broker.sessions.values())),
    listing("users", () => users(configuration, credentials().doors)),
  ]);
}

function listing(name: string, answer: Route["answer"]): [path: string, route: Route] {
  return [`/v1/operations/${name}`, { methods: ["GET"], answer }];
}

/** The name that a level of a path stands for; empty, which nothing is called, if it is no text. */
function named(level: string): string {
  try {
    return decodeURIComponent(level);
  } catch {
    return "";
  }
}
