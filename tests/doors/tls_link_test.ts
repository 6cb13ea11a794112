/** What a TLS connection owes to those above and below it, without a broker. */
import assert from "node:assert/strict";
import type { TlsConfiguration } from "../../src/config/configuration.ts";
import { ConnLink } from "../../src/doors/conn_link.ts";
import { readTlsFiles } from "../../src/doors/tls_files.ts";
import { TlsTerminator } from "../../src/doors/tls_terminator.ts";
import { Certified } from "../support/certificates.ts";
import { sleep, within } from "../support/wait.ts";
import { readToEnd, sendAll, tlsConnection } from "../mqtt/doors/clients.ts";

const authority = Certified.authority("servers");
const MIB = 1024 * 1024;

/** Both ends of one TLS connection. */
async function pair() {
  const directory = Deno.makeTempDirSync();
  const own = authority.issue({ commonName: "broker", dns: ["localhost"] });
  Deno.writeTextFileSync(`${directory}/crt`, own.cert);
  Deno.writeTextFileSync(`${directory}/key`, own.key);
  const tls: TlsConfiguration = {
    certFile: `${directory}/crt`,
    keyFile: `${directory}/key`,
    minVersion: "1.2",
    clientCaFile: undefined,
    requireCertificate: false,
  };
  const terminator = new TlsTerminator(tls, readTlsFiles(tls, "door"));
  Deno.removeSync(directory, { recursive: true });
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const connecting = tlsConnection(port, { trust: authority });
  const secured = await terminator.secure(new ConnLink(await listener.accept()));
  assert.ok("link" in secured);
  return { link: secured.link, client: await connecting };
}

Deno.test("a link that nobody reads makes its peer wait", async () => {
  const { link, client } = await pair();
  const block = new Uint8Array(256 * 1024);
  const before = Deno.memoryUsage().rss;
  let sent = 0;
  const sending = (async () => {
    while (sent < 64 * MIB) {
      await sendAll(client, block);
      sent += block.length;
    }
  })();
  await sleep(1_000);
  // The system's own buffers on both sides take some.
  assert.ok(sent < 24 * MIB, `${sent} bytes were taken from a link that is not read`);
  let read = 0;
  const buffer = new Uint8Array(64 * 1024);
  while (read < 64 * MIB) {
    const count = await within("more bytes", link.read(buffer));
    assert.ok(count !== null);
    read += count;
  }
  await sending;
  const grown = (Deno.memoryUsage().rss - before) / MIB;
  assert.ok(grown < 48, `memory grew by ${grown} MiB`);
  client.close();
  assert.equal(await link.read(buffer), null);
  link.close();
});

Deno.test("a write stays pending until the system has taken it, and rejects when the peer is gone", async () => {
  const { link, client } = await pair();
  const block = new Uint8Array(64 * 1024);
  let taken = 0;
  let failed = false;
  const writing = (async () => {
    try {
      while (taken < 64 * MIB) {
        await link.write(block);
        taken += block.length;
      }
    } catch {
      failed = true;
    }
  })();
  await sleep(500);
  assert.ok(taken < 24 * MIB, `${taken} bytes were taken for a peer that reads nothing`);
  client.close();
  await within("the write to reject", writing);
  assert.ok(failed);
  assert.equal(await link.read(new Uint8Array(8)), null);
  await assert.rejects(link.write(block));
  link.close();
});

Deno.test("bytes come through as they were written, whatever the buffers", async () => {
  const { link, client } = await pair();
  const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i * 7 & 0xff);
  const sending = sendAll(client, bytes);
  const received = new Uint8Array(bytes.length);
  for (let at = 0, size = 1; at < bytes.length; size = size * 3 % 40_000 + 1) {
    const count = await link.read(received.subarray(at, at + size));
    assert.ok(count !== null && count > 0);
    at += count;
  }
  await sending;
  assert.deepEqual(received, bytes);
  const echo = (async () => {
    for (let at = 0; at < bytes.length; at += 50_000) {
      await link.write(bytes.slice(at, at + 50_000));
    }
    link.close();
  })();
  assert.deepEqual(await readToEnd(client), bytes);
  await echo;
  client.close();
});

Deno.test("close ends a pending read, tells the peer, and may be said twice", async () => {
  const { link, client } = await pair();
  const reading = link.read(new Uint8Array(8));
  await sleep(50);
  link.close();
  link.close();
  assert.equal(await within("the read to end", reading), null);
  // A stream cut without its end would reject.
  assert.equal(await client.read(new Uint8Array(8)), null);
  client.close();
  await sleep(50);
});

Deno.test("close does not wait for a peer that takes nothing", async () => {
  const { link, client } = await pair();
  const writing = (async () => {
    for (;;) await link.write(new Uint8Array(64 * 1024));
  })();
  writing.catch(() => {});
  await sleep(300);
  link.close();
  await assert.rejects(within("the write to reject", writing));
  client.close();
  await sleep(50);
});
