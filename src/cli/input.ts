/** What a command reads from its operator: the lines of standard input, and a password nobody sees. */

/** Longest line that is taken; names and filters end at half of it. */
const LONGEST_LINE = 128 * 1024;

const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const INTERRUPT = 0x03;
const END_OF_INPUT = 0x04;
const BACKSPACE = 0x08;
const DELETE = 0x7f;

/** Standard input holds a line that no name and no filter could be. */
export class LineTooLong extends Error {}

export interface Input {
  /** Standard input line by line, without line ends. @throws LineTooLong */
  lines(): AsyncIterable<string>;
  /**
   * Asks for a line after each prompt and shows none of them, not even what is typed between two;
   * undefined when the operator gave up. What is no terminal is asked nothing: its lines are taken as
   * they come, at least one and at most one a prompt, since nobody mistypes into a pipe.
   */
  secrets(prompts: readonly string[]): Promise<readonly string[] | undefined>;
}

/** The streams of the process. */
export class TerminalInput implements Input {
  readonly #bytes = new InputBytes(Deno.stdin);

  async *lines(): AsyncIterable<string> {
    for (;;) {
      const line = await this.#bytes.line();
      if (line === undefined) return;
      yield line;
    }
  }

  async secrets(prompts: readonly string[]): Promise<readonly string[] | undefined> {
    if (!Deno.stdin.isTerminal()) return await this.#piped(prompts.length);
    // Before the first prompt: what is typed as soon as it is seen would be echoed otherwise.
    Deno.stdin.setRaw(true);
    try {
      const lines: string[] = [];
      for (const prompt of prompts) {
        show(prompt);
        const line = await this.#typed();
        show("\r\n");
        if (line === undefined) return undefined;
        lines.push(line);
      }
      return lines;
    } finally {
      Deno.stdin.setRaw(false);
    }
  }

  async #piped(most: number): Promise<readonly string[] | undefined> {
    const lines: string[] = [];
    while (lines.length < most) {
      const line = await this.#bytes.line();
      if (line === undefined) break;
      lines.push(line);
    }
    return lines.length === 0 ? undefined : lines;
  }

  /** A line in raw mode, where what the terminal did with keys is done here. */
  async #typed(): Promise<string | undefined> {
    const line: number[] = [];
    for (;;) {
      const byte = await this.#bytes.next();
      if (byte === undefined || byte === INTERRUPT || byte === END_OF_INPUT) return undefined;
      if (byte === NEWLINE || byte === CARRIAGE_RETURN) return text(line);
      if (byte === BACKSPACE || byte === DELETE) removeCharacter(line);
      else if (line.length < LONGEST_LINE) line.push(byte);
    }
  }
}

function show(prompt: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(prompt));
}

function removeCharacter(line: number[]): void {
  for (;;) {
    const byte = line.pop();
    if (byte === undefined || (byte & 0xc0) !== 0x80) return;
  }
}

function text(bytes: readonly number[]): string {
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

/** Bytes of a stream, with what was read ahead kept for the next call. */
export class InputBytes {
  #chunk = new Uint8Array(0);
  #at = 0;

  constructor(
    private readonly source: { read(into: Uint8Array): Promise<number | null> },
    private readonly longestLine = LONGEST_LINE,
  ) {}

  async next(): Promise<number | undefined> {
    while (this.#at === this.#chunk.length) {
      if (!await this.#fill()) return undefined;
    }
    return this.#chunk[this.#at++];
  }

  /** The rest of a line; undefined when nothing is left. */
  async line(): Promise<string | undefined> {
    const line: number[] = [];
    for (;;) {
      const byte = await this.next();
      if (byte === undefined && line.length === 0) return undefined;
      if (byte === undefined || byte === NEWLINE) break;
      line.push(byte);
      if (line.length > this.longestLine) {
        throw new LineTooLong(`standard input has a line longer than ${this.longestLine} bytes`);
      }
    }
    if (line.at(-1) === CARRIAGE_RETURN) line.pop();
    return text(line);
  }

  async #fill(): Promise<boolean> {
    const space = new Uint8Array(64 * 1024);
    const count = await this.source.read(space);
    this.#chunk = space.subarray(0, count ?? 0);
    this.#at = 0;
    return count !== null;
  }
}
