/** Waiting in tests: always for something named, always with an end. */

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
  timeoutMs = 5_000,
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
export async function within<T>(what: string, promise: Promise<T>, timeoutMs = 5_000): Promise<T> {
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
