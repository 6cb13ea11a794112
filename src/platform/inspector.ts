import inspector from "node:inspector";

const LOOK_EVERY_MS = 5;
const LOOK_FOR_MS = 1_000;

/**
 * Closes the debugger port that this runtime opens on SIGUSR1 whatever the program does: right after
 * the signal, and for a second more. Needs the permission `sys`; without it the port cannot be closed,
 * and `onUnable` hears why.
 */
export function keepInspectorClosed(onClosed: () => void, onUnable: (why: string) => void): void {
  const until = performance.now() + LOOK_FOR_MS;
  const look = () => {
    try {
      if (inspector.url() !== undefined) {
        inspector.close();
        onClosed();
      }
    } catch (error) {
      onUnable(error instanceof Error ? error.message : String(error));
      return;
    }
    if (performance.now() < until) setTimeout(look, LOOK_EVERY_MS);
  };
  look();
}
