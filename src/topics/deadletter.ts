import { levelEnd } from "./filter.ts";

/** The level that tells dead letters from work (02a 9). No operator's filter may have it. */
export const DEAD_LETTER_LEVEL = "__dlq";

/** The name of a queue's dead-letter channel is the queue's and this (02a 9). */
export const DEAD_LETTER_SUFFIX = "__dlq";

/**
 * The filter of a queue's dead-letter channel (02a 9): one level more, where the queue's filter has
 * its `#`, else at the end. `queueFilter` is the resolved one, never absent.
 */
export function deadLetterFilter(queueFilter: string): string {
  return queueFilter.endsWith("#")
    ? `${queueFilter.slice(0, -1)}${DEAD_LETTER_LEVEL}/#`
    : `${queueFilter}/${DEAD_LETTER_LEVEL}`;
}

/**
 * The topic under which a record of the queue is dead-lettered (D14.23). `topic` matches
 * `queueFilter`. It may come out one level past `limits.max_topic_levels`, and is stored so.
 */
export function deadLetterTopic(queueFilter: string, topic: string): string {
  if (!queueFilter.endsWith("#")) return `${topic}/${DEAD_LETTER_LEVEL}`;
  let at = 0;
  for (let mark = levelEnd(queueFilter, 0); mark < queueFilter.length;) {
    at = levelEnd(topic, at) + 1;
    mark = levelEnd(queueFilter, mark + 1);
  }
  // The topic ends where "#" begins: it is the parent that "#" matches too.
  if (at > topic.length) return `${topic}/${DEAD_LETTER_LEVEL}`;
  return `${topic.slice(0, at)}${DEAD_LETTER_LEVEL}/${topic.slice(at)}`;
}

/** Whether any level of an operator's filter is the reserved one; such a filter is refused. */
export function hasDeadLetterLevel(filter: string): boolean {
  for (let at = 0; at <= filter.length;) {
    const end = levelEnd(filter, at);
    if (end - at === DEAD_LETTER_LEVEL.length && filter.startsWith(DEAD_LETTER_LEVEL, at)) {
      return true;
    }
    at = end + 1;
  }
  return false;
}
