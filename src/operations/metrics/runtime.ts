/** What this runtime can say about itself, read when a scrape is computed and never else. */
import process from "node:process";
import { getHeapStatistics } from "node:v8";
import type { Family } from "./exposition.ts";

export interface RuntimeFigures {
  readonly heapUsed: number;
  readonly heapTotal: number;
  readonly heapLimit: number;
  readonly external: number;
  readonly resident: number;
  readonly allocated: number;
  /** CPU time of all threads of the process, in seconds. */
  readonly cpuUser: number;
  readonly cpuSystem: number;
  /** Seconds that the latest computation waited for its first turn of the event loop. */
  readonly lag: number;
  /** Timers that have fired, and the sum of how late they were, in seconds. */
  readonly timersFired: number;
  readonly timersLate: number;
}

/** `lagMs` and `timers` are measured by whoever asks. */
export function readRuntime(
  lagMs: number,
  timers: { readonly fired: number; readonly lateMs: number },
): RuntimeFigures {
  const heap = getHeapStatistics() as ReturnType<typeof getHeapStatistics> & {
    readonly total_allocated_bytes: number;
  };
  const cpu = process.cpuUsage();
  return {
    heapUsed: heap.used_heap_size,
    heapTotal: heap.total_heap_size,
    heapLimit: heap.heap_size_limit,
    external: heap.external_memory,
    resident: Deno.memoryUsage().rss,
    allocated: heap.total_allocated_bytes,
    cpuUser: cpu.user / 1e6,
    cpuSystem: cpu.system / 1e6,
    lag: lagMs / 1_000,
    timersFired: timers.fired,
    timersLate: timers.lateMs / 1_000,
  };
}

function one(
  name: string,
  type: Family<RuntimeFigures>["type"],
  help: string,
  value: (figures: RuntimeFigures) => number,
): Family<RuntimeFigures> {
  return { name, type, labels: [], help, samples: (figures, add) => add(value(figures)) };
}

/** The main thread's heap; storage workers have heaps of their own, which only the resident size shows. */
export const RUNTIME_FAMILIES: readonly Family<RuntimeFigures>[] = [
  one(
    "saguin_runtime_heap_used_bytes",
    "gauge",
    "Bytes of the main heap in use, garbage not yet collected included.",
    ({ heapUsed }) => heapUsed,
  ),
  one(
    "saguin_runtime_heap_bytes",
    "gauge",
    "Bytes that the main heap has reserved.",
    ({ heapTotal }) => heapTotal,
  ),
  one(
    "saguin_runtime_heap_limit_bytes",
    "gauge",
    "Size of the main heap at which the process ends.",
    ({ heapLimit }) => heapLimit,
  ),
  one(
    "saguin_runtime_external_bytes",
    "gauge",
    "Bytes outside the main heap that its objects hold, payloads among them.",
    ({ external }) => external,
  ),
  one(
    "saguin_runtime_resident_bytes",
    "gauge",
    "Resident memory of the process, storage workers included.",
    ({ resident }) => resident,
  ),
  one(
    "saguin_runtime_allocated_bytes_total",
    "counter",
    "Bytes allocated on the main heap.",
    ({ allocated }) => allocated,
  ),
  {
    name: "saguin_runtime_cpu_seconds_total",
    type: "counter",
    labels: ["mode"],
    help: "CPU seconds of the process, all threads.",
    samples: ({ cpuUser, cpuSystem }, add) => {
      add(cpuSystem, "system");
      add(cpuUser, "user");
    },
  },
  one(
    "saguin_runtime_event_loop_lag_seconds",
    "gauge",
    "Seconds that this computation waited for a turn of the event loop.",
    ({ lag }) => lag,
  ),
  one(
    "saguin_runtime_timers_fired_total",
    "counter",
    "Timers of the broker that have fired.",
    ({ timersFired }) => timersFired,
  ),
  one(
    "saguin_runtime_timers_late_seconds_total",
    "counter",
    "Seconds by which those timers fired late, added up.",
    ({ timersLate }) => timersLate,
  ),
];
