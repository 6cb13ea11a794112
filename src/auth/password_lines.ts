/**
 * The lines of a password file, one by one and as they stand: what reads them all, and what changes one
 * and leaves the others alone, take them apart here. Blank lines and lines that begin with `#` say
 * nothing.
 */

/** One line that names a user. */
export interface PasswordLine {
  /** Without the blanks around it, as mosquitto reads it. */
  readonly user: string;
  /** Everything between the first two colons. */
  readonly hash: string;
  /** Everything behind the second colon; undefined without one. */
  readonly scope: string | undefined;
}

/**
 * Undefined: the line says nothing. `"no colon"`: it may well be a password that stands alone, so no
 * message shows it.
 */
export function readLine(text: string): PasswordLine | "no colon" | undefined {
  const line = trim(text);
  if (line === "" || text.startsWith("#")) return undefined;
  const first = line.indexOf(":");
  if (first < 0) return "no colon";
  const second = line.indexOf(":", first + 1);
  return {
    user: trim(line.slice(0, first)),
    hash: trim(line.slice(first + 1, second < 0 ? undefined : second)),
    scope: second < 0 ? undefined : trim(line.slice(second + 1)),
  };
}

export function writeLine({ user, hash, scope }: PasswordLine): string {
  return `${user}:${hash}${scope === undefined ? "" : `:${scope}`}`;
}

/** The blanks of C, and no others: a name may end in any other character. */
function trim(text: string): string {
  return text.replace(/^[ \t\r\n\v\f]+/, "").replace(/[ \t\r\n\v\f]+$/, "");
}

// deno-lint-ignore no-control-regex
const CONTROL_CHARACTER = /[\x00-\x1f\x7f-\x9f]/;

/** A name with one of these is never an identity, whatever vouches for it (02b 4.4). */
export function hasControlCharacter(name: string): boolean {
  return CONTROL_CHARACTER.test(name);
}

/** The longest string that MQTT can carry, in UTF-8 bytes. */
const LONGEST_NAME_BYTES = 65_535;

/** Why nobody can be called `name`, as the end of a sentence; undefined for a good name. */
export function userNameFault(name: string): string | undefined {
  if (name === "") return "is no user name; write one";
  if (hasControlCharacter(name)) {
    return "holds a control character, and no client of that name is admitted; write another name";
  }
  if (new TextEncoder().encode(name).length > LONGEST_NAME_BYTES) {
    return `is longer than ${LONGEST_NAME_BYTES} bytes; write a shorter name`;
  }
  return undefined;
}
