/** What families of the catalogue are made with. */
import type { Configuration } from "../../config/configuration.ts";
import type { Survey } from "../survey.ts";
import type { Add, Family } from "./exposition.ts";
import type { RuntimeFigures } from "./runtime.ts";

/** What a scrape is made of. */
export interface Scrape {
  readonly version: string;
  readonly configuration: Configuration;
  readonly uptimeSeconds: number;
  readonly survey: Survey;
  readonly runtime: RuntimeFigures;
}

export type Type = Family<Scrape>["type"];

export function single(
  name: string,
  type: Type,
  help: string,
  value: (scrape: Scrape) => number,
): Family<Scrape> {
  return { name, type, labels: [], help, samples: (scrape, add) => add(value(scrape)) };
}

/** A counter by cause, each of `values` there from the start. */
export function byCause<Cause extends string>(
  name: string,
  help: string,
  values: readonly Cause[],
  counts: (scrape: Scrape) => ReadonlyMap<Cause, number>,
): Family<Scrape> {
  return {
    name,
    type: "counter",
    labels: ["cause"],
    help,
    samples: (scrape, add) => {
      const counted = counts(scrape);
      for (const value of values) add(counted.get(value) ?? 0, value);
    },
  };
}

/** A counter by reason; a reason that has not happened has no series. */
export function byReason(
  name: string,
  help: string,
  counts: (scrape: Scrape) => ReadonlyMap<string, number>,
): Family<Scrape> {
  return {
    name,
    type: "counter",
    labels: ["reason"],
    help,
    samples: (scrape, add) => addSorted(counts(scrape), add),
  };
}

export function addSorted(counts: ReadonlyMap<string, number>, add: Add): void {
  for (const [label, count] of [...counts].sort(([a], [b]) => a < b ? -1 : 1)) add(count, label);
}
