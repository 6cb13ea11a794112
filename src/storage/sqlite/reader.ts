import type { DatabaseSync } from "node:sqlite";
import { failureOf, openForReading } from "./connection.ts";
import type { Answer, ReaderRequest } from "./messages.ts";
import { Reads } from "./reads.ts";

/** One read worker: a connection that can only read, and every statement it runs (S111, S112). */
export class Reader {
  #filePath = "";
  #database: DatabaseSync | undefined;
  #reads!: Reads;

  handle(request: ReaderRequest): Answer {
    try {
      return { value: this.#run(request) };
    } catch (error) {
      return { failure: failureOf(error, this.#filePath) };
    }
  }

  #run(request: ReaderRequest): unknown {
    switch (request.ask) {
      case "read":
        return this.#reads.read(request.read);
      case "open":
        this.#filePath = request.filePath;
        this.#database = openForReading(request.filePath);
        this.#reads = new Reads(this.#database, request.channels);
        return undefined;
      case "close":
        this.#database?.close();
        return undefined;
    }
  }
}
