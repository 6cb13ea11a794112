/** Every metric of the broker, in the order in which a scrape has them (05 section 9). */
import { CHANNEL_FAMILIES, QUEUE_FAMILIES } from "./channel_families.ts";
import type { Family } from "./exposition.ts";
import type { Scrape } from "./family.ts";
import { PROVIDER_FAMILIES, WORKERS_FAMILY } from "./provider_families.ts";
import { RUNTIME_FAMILIES } from "./runtime.ts";
import { BROKER_FAMILIES, SESSION_FAMILIES } from "./session_families.ts";
import { TRAFFIC_FAMILIES } from "./traffic_families.ts";

/** A name here is permanent; one that this runtime cannot measure is not here. */
export const CATALOGUE: readonly Family<Scrape>[] = [
  ...BROKER_FAMILIES,
  ...SESSION_FAMILIES,
  ...TRAFFIC_FAMILIES,
  ...CHANNEL_FAMILIES,
  ...QUEUE_FAMILIES,
  ...PROVIDER_FAMILIES,
  ...RUNTIME_FAMILIES.map((family): Family<Scrape> => ({
    ...family,
    samples: ({ runtime }, add) => family.samples(runtime, add),
  })),
  WORKERS_FAMILY,
];
