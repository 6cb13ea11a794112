/** Invariant 16, from the other side: answers that a client asks for and never reads are bounded too. */
import assert from "node:assert/strict";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { sleep } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

const PINGREQ = [0xc0, 0];
/** More than the buffers of two sockets and what the broker lets wait. */
const PINGS_BYTES = 64 * 1024 * 1024;
const PIECE = new Uint8Array(256 * 1024).map((_, at) => PINGREQ[at % 2]);
/** Nothing moved for so long: the peer is not read any more. */
const STILL_MS = 1_500;

Deno.test("invariant 16: whoever does not read its PINGRESPs is read no further, and gets all of them later", async () => {
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, { provider: "memory", limits: "write_timeout: none" })
  );
  using socket = await Deno.connect({ hostname: "127.0.0.1", port: broker.port });
  const client = WireClient.over(socket);
  await client.connect();
  await client.expectConnack();
  let sent = 0;
  const sending = (async () => {
    while (sent < PINGS_BYTES) {
      await client.send(PIECE);
      sent += PIECE.length;
    }
  })();
  for (let before = -1; sent !== before;) {
    before = sent;
    await sleep(STILL_MS);
  }
  assert.ok(sent < PINGS_BYTES, "the broker read on, and keeps every answer in memory");

  const buffer = new Uint8Array(256 * 1024);
  for (let received = 0; received < PINGS_BYTES;) {
    const count = await socket.read(buffer);
    assert.notEqual(count, null, "the broker closed the connection");
    received += count!;
  }
  await sending;
});
