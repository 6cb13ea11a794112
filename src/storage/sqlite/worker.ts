import { Keeper } from "./keeper.ts";
import { Reader } from "./reader.ts";
import { roleOf } from "./worker_name.ts";
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
 * @param early requests that came before this was called, oldest first; they are answered at once
 */
export function runStorageWorker(early: readonly MessageEvent[] = []): void {
  const scope = globalThis as unknown as WorkerScope;
  const role = roleOf(scope.name);
  const part = role === "writer" ? new Writer() : role === "reader" ? new Reader() : new Keeper();
  const handle = (request: unknown) => part.handle(request as never);
  const answerTo = ({ data }: MessageEvent) => {
    const answer = handle(data);
    scope.postMessage(answer, buffersOf(answer));
  };
  scope.onmessage = answerTo;
  for (const event of early) answerTo(event);
}

/** Below this a buffer is copied: handing it over costs more. */
const HANDED_OVER_BYTES = 16 * 1024;

/** The buffers of records that are handed over to the loop instead of being copied. */
function buffersOf(answer: unknown): Transferable[] {
  const value = (answer as { value?: { records?: { buffer?: ArrayBuffer } } }).value;
  const buffer = value?.records?.buffer;
  return buffer !== undefined && buffer.byteLength >= HANDED_OVER_BYTES ? [buffer] : [];
}
