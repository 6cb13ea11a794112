/** The examples of a page as something to run: their commands, and what they are said to print. */

export interface Step {
  /** Line of the page, from 1. */
  readonly line: number;
  readonly command: string;
  /** What the command prints; "..." in a line stands for anything. */
  readonly expected: readonly string[];
}

/** A step, or the broker's death between two steps. */
export type Stop = Step | "kill";

const KILL = "<!-- tour: kill -9, start again -->";

/**
 * Every `console` block of a section, "Tour" for `## Tour`, or of the whole page: lines that begin with
 * "$ " are commands, a backslash at the end of a line continues it, everything else is output.
 * @throws Error when there is no such section or it has no commands
 */
export function readTour(page: string, section?: string): Stop[] {
  const stops: Stop[] = [];
  let inTour = section === undefined;
  let inBlock = false;
  let step: { line: number; command: string; expected: string[] } | undefined;
  for (const [i, line] of page.split("\n").entries()) {
    if (!inBlock && section !== undefined && line.startsWith("## ")) {
      inTour = line === `## ${section}`;
    }
    if (!inTour) continue;
    if (line === KILL) stops.push("kill");
    else if (line.startsWith("```")) {
      inBlock = !inBlock && line === "```console";
      step = undefined;
    } else if (inBlock && step?.command.endsWith("\\")) {
      step.command = step.command.slice(0, -1) + line.trim();
    } else if (inBlock && line.startsWith("$ ")) {
      step = { line: i + 1, command: line.slice(2), expected: [] };
      stops.push(step);
    } else if (inBlock && step !== undefined) step.expected.push(line);
  }
  if (!stops.some((stop) => stop !== "kill")) throw new Error("there is nothing to type");
  return stops;
}

/** Whether `printed` is what `expected` announces, "..." standing for anything within a line. */
export function matches(printed: readonly string[], expected: readonly string[]): boolean {
  return printed.length === expected.length && expected.every((line, i) => {
    const pattern = line.split("...").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    return new RegExp(`^${pattern.join(".*")}$`).test(printed[i]);
  });
}
