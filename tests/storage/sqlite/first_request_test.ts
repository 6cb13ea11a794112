import assert from "node:assert/strict";

const here = (path: string) => new URL(path, import.meta.url).href;

Deno.test("a storage worker answers what it was asked while its module was still loading", async () => {
  const directory = Deno.makeTempDirSync();
  const map = directory + "/imports.json";
  const worker = here("../../../src/storage/sqlite/worker.ts");
  Deno.writeTextFileSync(
    map,
    JSON.stringify({ imports: { [worker]: here("./support/slow_worker.ts") } }),
  );
  const child = here("./support/first_request_child.ts");
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--allow-all", "--no-config", "--no-check", "--import-map", map],
      ...[child, directory + "/missing.db"],
    ],
    stdout: "piped",
    stderr: "piped",
  }).output();
  Deno.removeSync(directory, { recursive: true });
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  assert.equal(text(stdout).trim(), "failure", text(stderr));
});
