/**
 * What a publish costs after its answer, as `PublishEntry.reach` counts it: one for a session that is owed
 * it, and this for one that may be sent it at once.
 */
export const SENT_AT_ONCE = 4;

/** Readers of a channel that are not worth counting. */
export const FEW_READERS = 64;
