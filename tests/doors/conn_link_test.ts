import assert from "node:assert/strict";
import { ConnLink } from "../../src/doors/conn_link.ts";

Deno.test("a peer whose bytes are always there leaves the event loop its turns", async () => {
  const endless = { read: (buffer: Uint8Array) => Promise.resolve(buffer.length) };
  const link = new ConnLink(endless as unknown as Deno.Conn);
  const buffer = new Uint8Array(64 * 1024);
  let turn = false;
  setTimeout(() => turn = true);
  const until = performance.now() + 5_000;
  while (!turn && performance.now() < until) await link.read(buffer);
  assert.ok(turn, "nothing else was served in five seconds of reading");
});
