import assert from "node:assert/strict";
import { webSocketLayer } from "../../../src/mqtt/doors/web_socket_layer.ts";
import { ManualTime, RecordingLog } from "../../broker/rig.ts";
import { upgradeRequest } from "./clients.ts";
import { Pipe } from "../../doors/pipe.ts";

/** The ws layer over a pipe that has received `request` and takes nothing for now. */
function layered(request: Uint8Array) {
  const pipe = new Pipe();
  let letGo!: () => void;
  pipe.held = new Promise((resolve) => letGo = resolve);
  pipe.receive(request);
  let endings = 0;
  const layer = webSocketLayer(false, () => ({ sameOrigin: true, allowedOrigins: [] }));
  const carried = layer({ link: pipe, address: "peer", certified: true, proved: "name" }, {
    log: new RecordingLog(),
    timers: new ManualTime(),
    listener: "ws",
    ending: () => endings++,
  });
  return { pipe, carried, letGo, endings: () => endings };
}

Deno.test("02a 13.3 a request that is not upgraded has given its place back before it is answered", async () => {
  const { pipe, carried, letGo, endings } = layered(
    new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
  );
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(endings(), 1);
  assert.equal(pipe.written.length, 0);
  letGo();
  assert.equal(await carried, undefined);
  assert.match(new TextDecoder().decode(pipe.written[0]), /^HTTP\/1\.1 426 /);
});

Deno.test("an upgraded connection keeps its place, its address and its proved name", async () => {
  const { carried, letGo, endings } = layered(upgradeRequest());
  letGo();
  const { address, proved } = (await carried)!;
  assert.deepEqual([address, proved, endings()], ["peer", "name", 0]);
});

Deno.test("a peer that is gone before its answer is nobody's connection", async () => {
  const { pipe, carried, letGo } = layered(upgradeRequest());
  await new Promise((resolve) => setTimeout(resolve, 20));
  pipe.close();
  letGo();
  assert.equal(await carried, undefined);
});
