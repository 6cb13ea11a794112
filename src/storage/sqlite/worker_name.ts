/** A storage worker's part: the one write connection, one of the read connections, or upkeep. */
export type WorkerRole = "writer" | "reader" | "keeper";

const PREFIX = "saguin-storage-";

export function workerName(role: WorkerRole, provider: string): string {
  return `${PREFIX}${role}:${provider}`;
}

/** Whether a module that runs under this name runs as a storage worker. */
export function isStorageWorker(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** @throws Error for a name that `workerName` did not make */
export function roleOf(name: string): WorkerRole {
  for (const role of ["writer", "reader", "keeper"] as const) {
    if (name.startsWith(`${PREFIX}${role}:`)) return role;
  }
  throw new Error(`${name} is not the name of a storage worker`);
}
