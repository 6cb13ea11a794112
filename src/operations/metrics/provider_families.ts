/** Storage providers: metrics 57 to 63 of the catalogue. */
import type { ClosedBy } from "../../storage/contract.ts";
import type { ProviderSurvey } from "../survey.ts";
import type { Family } from "./exposition.ts";
import type { Scrape, Type } from "./family.ts";

function perProvider(
  name: string,
  type: Type,
  help: string,
  value: (provider: ProviderSurvey) => number | undefined,
): Family<Scrape> {
  return {
    name,
    type,
    labels: ["provider"],
    help,
    samples: ({ survey }, add) => {
      for (const provider of survey.providers) {
        const figure = value(provider);
        if (figure !== undefined) add(figure, provider.name);
      }
    },
  };
}

const CLOSED_BY: readonly ClosedBy[] = ["commit", "interval", "records", "unbatched"];

export const PROVIDER_FAMILIES: readonly Family<Scrape>[] = [
  {
    name: "saguin_provider_info",
    type: "gauge",
    labels: ["provider", "type"],
    help: "Constant 1 naming a provider's kind.",
    samples: ({ survey }, add) => {
      for (const { name, type } of survey.providers) add(1, name, type);
    },
  },
  perProvider(
    "saguin_provider_bytes",
    "gauge",
    "Everything a provider holds.",
    ({ statistics }) => statistics.bytes,
  ),
  perProvider(
    "saguin_provider_max_bytes",
    "gauge",
    "Configured provider bound.",
    ({ maxBytes }) => maxBytes ?? 0,
  ),
  perProvider(
    "saguin_storage_errors_total",
    "counter",
    "Storage calls that failed.",
    ({ statistics: { errors } }) => errors === 0 ? undefined : errors,
  ),
  {
    name: "saguin_storage_commits_total",
    type: "counter",
    labels: ["provider", "closed_by"],
    help: "Publish transactions, by what closed them.",
    samples: ({ survey }, add) => {
      for (const { name, statistics: { file } } of survey.providers) {
        if (file === undefined) continue;
        for (const by of CLOSED_BY) add(file.publishCommits[by], name, by);
      }
    },
  },
  perProvider(
    "saguin_storage_committed_records_total",
    "counter",
    "Records those transactions stored.",
    ({ statistics }) => statistics.file?.publishRecords,
  ),
  perProvider(
    "saguin_provider_publish_commit_max_records",
    "gauge",
    "Most records one publish transaction may hold.",
    ({ statistics }) => statistics.file?.publishMost,
  ),
];

/** Beyond the catalogue: the threads of this runtime's providers. */
export const WORKERS_FAMILY: Family<Scrape> = perProvider(
  "saguin_runtime_workers",
  "gauge",
  "Worker threads of a provider.",
  ({ statistics }) => statistics.file?.workers,
);
