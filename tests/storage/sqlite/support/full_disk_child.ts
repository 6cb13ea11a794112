/**
 * A provider on a disk that fills up, run on a small file system of its own. Prints what happened as
 * one line of JSON. Argument: the directory.
 */
import { appendRow, message, publish, testProvider } from "./provider.ts";

const [dir] = Deno.args;
const file = `${dir}/plant.db`;
const filler = `${dir}/filler`;
const { provider, log, stop } = testProvider(file);
await provider.open([{ channel: "readings", kind: "append" }]);
const store = provider.append("readings");
const put = () => publish(provider, appendRow(store, message("t", new Uint8Array(3000))));

Deno.writeFileSync(filler, new Uint8Array(4_000_000));
let stored = 0;
let refusal = await put();
for (; refusal === undefined; refusal = await put()) stored++;
const kinds = new Set([refusal.kind]);
for (let i = 0; i < 20; i++) {
  const failure = await put();
  if (failure === undefined) stored++;
  else kinds.add(failure.kind);
}
const whileFull = {
  stored,
  next: store.next(),
  kinds: [...kinds],
  counted: provider.errors > 10,
  errors: log.lines.filter((line) => line.level === "error").map((line) => line.msg),
};
Deno.removeSync(filler);
const after = await put();
if (after === undefined) stored++;
const answer = await store.readFrom(1, 1000, 1e7);
const read = answer.belowFloor ? -1 : answer.records.length;
await stop();
console.log(JSON.stringify({ whileFull, after: after?.message ?? "stored", stored, read }));
