/**
 * The recipe of the container image, carried out in a small Debian: what its base image is, too. Images
 * of others are not fetched for it.
 */
import assert from "node:assert/strict";
import { freePort } from "../../support/ports.ts";
import { WireClient } from "../../support/wire.ts";
import { ARCHITECTURE, Debian } from "./support/debian.ts";

const CONTEXT = new URL("../../../dist/oci", import.meta.url).pathname;

/** The instructions of a Containerfile in their order, each with what follows its name. */
function instructions(text: string): readonly (readonly [string, string])[] {
  return text.replace(/^#.*\n/gm, "").replaceAll(/\\\n\s*/g, "").split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [name] = line.split(" ", 1);
      return [name, line.slice(name.length).trim()] as const;
    });
}

Deno.test("01 7 the container image starts as uid 10001 and writes to its volume alone", async () => {
  await using debian = await Debian.unpack();
  const recipe = instructions(Deno.readTextFileSync(`${CONTEXT}/Containerfile`));
  const one = (name: string) => {
    const found = recipe.filter(([instruction]) => instruction === name);
    assert.equal(found.length, 1, name);
    return found[0][1];
  };
  assert.match(one("FROM"), /^debian:/);
  for (const [name, rest] of recipe) {
    if (name === "COPY") {
      const [from, to] = rest.replace("${TARGETARCH}", ARCHITECTURE).split(" ");
      Deno.mkdirSync(debian.path(to.slice(0, to.lastIndexOf("/"))), { recursive: true });
      Deno.copyFileSync(`${CONTEXT}/${from}`, debian.path(to));
    } else if (name === "RUN") await debian.run("sh", "-euc", rest);
  }

  // A container has its ports for itself; here others may have them.
  const configuration = debian.path("/etc/saguin/saguin.yaml");
  const port = freePort();
  const text = Deno.readTextFileSync(configuration);
  const address = `address: ":${one("EXPOSE")}"`;
  assert.ok(text.includes(address), text);
  const moved = text.replace(address, `address: 127.0.0.1:${port}`);
  Deno.writeTextFileSync(configuration, `${moved}channels:\n  log:\n    type: append\n`);

  const volume = one("VOLUME");
  assert.deepEqual([one("USER"), volume], ["10001:10001", "/var/lib/saguin"]);
  const command = [...JSON.parse(one("ENTRYPOINT")), ...JSON.parse(one("CMD"))];
  await debian.serve({ command, user: one("USER"), volume }, port, async () => {
    using client = await WireClient.connected(port, { clientId: "a" });
    await client.publish({ topic: "log/x", payload: "kept", qos: 1, packetId: 1 });
    await client.expectPuback(1);
  });
  assert.equal(Deno.statSync(debian.path(`${volume}/saguin.db`)).uid, 10001);
});
