/**
 * A configuration after reading, before anything is compared with anything else: each key of the table
 * that was written, or that the table fills in, with its value and its place.
 */
import type { Place } from "./configuration.ts";
import { type Key, NONE, type Value } from "./table/key.ts";

export interface Setting {
  readonly key: Key;
  /** The full path as messages name it: `channels.readings.type`, `limits.max_connections`. */
  readonly path: string;
  /** Of the value; of the block around it for a default. */
  readonly place: Place;
  /** As in the file, or as it would be written there. */
  readonly text: string;
  readonly value: Value;
  /** False for what the table filled in. */
  readonly written: boolean;
}

/** The keys of one mapping. */
export class Block {
  readonly settings = new Map<string, Setting>();
  readonly blocks = new Map<string, Block>();
  /** Doors, rows, or named things, in the order of the file. */
  readonly lists = new Map<string, readonly Block[]>();
  readonly #refused = new Set<string>();

  constructor(
    /** How messages name it. */
    readonly path: string,
    /** Of the key that opens it. */
    readonly place: Place,
    /** The chosen name of a named thing; empty otherwise. */
    readonly name = "",
    /** False for a block that no file mentions. */
    readonly written = true,
  ) {}

  /** The key was written and refused: nothing may be concluded from its absence. */
  refuse(key: string): void {
    this.#refused.add(key);
  }

  refused(key: string): boolean {
    return this.#refused.has(key);
  }

  /** Something under this block was refused: it may have been meant as what is missing. */
  get blamed(): boolean {
    return this.#refused.size > 0;
  }

  /** As read; `none` stays the word. Undefined when absent or refused. */
  value(key: string): Value | undefined {
    return this.settings.get(key)?.value;
  }

  /** A count, size or duration; undefined for `none` too. */
  number(key: string): number | undefined {
    const value = this.value(key);
    return typeof value === "number" ? value : undefined;
  }

  /** A text; undefined for `none` of a path too. */
  text(key: string): string | undefined {
    const setting = this.settings.get(key);
    if (typeof setting?.value !== "string") return undefined;
    return setting.value === NONE && setting.key.kind.of !== "word" ? undefined : setting.value;
  }

  flag(key: string): boolean | undefined {
    const value = this.value(key);
    return typeof value === "boolean" ? value : undefined;
  }

  texts(key: string): readonly string[] {
    const value = this.value(key);
    return Array.isArray(value) ? value : [];
  }

  isNone(key: string): boolean {
    return this.value(key) === NONE;
  }

  /** Where to point for a key: its value, or the block if it is not written. */
  placeOf(key: string): Place {
    return this.settings.get(key)?.place ?? this.place;
  }

  /** A block that the table says is always there. */
  block(key: string): Block {
    const block = this.blocks.get(key);
    if (block === undefined) throw new TypeError(`${this.path}.${key} is not a block`);
    return block;
  }

  list(key: string): readonly Block[] {
    return this.lists.get(key) ?? [];
  }
}

/** The whole file. */
export class Settings extends Block {
  /** By full table path without `*`: `broker.storage.default`. */
  at(path: string): Setting | undefined {
    const segments = path.split(".");
    const last = segments.pop()!;
    const block = segments.reduce<Block | undefined>(
      (under, segment) => under?.blocks.get(segment),
      this,
    );
    return block?.settings.get(last);
  }
}
