/**
 * A broker's storage under load, to be killed: publishes without end, and prints the offset of each
 * record after it was acknowledged. Arguments: file, acknowledge.
 */
import { appendRow, message, testProvider } from "./provider.ts";

const [file, acknowledge] = Deno.args as [string, "committed" | "synced"];
const { provider } = testProvider(file, { acknowledge });
await provider.open([{ channel: "readings", kind: "append" }, {
  channel: "state",
  kind: "latest",
}]);
const store = provider.append("readings");
const state = provider.latest("state");
const encoder = new TextEncoder();
let acknowledged = "";
let started = Number(store.next());

function submit(): void {
  const name = `${Deno.pid}-${started++}`;
  const row = appendRow(store, message("t", name));
  const value = { kind: "set" as const, store: state, message: message("t", name), offset: 0 };
  provider.submit({
    rows: [row, value],
    bytes: 100,
    settled(failure) {
      if (failure !== undefined) throw failure;
      if (acknowledged === "") queueMicrotask(print);
      acknowledged += `${row.offset} ${value.offset} ${name}\n`;
      submit();
    },
  });
}

function print(): void {
  const bytes = encoder.encode(acknowledged);
  acknowledged = "";
  for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
}

for (let i = 0; i < 100; i++) submit();
