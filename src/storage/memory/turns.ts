/** Entries of a store looked at in one turn while walking all of it: under a millisecond here. */
export const ENTRIES_A_TURN = 4_096;

/** Lets whatever else is ready run before a long walk goes on. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
