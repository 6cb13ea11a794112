import { Keeper } from "./keeper.ts";
import { WORKER_NAME_PREFIX, type WorkerRole } from "./messages.ts";
import { Reader } from "./reader.ts";
import { Writer } from "./writer.ts";

/** The part of a worker's global scope that this room uses. */
interface WorkerScope {
  readonly name: string;
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown, transfer: Transferable[]): void;
}

/**
 * The whole of a storage worker: takes its role from the Worker's name (`workerName`) and answers its
 * requests in order. Called by the program's entry module when that module runs as such a worker. An
 * exception out of a role's handler ends the worker, and with it the broker (S119).
 */
export function runStorageWorker(): void {
  const scope = globalThis as unknown as WorkerScope;
  const role = roleOf(scope.name);
  const part = role === "writer" ? new Writer() : role === "reader" ? new Reader() : new Keeper();
  const handle = (request: unknown) => part.handle(request as never);
  scope.onmessage = ({ data }) => {
    const answer = handle(data);
    scope.postMessage(answer, buffersOf(answer));
  };
}

/** Below this a buffer is copied: handing it over costs more. */
const HANDED_OVER_BYTES = 16 * 1024;

/** The buffers of records that are handed over to the loop instead of being copied. */
function buffersOf(answer: unknown): Transferable[] {
  const value = (answer as { value?: { records?: { buffer?: ArrayBuffer } } }).value;
  const buffer = value?.records?.buffer;
  return buffer !== undefined && buffer.byteLength >= HANDED_OVER_BYTES ? [buffer] : [];
}

/** Whether a module that runs under this name runs as a storage worker. */
export function isStorageWorker(name: string): boolean {
  return name.startsWith(WORKER_NAME_PREFIX);
}

export function workerName(role: WorkerRole, provider: string): string {
  return `${WORKER_NAME_PREFIX}${role}:${provider}`;
}

function roleOf(name: string): WorkerRole {
  for (const role of ["writer", "reader", "keeper"] as const) {
    if (name.startsWith(`${WORKER_NAME_PREFIX}${role}:`)) return role;
  }
  throw new Error(`"${name}" is not the name of a storage worker`);
}
