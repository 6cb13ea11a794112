/** Which state of the sources a build is of, and when that was written. */
import { output } from "./command.ts";

export interface Revision {
  /** Twelve hexadecimal digits of the commit, "+changes" behind them when files differ from it. */
  readonly text: string;
  /** Seconds since 1970: of the commit, so that two builds of it make the same bytes. */
  readonly writtenAt: number;
}

const DIGITS = 12;

/**
 * Asks git. Where the sources are no clone, SAGUIN_REVISION and SOURCE_DATE_EPOCH say it.
 * @throws Error when neither does
 */
export async function revisionOf(root: string): Promise<Revision> {
  const given = Deno.env.get("SAGUIN_REVISION");
  const epoch = Deno.env.get("SOURCE_DATE_EPOCH");
  if (given !== undefined) {
    if (!/^[0-9a-z+.-]{1,24}$/.test(given)) {
      throw new Error(`SAGUIN_REVISION "${given}" is no revision: at most 24 of 0-9 a-z + . -`);
    }
    return { text: given, writtenAt: Number(epoch ?? 0) };
  }
  try {
    const git = (...args: string[]) => output("git", ["-C", root, ...args]);
    const [commit, time] = (await git("log", "-1", "--format=%H %ct")).trim().split(" ");
    const changed = (await git("status", "--porcelain", "--untracked-files=no")).trim() !== "";
    return {
      text: commit.slice(0, DIGITS) + (changed ? "+changes" : ""),
      writtenAt: Number(epoch ?? time),
    };
  } catch (error) {
    throw new Error(
      `the sources are no git clone (${
        (error as Error).message
      }); say what they are with SAGUIN_REVISION`,
      { cause: error },
    );
  }
}
