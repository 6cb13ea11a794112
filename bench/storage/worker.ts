import { runStorageWorker } from "../../src/storage/sqlite/worker.ts";

runStorageWorker();
