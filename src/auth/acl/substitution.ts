/** `%u` and `%c` in the filters of a rule (02b 7.3). */

/** Whose values are put in. `clientId` undefined: only the user is known, as for `--acl`. */
export interface Subject {
  readonly user: string;
  readonly clientId: string | undefined;
}

/** Why a rule grants nothing to a client. */
export type Withheld =
  /** The value holds `+`, `#` or `/`, and would reach beyond its level. */
  | "wildcard"
  /** The rule is about the client id, and none was given. */
  | "no client id";

const SUBSTITUTED = /%[uc]/g;

export function isTemplate(filter: string): boolean {
  return /%[uc]/.test(filter);
}

export function usesClientId(filter: string): boolean {
  return filter.includes("%c");
}

/** Why a rule with these filters grants nothing to `subject`; undefined when it grants what it says. */
export function withheld(filters: readonly string[], subject: Subject): Withheld | undefined {
  const { user, clientId } = subject;
  if (filters.some(usesClientId)) {
    if (clientId === undefined) return "no client id";
    if (reachesBeyondLevel(clientId)) return "wildcard";
  }
  const usesUser = filters.some((filter) => filter.includes("%u"));
  return usesUser && reachesBeyondLevel(user) ? "wildcard" : undefined;
}

function reachesBeyondLevel(value: string): boolean {
  return /[+#/]/.test(value);
}

/** The filter with the values in place, in one pass: what is put in is not looked at again. */
export function substitute(filter: string, { user, clientId }: Subject): string {
  return filter.replaceAll(SUBSTITUTED, (mark) => mark === "%u" ? user : clientId ?? "");
}
