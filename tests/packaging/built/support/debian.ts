/** A small Debian (packaging/debian/root.sh; SAGUIN_DEBIAN names its tar file), and commands in it. Takes root. */
import assert from "node:assert/strict";
import { output } from "../../../../packaging/command.ts";
import { temporaryPlace } from "../../../support/broker_process.ts";
import { until, within } from "../../../support/wait.ts";
import { ConnectionEnded, WireClient } from "../../../support/wire.ts";

const ROOT = new URL("../../../../", import.meta.url).pathname;
const TAR = Deno.env.get("SAGUIN_DEBIAN") ?? `${ROOT}.packaging/debian.tar`;
const START_MS = 60_000;
const STOP_MS = 10_000;

/** What Debian and containers call this machine. */
export const ARCHITECTURE = Deno.build.arch === "x86_64" ? "amd64" : "arm64";

export interface Service {
  readonly command: readonly string[];
  /** `user:group`, names or numbers. */
  readonly user: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The one directory that can be written; absent, everything that the user may write. */
  readonly volume?: string;
}

export class Debian implements AsyncDisposable {
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

  /** Standard output of a command that root runs. */
  run(...command: string[]): Promise<string> {
    return output("unshare", this.#inside({ command, user: "root:root" }), {
      env: { DEBIAN_FRONTEND: "noninteractive" },
    });
  }

  /** A broker on `port`, while `use` runs; it has to stop well. */
  async serve(service: Service, port: number, use: () => Promise<void>): Promise<void> {
    const child = new Deno.Command("unshare", {
      args: this.#inside(service),
      env: { PATH: Deno.env.get("PATH")!, ...service.env },
      clearEnv: true,
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const ended = child.output();
    let gone = false;
    ended.then(() => gone = true);
    try {
      await until("the broker to answer", async () => {
        if (gone) throw new Error(new TextDecoder().decode((await ended).stderr));
        return await answers(port);
      }, START_MS);
      await use();
      child.kill("SIGTERM");
      assert.equal((await within("the broker's end", ended, STOP_MS)).code, 0);
    } finally {
      if (!gone) child.kill("SIGKILL");
      await ended;
    }
  }

  /** exec all the way: the process is the command's own. */
  #inside({ command, user, volume = "" }: Service): string[] {
    const script = `root=$1 user=$2 volume=$3
      shift 3
      export PATH=/usr/sbin:/usr/bin:/sbin:/bin
      if [ -n "$volume" ]; then
        mount --bind "$root" "$root"
        mount --bind "$root$volume" "$root$volume"
        mount -o remount,bind,ro "$root"
      fi
      mount -t proc proc "$root/proc"
      exec chroot --userspec="$user" "$root" "$@"`;
    return ["--mount", "sh", "-euc", script, "sh", this.directory, user, volume, ...command];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.directory, { recursive: true });
  }
}

async function answers(port: number): Promise<boolean> {
  try {
    using client = await WireClient.connected(port, { clientId: "first" });
    await client.disconnect();
    return true;
  } catch (error) {
    if (error instanceof ConnectionEnded) return false;
    if (error instanceof Deno.errors.ConnectionRefused) return false;
    throw error;
  }
}
