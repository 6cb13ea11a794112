/**
 * One row of the schema table: everything that is known about a key before a file is read. Reading,
 * refusing, defaults, `--check-config --output`, the reference and the tests all come from the rows.
 */

/** `none` where it is a value: the bound, deadline or directory does not exist. */
export const NONE = "none";

/** What a scalar key holds after reading; durations in ms, sizes in bytes. */
export type Value = string | number | boolean | readonly string[];

/**
 * The forms a key can take. `none`, where present, says what the word `none` means for the key;
 * without it the word is refused. Bounds are inclusive.
 */
export type Kind =
  /** Free text. `fault` says what is wrong with one, as the end of a sentence. */
  | { readonly of: "text"; readonly fault?: (text: string) => string | undefined }
  /** One of a few words; `noun` is what they are, with its article. */
  | { readonly of: "word"; readonly noun: string; readonly words: readonly string[] }
  | { readonly of: "flag" }
  | {
    readonly of: "count";
    readonly min: number;
    readonly max: number;
    readonly none?: string;
  }
  | { readonly of: "size"; readonly min: number; readonly max: number; readonly none?: string }
  | {
    readonly of: "duration";
    readonly min: number;
    readonly max: number;
    /** True: `ms` may be written. False: the key is held in whole seconds. */
    readonly subsecond: boolean;
    readonly none?: string;
  }
  /**
   * An absolute path; `abstract`: or `@name`, a socket without a file; `read`: of a file that is read at the
   * start, so that it has to be there.
   */
  | {
    readonly of: "path";
    readonly none?: string;
    readonly abstract?: true;
    readonly read?: true;
  }
  /** `host:port`. */
  | { readonly of: "address" }
  /** A topic filter; which wildcards and braces it may hold is the business of its owner. */
  | { readonly of: "filter" }
  /** The name of a storage provider. */
  | { readonly of: "provider" }
  /** Socket permissions: octal digits in quotes. */
  | { readonly of: "mode" }
  /** A list of texts. */
  | { readonly of: "texts"; readonly fault?: (text: string) => string | undefined }
  /** A mapping of free names to words. */
  | { readonly of: "words"; readonly noun: string; readonly words: readonly string[] }
  /** A mapping of keys; `optional`: its absence means something, so it is not filled in. */
  | { readonly of: "block"; readonly optional?: true }
  /** One mapping, or a list of mappings with a `name` each. */
  | { readonly of: "doors" }
  /** A mapping of names that the operator chooses; `include`: or a list with `!include`. */
  | { readonly of: "named"; readonly noun: string; readonly include?: true }
  /** A list of mappings; `short` turns an item that is one string into its keys and values. */
  | {
    readonly of: "rows";
    readonly short?: (item: string) => readonly (readonly [key: string, text: string])[];
  };

/** How a default is found that is not one fixed text. */
export interface Derived {
  /** For the reference: `the smaller of 100KiB and limits.max_message_size`. */
  readonly says: string;
  /**
   * The value in the file's own notation, from the keys beside it (`near`), from anywhere (`root`, by
   * full path) or from the chosen name around it; undefined if those are missing or refused. Without
   * it the key stays absent.
   */
  readonly of?: (
    near: (key: string) => Value | undefined,
    root: (path: string) => Value | undefined,
    name: string,
  ) => string | undefined;
}

export interface Key {
  /** `*` stands for a chosen name; the keys of doors and rows follow directly after their own. */
  readonly path: string;
  readonly kind: Kind;
  /** Must be written: always, or where the key `type` beside it is one of these. */
  readonly required?: true | readonly string[];
  /** As it would be written in the file. Neither this nor `required`: the key may be absent. */
  readonly default?: string | Derived;
  /** Where it applies: only where the key `type` beside it is one of these. */
  readonly only?: readonly string[];
  /** Why a value that the kind refuses cannot be had; stands between the fault and the remedy. */
  readonly why?: string;
  /** One sentence for the reference. */
  readonly doc: string;
}

/** A key that exists elsewhere, or could be expected, and is refused by a sentence of its own. */
export interface RefusedKey {
  readonly path: string;
  /** What is wrong and what to write, after the key's name. */
  readonly says: string;
}
