/** The files that a configuration names and that a start reads, with every key that names each. */
import type { Findings } from "./finding.ts";
import type { Block, Setting } from "./settings.ts";
import { unreadable } from "./walk.ts";

/** Reads the bytes of a file. @throws whatever the system says */
export type ReadFile = (path: string) => Uint8Array;

export class NamedFiles {
  readonly #mentions = new Map<string, Setting[]>();

  constructor(settings: Block) {
    this.#collect(settings);
  }

  /** Tells `findings`, at every key that names the file, what is wrong with it and what to write. */
  refuse(file: string, says: string, findings: Findings): void {
    for (const { place, path } of this.#mentions.get(file)!) {
      findings.add(place, path, says, file);
    }
  }

  /** The bytes of a file that some key names; undefined, with findings, when it cannot be read. */
  read(file: string, readFile: ReadFile, findings: Findings): Uint8Array | undefined {
    try {
      return readFile(file);
    } catch (error) {
      this.refuse(file, unreadable(error), findings);
      return undefined;
    }
  }

  /** Tells `findings` of every file that cannot be read. */
  check(readFile: ReadFile, findings: Findings): void {
    for (const file of this.#mentions.keys()) this.read(file, readFile, findings);
  }

  #collect(block: Block): void {
    for (const setting of block.settings.values()) {
      const { key: { kind }, value } = setting;
      if (kind.of !== "path" || kind.read !== true || typeof value !== "string") continue;
      const mentions = this.#mentions.get(value);
      if (mentions === undefined) this.#mentions.set(value, [setting]);
      else mentions.push(setting);
    }
    for (const under of block.blocks.values()) this.#collect(under);
    for (const items of block.lists.values()) {
      for (const item of items) this.#collect(item);
    }
  }
}
