/** Reads the text format of a scrape, version 0.0.4, and refuses what a scraper would stumble over. */

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface MetricFamily {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly Sample[];
}

export class Metrics {
  constructor(readonly families: ReadonlyMap<string, MetricFamily>) {}

  /** @throws Error naming the line that is not what the format says */
  static parse(text: string): Metrics {
    const families = new Map<string, { type: string; help: string; samples: Sample[] }>();
    let name = "";
    let help = "";
    for (const line of text.split("\n")) {
      if (line === "") continue;
      const about = /^# (HELP|TYPE) ([a-z0-9_]+) (.*)$/.exec(line);
      if (about !== null) {
        const [, what, of, rest] = about;
        if (what === "HELP") {
          if (families.has(of)) throw new Error(`a family in two pieces: ${line}`);
          name = of;
          help = rest;
          continue;
        }
        if (of !== name || (rest !== "counter" && rest !== "gauge")) throw new Error(line);
        families.set(name, { type: rest, help, samples: [] });
        continue;
      }
      const sample = /^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
      const family = families.get(name);
      if (sample?.[1] !== name || family === undefined) throw new Error(`out of place: ${line}`);
      const labels = labelsOf(sample[2] ?? "");
      const value = Number(sample[3]);
      if (!Number.isFinite(value)) throw new Error(`no number: ${line}`);
      const key = JSON.stringify(labels);
      if (family.samples.some((other) => JSON.stringify(other.labels) === key)) {
        throw new Error(`twice: ${line}`);
      }
      family.samples.push({ labels, value });
    }
    for (const [of, { samples }] of families) {
      if (samples.length === 0) throw new Error(`${of} has a heading and no sample`);
    }
    return new Metrics(families);
  }

  /** The one sample with these labels; undefined where there is none. */
  get(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    const found =
      this.families.get(name)?.samples.filter((sample) =>
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value)
      ) ?? [];
    if (found.length > 1) throw new Error(`${name} has several samples like that`);
    return found[0]?.value;
  }

  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    let sum = 0;
    for (const sample of this.families.get(name)?.samples ?? []) {
      const matches = Object.entries(labels).every(([label, value]) =>
        sample.labels[label] === value
      );
      if (matches) sum += sample.value;
    }
    return sum;
  }

  /** Values of one label, in the order of the scrape. */
  values(name: string, label: string): string[] {
    return this.families.get(name)?.samples.map((sample) => sample.labels[label]) ?? [];
  }
}

function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  const pair = /([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y;
  while (pair.lastIndex < text.length) {
    const found = pair.exec(text);
    if (found === null) throw new Error(`no labels: ${text}`);
    labels[found[1]] = found[2].replace(/\\(.)/g, (_, c) => c === "n" ? "\n" : c);
  }
  return labels;
}
