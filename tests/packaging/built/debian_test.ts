/**
 * The Debian package in a small Debian: installed, started as its unit starts it, upgraded and purged.
 * There is no service manager in there; what the unit says is read from it, and checked by the one of
 * this machine.
 */
import assert from "node:assert/strict";
import { filesBelow } from "../../../packaging/beside.ts";
import { debianVersion } from "../../../packaging/debian_version.ts";
import { output } from "../../../packaging/command.ts";
import { VERSION } from "../../../src/version.ts";
import { freePort } from "../../support/ports.ts";
import { WireClient } from "../../support/wire.ts";
import { deadLinks } from "../links.ts";
import { ARCHITECTURE, Debian } from "./support/debian.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;
const PACKAGE = `${ROOT}dist/saguin_${debianVersion(VERSION)}_${ARCHITECTURE}.deb`;
/** Of systemd-analyze(1), in tenths: 100 is a service that may do anything. */
const MOST_EXPOSED = 20;

/** The same package under a later version, as an upgrade would bring it. */
async function laterPackage(debian: Debian): Promise<string> {
  const tree = debian.path("/tmp/later");
  await output("dpkg-deb", ["-R", PACKAGE, tree]);
  const control = Deno.readTextFileSync(`${tree}/DEBIAN/control`);
  Deno.writeTextFileSync(
    `${tree}/DEBIAN/control`,
    control.replace(/^Version: .*$/m, (line) => `${line}+later`),
  );
  await output("dpkg-deb", [
    "--root-owner-group",
    "-Zgzip",
    "-z1",
    "--build",
    tree,
    debian.path("/tmp/later.deb"),
  ]);
  return "/tmp/later.deb";
}

/** Everything in there that has the package's name, but for what the test itself puts into /tmp. */
async function traces(debian: Debian): Promise<string[]> {
  const command = ["find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-iname", "*saguin*"];
  const found = await debian.run(...command, "-print");
  return found.split("\n").filter((path) => path !== "" && !path.startsWith("/tmp/")).sort();
}

/** What a unit says under a name. */
function setting(unit: string, name: string): string {
  const found = new RegExp(`^${name}=(.*)$`, "m").exec(unit);
  if (found === null) throw new Error(`the unit does not say ${name}`);
  return found[1];
}

/** A broker started as the unit says, while `use` runs; it has to stop well. */
async function served(debian: Debian, port: number, use: () => Promise<void>): Promise<void> {
  const unit = debian.read("/usr/lib/systemd/system/saguin.service");
  const cache = `/var/cache/${setting(unit, "CacheDirectory")}`;
  await debian.run("install", "-d", "-o", "saguin", "-g", "saguin", cache);
  const user = setting(unit, "User");
  const command = setting(unit, "ExecStart").split(" ");
  await debian.serve(
    { command, user: `${user}:${user}`, env: { CACHE_DIRECTORY: cache } },
    port,
    use,
  );
}

Deno.test("a Debian package installs, starts, upgrades and purges cleanly", async () => {
  await using debian = await Debian.unpack();
  const before = await traces(debian);
  Deno.copyFileSync(PACKAGE, debian.path("/tmp/saguin.deb"));
  const later = await laterPackage(debian);
  const port = freePort();

  await debian.run("dpkg", "-i", "/tmp/saguin.deb");
  assert.equal(await debian.run("dpkg", "--audit"), "");
  assert.match(await debian.run("saguin", "--version"), new RegExp(`^saguin ${VERSION} \\(`));
  const configuration = "/etc/saguin/saguin.yaml";
  assert.match(await debian.run("saguin", "--check-config", configuration), /: ok\n/);
  // Whoever runs it as root does not unpack a second one at home.
  assert.equal((await debian.run("find", "/root")).includes("saguin"), false);

  // Whoever reads the README there finds what it names.
  const doc = debian.path("/usr/share/doc/saguin");
  assert.deepEqual(
    deadLinks(new Set(filesBelow(doc, ".")), (name) => Deno.readTextFileSync(`${doc}/${name}`)),
    [],
  );

  // What the unit says, systemd understands; what it closes leaves little.
  const unit = debian.path("/tmp/saguin.service");
  const text = debian.read("/usr/lib/systemd/system/saguin.service");
  Deno.writeTextFileSync(unit, text.replaceAll("/usr/bin/saguin", debian.path("/usr/bin/saguin")));
  const { success, stderr } = await new Deno.Command("systemd-analyze", { args: ["verify", unit] })
    .output();
  assert.deepEqual([success, new TextDecoder().decode(stderr)], [true, ""]);
  const security = ["security", "--offline=yes", `--threshold=${MOST_EXPOSED}`, "--no-pager"];
  await output("systemd-analyze", [...security, unit]);

  // An operator's change survives what follows.
  const changed = debian.read(configuration)
    .replace("127.0.0.1:1883", `127.0.0.1:${port}`) + "channels:\n  log:\n    type: append\n";
  Deno.writeTextFileSync(debian.path(configuration), changed);
  await served(debian, port, async () => {
    using client = await WireClient.connected(port, { clientId: "a" });
    await client.publish({ topic: "log/x", payload: "kept", qos: 1, packetId: 1 });
    await client.expectPuback(1);
  });
  assert.equal(await debian.run("stat", "-c", "%U %a", "/var/lib/saguin"), "saguin 750\n");

  await debian.run("dpkg", "-i", later);
  assert.equal(debian.read(configuration), changed);
  assert.match(await debian.run("dpkg-query", "-W", "saguin"), /\+later\n$/);
  await served(debian, port, async () => {
    using client = await WireClient.connected(port, { clientId: "b" });
    await client.subscribe({ subscriptions: [{ filter: "log/#", qos: 1 }] });
    await client.expectSuback(1, [1]);
    await client.expectPublish("log/x", "kept");
  });

  // Removed, it leaves what is the operator's; purged, nothing.
  await debian.run("dpkg", "--remove", "saguin");
  assert.equal(debian.read(configuration), changed);
  assert.ok(Deno.statSync(debian.path("/var/lib/saguin/saguin.db")).isFile);
  assert.throws(() => Deno.statSync(debian.path("/usr/lib/saguin")), Deno.errors.NotFound);
  await debian.run("dpkg", "--purge", "saguin");
  assert.deepEqual(await traces(debian), before);
  assert.equal(await debian.run("find", "/", "-xdev", "-user", "saguin"), "");
});
