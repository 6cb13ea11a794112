import assert from "node:assert/strict";
import type { Delivery } from "../../src/broker/link.ts";
import { Window, type WindowEntry, type WindowSource } from "../../src/broker/window.ts";
import { seeded } from "../support/random.ts";

const SOURCE = {} as WindowSource;
const DELIVERY = {} as Delivery;

function entry(packetId: number, bytes = 10): WindowEntry {
  return {
    packetId,
    qos: 1,
    state: "sent",
    onWire: true,
    dup: false,
    source: SOURCE,
    offset: packetId,
    era: 0,
    delivery: DELIVERY,
    bytes,
    order: 0,
    older: undefined,
    newer: undefined,
  };
}

Deno.test("D21.1 a window finds, counts and frees what random traffic puts into it", (context) => {
  const random = seeded(context.name);
  const window = new Window(Infinity);
  const model = new Map<number, WindowEntry>();
  for (let step = 0; step < 20_000; step++) {
    const grows = model.size < 20 || random.chance(0.5);
    if (grows && model.size < 3_000) {
      // Now and then an identifier that something else decides, as a log message's offset does.
      const wanted = random.chance(0.2) ? window.idOf(random.between(1, 200_000)) : window.nextId();
      if (wanted === undefined) continue;
      assert.ok(wanted >= 1 && wanted <= 65_535 && !model.has(wanted));
      const added = entry(wanted);
      window.add(added);
      model.set(wanted, added);
    } else {
      const at = random.between(0, model.size - 1);
      const gone = [...model.values()][random.chance(0.8) ? 0 : at];
      window.remove(gone);
      window.remove(gone);
      model.delete(gone.packetId);
      assert.equal(window.get(gone.packetId), undefined);
    }
    assert.deepEqual([window.size, window.bytes], [model.size, 10 * model.size]);
  }
  for (const [packetId, known] of model) assert.equal(window.get(packetId), known);
  assert.deepEqual(window.entries(), [...model.values()]);
});

Deno.test("D21.1 a window takes every identifier there is", () => {
  const window = new Window(Infinity);
  const seen = new Set<number>();
  for (let i = 0; i < 65_535; i++) {
    const id = window.nextId();
    seen.add(id);
    window.add(entry(id));
  }
  assert.equal(seen.size, 65_535);
  assert.equal(window.open, false);
  window.remove(window.get(1_234)!);
  assert.equal(window.nextId(), 1_234);
});

Deno.test("MQTT-3.3.1-1 what was on a wire goes with DUP on the next, what was not goes without", () => {
  const window = new Window(Infinity);
  const sent = entry(1);
  const stored = { ...entry(2), onWire: false };
  window.add(sent);
  window.add(stored);
  window.detach();
  assert.deepEqual([sent.dup, sent.onWire, stored.dup], [true, false, false]);
});
