/** A connection that is told to end, and may not. */
export interface Ending {
  /** Resolves when it has ended. */
  readonly closed: Promise<void>;
  /** Ends it without a word. Idempotent. */
  cut(): void;
}

/** Waits until all have ended, for `deadlineMs` at the most, and cuts those that are left then. */
export async function drain(connections: ReadonlySet<Ending>, deadlineMs: number): Promise<void> {
  const ends = [...connections].map(({ closed }) => closed);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const deadline = new Promise<void>((resolve) => timer = setTimeout(resolve, deadlineMs));
  await Promise.race([Promise.all(ends), deadline]);
  clearTimeout(timer);
  for (const connection of connections) connection.cut();
}
