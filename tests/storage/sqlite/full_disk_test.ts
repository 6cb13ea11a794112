import assert from "node:assert/strict";
import { inTempDir } from "./support/provider.ts";

const CHILD = new URL("./support/full_disk_child.ts", import.meta.url).pathname;

Deno.test("S178 a full disk refuses with full, loses nothing, is said once, and ends when there is room", () =>
  inTempDir(async (_, dir) => {
    // In a mount namespace of its own, so that neither root nor cleaning up is needed.
    const script = 'mount -t tmpfs -o size=8m tmpfs "$1" && exec "$2" run --no-check ' +
      '--allow-read --allow-write --allow-env "$3" "$1"';
    const output = await new Deno.Command("unshare", {
      args: ["--map-root-user", "--mount", "sh", "-c", script, "sh", dir, Deno.execPath(), CHILD],
    }).output();
    assert.equal(new TextDecoder().decode(output.stderr), "");
    const { whileFull, after, stored, read } = JSON.parse(new TextDecoder().decode(output.stdout));
    assert.ok(whileFull.stored > 10);
    assert.equal(whileFull.next, whileFull.stored + 1);
    assert.deepEqual(whileFull.kinds, ["full"]);
    assert.equal(whileFull.counted, true);
    assert.deepEqual(whileFull.errors, [
      "storage cannot be written; what is published to it is refused",
    ]);
    assert.equal(after, "stored");
    assert.equal(read, stored);
  }));

Deno.test("S155 a lock is taken on a full disk too, and keeps a second broker out", () =>
  inTempDir(async (_, dir) => {
    const child = new URL("./support/full_lock_child.ts", import.meta.url).pathname;
    const script = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" run --no-check ' +
      '--allow-read --allow-write --allow-env "$3" "$1"';
    const output = await new Deno.Command("unshare", {
      args: ["--map-root-user", "--mount", "sh", "-c", script, "sh", dir, Deno.execPath(), child],
    }).output();
    assert.equal(new TextDecoder().decode(output.stderr), "");
    const { second } = JSON.parse(new TextDecoder().decode(output.stdout));
    assert.match(second, /is held by another broker/);
  }));
