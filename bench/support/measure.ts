/** Figures about other processes (Linux), and what is done with figures. */

/** The middle of `values`; of two middles, their mean. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError("median: no values");
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/**
 * Bytes that the process caused to be written to a block device so far (`write_bytes`: counted when
 * a page of the cache becomes dirty, so a page written twice before it leaves counts once).
 */
export function writtenBytes(pid: number): number {
  return figure(`/proc/${pid}/io`, /^write_bytes: (\d+)$/m);
}

/** Resident memory, bytes. */
export function residentBytes(pid: number): number {
  return figure(`/proc/${pid}/status`, /^VmRSS:\s+(\d+) kB$/m) * 1024;
}

/** Processor time of all threads of the process so far, in seconds; counted in ticks of 10 ms. */
export function processorSeconds(pid: number): number {
  const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
  // The name in brackets may hold anything; user and system time are the 14th and 15th fields.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

function figure(path: string, pattern: RegExp): number {
  const found = pattern.exec(Deno.readTextFileSync(path));
  if (found === null) throw new Error(`${path} has no line like ${pattern}`);
  return Number(found[1]);
}

/** Columns aligned to the right, the first to the left; a row of "-" under the heads. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = heads.map((head, i) => Math.max(head.length, ...rows.map((row) => row[i].length)));
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i])).join("  ");
  return [line(heads), line(widths.map((w) => "-".repeat(w))), ...rows.map(line)].join("\n");
}

/** 12,345 */
export function whole(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}
