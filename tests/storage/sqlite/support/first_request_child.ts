import { workerName } from "../../../../src/storage/sqlite/worker_name.ts";

/** Asks a storage worker of the program as soon as there is one, and prints its answer's kind. */
const entry = new URL("../../../../main.ts", import.meta.url);
const worker = new Worker(entry, { type: "module", name: workerName("reader", "disk") });
worker.onmessage = ({ data }) => {
  console.log(Object.keys(data).join());
  Deno.exit(0);
};
worker.postMessage({ ask: "open", filePath: Deno.args[0], channels: [] });
setTimeout(() => {
  console.log("no answer");
  Deno.exit(1);
}, 10_000);
