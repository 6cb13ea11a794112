/**
 * The Debian package in a small Debian (packaging/debian/root.sh; SAGUIN_DEBIAN names its tar file):
 * installed, started as its unit starts it, upgraded and purged. There is no service manager in there;
 * what the unit says is read from it, and checked by the one of this machine.
 */
import assert from "node:assert/strict";
import { debianVersion } from "../../../packaging/debian_version.ts";
import { output } from "../../../packaging/command.ts";
import { VERSION } from "../../../src/version.ts";
import { temporaryPlace } from "../../support/broker_process.ts";
import { freePort } from "../../support/ports.ts";
import { ConnectionEnded, WireClient } from "../../support/wire.ts";
import { until, within } from "../../support/wait.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;
const ARCHITECTURE = Deno.build.arch === "x86_64" ? "amd64" : "arm64";
const PACKAGE = `${ROOT}dist/saguin_${debianVersion(VERSION)}_${ARCHITECTURE}.deb`;
const TAR = Deno.env.get("SAGUIN_DEBIAN") ?? `${ROOT}.packaging/debian.tar`;
/** Of systemd-analyze(1), in tenths: 100 is a service that may do anything. */
const MOST_EXPOSED = 20;
const START_MS = 60_000;
const STOP_MS = 10_000;

/** A directory that is a Debian, and commands in it. */
class Debian implements AsyncDisposable {
  private constructor(readonly directory: string) {}

  static async unpack(): Promise<Debian> {
    const debian = new Debian(temporaryPlace().directory);
    await output("tar", ["-xf", TAR, "-C", debian.directory]);
    return debian;
  }

  path(inside: string): string {
    return this.directory + inside;
  }

  read(inside: string): string {
    return Deno.readTextFileSync(this.path(inside));
  }

  /** Standard output of a command, as root unless somebody else is named. */
  run(...command: string[]): Promise<string> {
    return output("unshare", this.#inside(command, "root"), {
      env: { DEBIAN_FRONTEND: "noninteractive" },
    });
  }

  start(command: readonly string[], user: string, env: Record<string, string>): Deno.ChildProcess {
    return new Deno.Command("unshare", {
      args: this.#inside(command, user),
      env: { PATH: Deno.env.get("PATH")!, ...env },
      clearEnv: true,
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }

  /** exec all the way: the process is the command's own. */
  #inside(command: readonly string[], user: string): string[] {
    const script = 'root=$1 user=$2; shift 2; mount -t proc proc "$root/proc"; ' +
      'export PATH=/usr/sbin:/usr/bin:/sbin:/bin; exec chroot --userspec="$user" "$root" "$@"';
    return ["--mount", "sh", "-euc", script, "sh", this.directory, `${user}:${user}`, ...command];
  }

  /** Everything that has the package's name, but for what its documentation is called elsewhere. */
  async traces(): Promise<string[]> {
    const found = await this.run(
      "find",
      "/",
      "-xdev",
      "-path",
      "/proc",
      "-prune",
      "-o",
      "-iname",
      "*saguin*",
      "-print",
    );
    return found.split("\n").filter((path) => path !== "" && !path.startsWith("/tmp/")).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.directory, { recursive: true });
  }
}

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
  const command = setting(unit, "ExecStart").split(" ");
  const child = debian.start(command, setting(unit, "User"), { CACHE_DIRECTORY: cache });
  const ended = child.output();
  let gone = false;
  ended.then(() => gone = true);
  try {
    await until("the broker to answer", async () => {
      if (gone) throw new Error(new TextDecoder().decode((await ended).stderr));
      try {
        using client = await WireClient.connected(port, { clientId: "first" });
        await client.disconnect();
        return true;
      } catch (error) {
        if (error instanceof ConnectionEnded) return false;
        if (error instanceof Deno.errors.ConnectionRefused) return false;
        throw error;
      }
    }, START_MS);
    await use();
    child.kill("SIGTERM");
    assert.equal((await within("the broker's end", ended, STOP_MS)).code, 0);
  } finally {
    if (!gone) child.kill("SIGKILL");
    await ended;
  }
}

Deno.test("a Debian package installs, starts, upgrades and purges cleanly", async () => {
  await using debian = await Debian.unpack();
  const before = await debian.traces();
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
  assert.deepEqual(await debian.traces(), before);
  assert.equal(await debian.run("find", "/", "-xdev", "-user", "saguin"), "");
});
