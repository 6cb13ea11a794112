import type { DatabaseSync } from "node:sqlite";
import { failureOf, openForKeeping, pragma } from "./connection.ts";
import type { Answer, KeeperRequest } from "./messages.ts";

/** What one pass of the keeper found and did, in frames of the log. */
export interface Copied {
  readonly log: number;
  readonly copied: number;
}

/**
 * Copies the log into the file beside the writer, so that no commit waits for it. PASSIVE: takes what
 * it can without holding anybody up.
 */
export class Keeper {
  #filePath = "";
  #database: DatabaseSync | undefined;

  handle(request: KeeperRequest): Answer {
    try {
      return { value: this.#run(request) };
    } catch (error) {
      return { failure: failureOf(error, this.#filePath) };
    }
  }

  #run(request: KeeperRequest): Copied | undefined {
    switch (request.ask) {
      case "checkpoint": {
        const { log, checkpointed } = pragma(this.#database!, "wal_checkpoint(PASSIVE)");
        return { log: Number(log), copied: Number(checkpointed) };
      }
      case "open":
        this.#filePath = request.filePath;
        this.#database = openForKeeping(request.filePath);
        return undefined;
      case "close":
        this.#database?.close();
        return undefined;
    }
  }
}
