/** A headless Chromium, driven by page_driver.mjs in a Node process of its own. */
import { TextLineStream } from "./lines.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const PLAYWRIGHT = `${ROOT}.interop/operations/node_modules/playwright-core/package.json`;

export interface Opening {
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
  readonly width?: number;
  readonly height?: number;
  readonly scheme?: "light" | "dark";
}

export class Browser implements AsyncDisposable {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: ReadableStreamDefaultReader<string>;

  private constructor(private readonly child: Deno.ChildProcess) {
    this.#writer = child.stdin.getWriter();
    this.#lines = child.stdout.pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream()).getReader();
  }

  static start(): Browser {
    return new Browser(
      new Deno.Command("node", {
        args: [`${ROOT}tests/interop/page_driver.mjs`],
        env: { PLAYWRIGHT, CHROMIUM: "/usr/bin/chromium" },
        stdin: "piped",
        stdout: "piped",
        stderr: "inherit",
      }).spawn(),
    );
  }

  async #ask<T>(command: string, options: object = {}): Promise<T> {
    const line = JSON.stringify({ command, ...options });
    await this.#writer.write(new TextEncoder().encode(`${line}\n`));
    const { value } = await this.#lines.read();
    if (value === undefined) throw new Error(`the browser ended at ${line}`);
    const answer = JSON.parse(value);
    if ("error" in answer) throw new Error(`${line}: ${answer.error}`);
    return answer.value;
  }

  /** The status of the answer. */
  open(opening: Opening): Promise<number> {
    return this.#ask("open", { width: 1280, height: 900, scheme: "light", ...opening });
  }

  heard(): Promise<{ readonly complaints: string[]; readonly requests: string[] }> {
    return this.#ask("heard");
  }

  text(selector: string): Promise<string> {
    return this.#ask("text", { selector });
  }

  texts(selector: string): Promise<string[]> {
    return this.#ask("texts", { selector });
  }

  /** Waits for an element with a text that `pattern` matches. */
  until(selector: string, pattern: string): Promise<string> {
    return this.#ask("until", { selector, pattern });
  }

  click(selector: string): Promise<void> {
    return this.#ask("click", { selector });
  }

  fill(selector: string, text: string): Promise<void> {
    return this.#ask("fill", { selector, text });
  }

  press(key: string): Promise<void> {
    return this.#ask("press", { key });
  }

  evaluate<T>(expression: string): Promise<T> {
    return this.#ask("evaluate", { expression });
  }

  screenshot(path: string): Promise<void> {
    return this.#ask("screenshot", { path });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer.close();
    await this.#lines.cancel();
    await this.child.status;
  }
}
