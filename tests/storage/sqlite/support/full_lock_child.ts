/** On a full disk: takes a lock there twice, and says how each went. Arguments: the directory. */
import { ProviderLock } from "../../../../src/storage/lock.ts";

const [directory] = Deno.args;
const path = directory + "/broker.db.lock";

ProviderLock.take(path, "disk").release();
const filler = Deno.openSync(directory + "/filler", { create: true, write: true });
try {
  for (;;) filler.writeSync(new Uint8Array(4096));
} catch {
  // Full is what was wanted.
}
const first = ProviderLock.take(path, "disk");
let second = "taken";
try {
  ProviderLock.take(path, "disk").release();
} catch (error) {
  second = (error as Error).message;
}
first.release();
ProviderLock.take(path, "disk").release();
console.log(JSON.stringify({ second }));
