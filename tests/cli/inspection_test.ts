/** Commands that look beside a broker that runs. */
import assert from "node:assert/strict";
import { BrokerProcess, configurationText, runToEnd } from "../support/broker_process.ts";
import { published } from "../support/clients.ts";
import { WireClient } from "../support/wire.ts";

/** The names in a directory, with the text of what no broker writes to. */
function contents(directory: string): string[] {
  const names = [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
  return [...names, ...["saguin.yaml", "users"].map((name) => read(`${directory}/${name}`))];
}

const read = (path: string) => Deno.readTextFileSync(path);

Deno.test("02b 16 commands that inspect work while a broker runs, and create, write and bind nothing", async () => {
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      channels: "log: {type: append, filter: l/#}",
    })
  );
  const { directory, configurationPath, port } = broker;
  Deno.writeTextFileSync(`${directory}/users`, "");
  using client = await WireClient.connected(port, { clientId: "c" });
  await published(client, "l/a", "1");
  const before = contents(directory);
  const commands = [
    ["--check-config", configurationPath],
    ["--check-config", configurationPath, "--output"],
    ["--route", configurationPath, "l/a"],
    ["--acl", configurationPath, "somebody"],
    ["--passwd", "list", `${directory}/users`],
  ];
  for (const command of commands) {
    const { code, stderr } = await runToEnd(command);
    assert.equal(code, 0, `${command.join(" ")}: ${stderr}`);
  }
  assert.deepEqual(contents(directory), before);
  await published(client, "l/a", "2");
});
