/** The broker as `main.ts` starts it, but for workers that may be killed. Arguments: the point's file, then its own. */
import { run } from "../../../src/cli/run.ts";

const [pointFile, ...argv] = Deno.args;
const worker = new URL("./killing_worker.ts", import.meta.url);
worker.searchParams.set("point", pointFile);
Deno.exit(await run(argv, (name) => new Worker(worker, { type: "module", name })));
