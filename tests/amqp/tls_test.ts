/** AMQPS and logins as the executable serves them: files, and a reload of both (07 C2, C4, A11). */
import assert from "node:assert/strict";
import { cheapHash } from "../auth/cheap_hash.ts";
import { BrokerProcess, configurationText, type Place } from "../support/broker_process.ts";
import { Certified } from "../support/certificates.ts";
import { freePort } from "../support/ports.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { AmqpClient, text } from "./support/client.ts";

const authority = Certified.authority("servers");

async function connection(port: number, trusted = authority): Promise<AmqpClient> {
  return AmqpClient.over(
    await Deno.connectTls({ hostname: "localhost", port, caCerts: [trusted.cert] }),
  );
}

function write(place: Place, certified: Certified, password: string): void {
  Deno.writeTextFileSync(`${place.directory}/server.crt`, certified.cert);
  Deno.writeTextFileSync(`${place.directory}/server.key`, certified.key);
  Deno.writeTextFileSync(`${place.directory}/amqp.passwd`, `anna:${cheapHash(password)}\n`, {
    mode: 0o600,
  });
}

Deno.test("AMQPS asks for a password of its file, and a reload takes new certificates and passwords", async () => {
  const port = freePort();
  const server = () => authority.issue({ commonName: "broker", dns: ["localhost"] });
  await using broker = await BrokerProcess.start((place) => {
    write(place, server(), "first");
    const { directory } = place;
    return configurationText(place, {
      broker: [
        "amqp:",
        "  listen:",
        "    tcp:",
        `      address: 127.0.0.1:${port}`,
        `      password_file: ${directory}/amqp.passwd`,
        "      tls:",
        `        cert_file: ${directory}/server.crt`,
        `        key_file: ${directory}/server.key`,
      ].join("\n"),
    });
  });
  {
    using client = await connection(port);
    await client.handshake({ user: "anna", password: "first" });
    await client.openChannel(1);
    await client.declare("q");
    const body = new Uint8Array(300_000).map((_, i) => i * 7);
    await client.send(amqp.publish(1, "", "q", body, { split: 100_000 }));
    assert.deepEqual((await client.get("q", true)).body, body);
    await client.send(amqp.publish(1, "", "q", "kept for later"));
    await client.close();
  }
  for (const login of [{ user: "anna", password: "wrong" }, { user: "bert", password: "first" }]) {
    using client = await connection(port);
    await client.send(amqp.HEADER, amqp.startOk(login));
    await client.expect("start");
    const closed = await client.expectClose(403);
    assert.equal(closed.text, `ACCESS_REFUSED - login refused for user '${login.user}'`);
  }
  using long = await connection(port);
  await long.handshake({ user: "anna", password: "first" });
  await long.openChannel(1);
  const other = Certified.authority("others");
  write(broker.place, other.issue({ commonName: "broker", dns: ["localhost"] }), "second");
  broker.signal("SIGHUP");
  await broker.line(/msg=reloaded|msg="reloaded/);
  await assert.rejects(async () => {
    using client = await connection(port);
    await client.send(amqp.HEADER);
    await client.expect("start");
  });
  {
    using late = await connection(port, other);
    await late.send(amqp.HEADER, amqp.startOk({ user: "anna", password: "first" }));
    await late.expect("start");
    await late.expectClose(403);
  }
  assert.equal((await long.declare("q")).messages, 1, "who is in stays in");
  using client = await connection(port, other);
  await client.handshake({ user: "anna", password: "second" });
  await client.openChannel(1);
  assert.equal(text(await client.get("q", true)), "kept for later");
});

Deno.test("a password file that cannot be read refuses the start by name", async () => {
  const port = freePort();
  await assert.rejects(
    BrokerProcess.start((place) =>
      configurationText(place, {
        broker: `amqp:\n  listen:\n    tcp:\n      address: 127.0.0.1:${port}\n` +
          `      password_file: ${place.directory}/missing`,
      })
    ),
    /broker\.amqp\.listen\.tcp\.password_file.*missing/s,
  );
});
