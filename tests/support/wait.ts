/** Waiting in tests: always for something named, always with an end. */

/**
 * How many times longer than usual things may take: for an executable of another processor, which an
 * emulator runs. A wait that ends well ends no later for it.
 */
const PATIENCE = Number(Deno.env.get("SAGUIN_PATIENCE") ?? "1");

/** A bound of a wait, as long as it has to be where the tests run. */
export function patient(ms: number): number {
  return ms * PATIENCE;
}

/**
 * How long a wait may take where nothing else is said: far more than it does take, since a machine with
 * other work has seconds in which nothing here runs.
 */
export const ANSWER_MS = patient(20_000);

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Asks `condition` every `everyMs` until it answers something other than false or undefined, and
 * returns that.
 * @throws Error naming `what` after `timeoutMs`
 */
export async function until<T>(
  what: string,
  condition: () => T | false | undefined | Promise<T | false | undefined>,
  timeoutMs = ANSWER_MS,
  everyMs = 10,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const answer = await condition();
    if (answer !== false && answer !== undefined) return answer;
    if (performance.now() >= end) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`);
    await sleep(everyMs);
  }
}

/**
 * `promise`, or an error naming `what` after `timeoutMs`.
 */
export async function within<T>(
  what: string,
  promise: Promise<T>,
  timeoutMs = ANSWER_MS,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`waited ${timeoutMs} ms in vain for ${what}`)),
      timeoutMs,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
