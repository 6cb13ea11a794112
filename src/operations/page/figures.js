// The page of the operations listener. It reads routes and writes text into the document, never markup:
// what a client chose to be called stays text.

export const EVERY_MS = 2_000;
/** Lists are longer, and change less. */
export const LISTS_EVERY_MS = 6_000;
const HISTORY = 60;
/** A line of fewer values does not fill its width. */
const FEWEST = 20;
export const NEARLY_FULL = 0.85;

export const byId = (id) => document.getElementById(id);

// ------------------------------------------------------------------------------------------ figures

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(value) {
  return Math.abs(value) < 100_000 ? whole.format(value) : short.format(value);
}

export function rate(value) {
  if (value === undefined) return "–";
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(1) : count(value);
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? whole.format(value) : value.toFixed(1)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds >= 0xffff_ffff) return "for ever";
  for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["min", 60]]) {
    if (seconds >= size * 2) return `${whole.format(Math.floor(seconds / size))} ${unit}`;
  }
  return `${whole.format(seconds)} s`;
}

// deno-lint-ignore no-control-regex
const UNSEEN = /[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g;

/** What a client chose, with control characters where they can be seen. */
export function visible(text) {
  return text.replace(UNSEEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function clockTime(timestamp) {
  const at = new Date(timestamp);
  const today = new Date().toDateString() === at.toDateString();
  return today ? at.toLocaleTimeString() : at.toLocaleString();
}

// ----------------------------------------------------------------------------------------- document

export function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Writes only what changed, so that a selection or a screen reader is left alone. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

/** A line over the latest values; undefined values begin it later. */
export class Sparkline {
  constructor() {
    this.values = [];
    this.node = document.createElementNS(SVG, "svg");
    this.node.setAttribute("class", "spark");
    this.node.setAttribute("viewBox", "0 0 100 20");
    this.node.setAttribute("preserveAspectRatio", "none");
    this.node.setAttribute("aria-hidden", "true");
    this.area = document.createElementNS(SVG, "path");
    this.area.setAttribute("class", "area");
    this.line = document.createElementNS(SVG, "path");
    this.node.append(this.area, this.line);
  }

  push(value) {
    if (value === undefined) return;
    this.values.push(value);
    if (this.values.length > HISTORY) this.values.shift();
    const { values } = this;
    if (values.length < 2) return;
    const top = Math.max(...values, 1e-9);
    const step = 100 / (Math.max(values.length, FEWEST) - 1);
    const from = 100 - (values.length - 1) * step;
    const points = values.map((each, i) =>
      `${(from + i * step).toFixed(2)} ${(19 - 18 * each / top).toFixed(2)}`
    );
    const path = `M${points.join("L")}`;
    this.line.setAttribute("d", path);
    this.area.setAttribute("d", `${path}L100 20L${from.toFixed(2)} 20Z`);
  }
}

// -------------------------------------------------------------------------------------------- rates

/** What counters rise by in a second, from one reading to the next. */
class Rates {
  constructor() {
    this.before = new Map();
    this.at = undefined;
    this.seconds = 0;
  }

  /** `at`: ms of the broker's own clock. A restart begins anew. */
  begin(at) {
    if (this.at !== undefined && at < this.at) this.before.clear();
    this.seconds = this.at === undefined ? 0 : (at - this.at) / 1_000;
    this.at = at;
  }

  of(name, value) {
    const before = this.before.get(name);
    this.before.set(name, value);
    if (before === undefined || this.seconds <= 0) return undefined;
    return Math.max(0, value - before) / this.seconds;
  }
}

export const rates = new Rates();

// ------------------------------------------------------------------------------------------ reading

export class NotServed extends Error {
  constructor(status) {
    super(status === 401 || status === 403 ? "this operator may not read it" : `HTTP ${status}`);
    this.status = status;
  }
}

export async function read(route) {
  // Not relative to the page, whose own address may have a password in it: that fetches nothing.
  const response = await fetch(new URL(`/v1/operations/${route}`, location.origin), {
    headers: { Accept: "application/json" },
    cache: "no-store",
    signal: AbortSignal.timeout(10_000),
  });
  if (!response.ok) throw new NotServed(response.status);
  return await response.json();
}
