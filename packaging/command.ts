/** Other programs, run to their end. */

export interface CommandOptions {
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  /** Gives the command `env` and nothing else. */
  readonly clearEnv?: boolean;
}

/**
 * Standard output of a command.
 * @throws Error with what it wrote, when it fails or is not there
 */
export async function output(
  command: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<string> {
  let result: Deno.CommandOutput;
  try {
    result = await new Deno.Command(command, {
      args: [...args],
      ...options,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).output();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new Error(`there is no ${command} on PATH`, { cause: error });
  }
  const decoder = new TextDecoder();
  const stdout = decoder.decode(result.stdout);
  if (result.success) return stdout;
  const wrote = (stdout + decoder.decode(result.stderr)).trim();
  throw new Error(`${[command, ...args].join(" ")} ended with ${result.code}:\n${wrote}`);
}

/** Whether there is a program of that name on PATH. */
export function onPath(name: string): boolean {
  return (Deno.env.get("PATH") ?? "").split(":").some((directory) => {
    try {
      return Deno.statSync(`${directory}/${name}`).isFile;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
        return false;
      }
      if (error instanceof Deno.errors.PermissionDenied) return false;
      throw error;
    }
  });
}
