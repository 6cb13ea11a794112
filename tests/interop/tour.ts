/** The README's tour as something to run: its commands, and what they are said to print. */

export interface Step {
  /** Line of the README, from 1. */
  readonly line: number;
  readonly command: string;
  /** What the command prints; "..." in a line stands for anything. */
  readonly expected: readonly string[];
}

/** A step, or the broker's death between two steps. */
export type Stop = Step | "kill";

const KILL = "<!-- tour: kill -9, start again -->";

/**
 * Every `console` block of the section `## Tour`: lines that begin with "$ " are commands, a backslash
 * at the end of a line continues it, everything else is output.
 * @throws Error when there is no such section or it has no commands
 */
export function readTour(readme: string): Stop[] {
  const stops: Stop[] = [];
  let inTour = false;
  let inBlock = false;
  let step: { line: number; command: string; expected: string[] } | undefined;
  for (const [i, line] of readme.split("\n").entries()) {
    if (!inBlock && line.startsWith("## ")) inTour = line === "## Tour";
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
  if (!stops.some((stop) => stop !== "kill")) throw new Error("the README has no tour");
  return stops;
}

/** Whether `printed` is what `expected` announces, "..." standing for anything within a line. */
export function matches(printed: readonly string[], expected: readonly string[]): boolean {
  return printed.length === expected.length && expected.every((line, i) => {
    const pattern = line.split("...").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    return new RegExp(`^${pattern.join(".*")}$`).test(printed[i]);
  });
}
