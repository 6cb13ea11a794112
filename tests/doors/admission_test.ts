import assert from "node:assert/strict";
import { Admission, ConnectRate, type Place } from "../../src/doors/admission.ts";
import { seeded } from "../support/random.ts";

function entered(admission: Admission): Place {
  const place = admission.enter();
  assert.ok(place !== undefined);
  return place;
}

Deno.test("02a 13.3 a socket takes a slot on arrival, and a slot given back is free", () => {
  const admission = new Admission(2);
  const first = entered(admission);
  const second = entered(admission);
  assert.ok(first.hasSlot && second.hasSlot);
  assert.ok(!entered(admission).hasSlot);
  assert.equal(admission.open, 2);
  first.leave();
  first.leave();
  assert.equal(admission.open, 2, "the one who waited has it");
  second.leave();
  assert.equal(admission.open, 1);
});

Deno.test("02a 13.3 there are min(max_connections, 32) overflow places, and none beyond", () => {
  for (const [maximum, places] of [[1, 1], [3, 3], [32, 32], [1_000, 32]]) {
    const admission = new Admission(maximum);
    for (let i = 0; i < maximum; i++) assert.ok(entered(admission).hasSlot);
    for (let i = 0; i < places; i++) assert.ok(!entered(admission).hasSlot);
    assert.equal(admission.enter(), undefined);
    assert.equal(admission.overflow, places);
  }
});

Deno.test("02a 13.3 whoever waits gets a slot in the order of arrival", () => {
  const admission = new Admission(2);
  const slots = [entered(admission), entered(admission)];
  const order: number[] = [];
  const waiting = [0, 1].map((number) => {
    const place = entered(admission);
    place.onSettled(() => order.push(number));
    return place;
  });
  assert.deepEqual(order, []);
  slots[0].leave();
  assert.deepEqual([order, waiting[0].hasSlot, waiting[1].hasSlot], [[0], true, false]);
  assert.equal(admission.overflow, 1);
  slots[1].leave();
  assert.deepEqual([order, waiting[1].hasSlot], [[0, 1], true]);
});

Deno.test("02a 13.3 a place that has waited long enough keeps its place and gets no slot", () => {
  const admission = new Admission(1);
  const slot = entered(admission);
  const waiting = entered(admission);
  let settled = 0;
  waiting.onSettled(() => settled++);
  waiting.stopWaiting();
  waiting.stopWaiting();
  assert.equal(settled, 1);
  assert.equal(admission.enter(), undefined, "its place is still taken");
  slot.leave();
  assert.ok(!waiting.hasSlot);
  assert.equal(admission.open, 0);
  waiting.leave();
  assert.equal(admission.overflow, 0);
});

Deno.test("02a 13.3 somebody who gave up waiting is passed over", () => {
  const admission = new Admission(2);
  const slot = entered(admission);
  entered(admission);
  const gone = entered(admission);
  const next = entered(admission);
  gone.leave();
  slot.leave();
  assert.ok(next.hasSlot);
});

Deno.test("02a 13.3 a stopping broker admits nobody and ends all waits", () => {
  const admission = new Admission(1);
  const slot = entered(admission);
  const waiting = entered(admission);
  let settled = false;
  waiting.onSettled(() => settled = true);
  admission.stop();
  assert.ok(settled && !waiting.hasSlot);
  slot.leave();
  assert.ok(!waiting.hasSlot);
  assert.equal(admission.enter(), undefined);
});

Deno.test("02a 13.3 any order of arrivals and departures keeps the bounds and the counts", () => {
  const random = seeded("admission");
  for (let round = 0; round < 200; round++) {
    const maximum = random.between(1, 40);
    const admission = new Admission(maximum);
    const places: Place[] = [];
    for (let step = 0; step < 300; step++) {
      if (places.length === 0 || random.chance(0.6)) {
        const place = admission.enter();
        if (place !== undefined) places.push(place);
        else assert.equal(admission.overflow, Math.min(maximum, 32));
      } else if (random.chance(0.3)) random.pick(places).stopWaiting();
      else places.splice(random.below(places.length), 1)[0].leave();
      const slots = places.filter(({ hasSlot }) => hasSlot).length;
      assert.deepEqual([admission.open, admission.overflow], [slots, places.length - slots]);
      assert.ok(slots <= maximum && admission.overflow <= 32);
    }
    for (const place of places) place.leave();
    assert.deepEqual([admission.open, admission.overflow], [0, 0]);
  }
});

Deno.test("02a 13.3 max_connect_rate lets two seconds' worth through at once, then its rate", () => {
  let now = 1_000;
  const rate = new ConnectRate(50, { monotonic: () => now, wall: () => 0n });
  let burst = 0;
  while (rate.next() === 0) burst++;
  assert.equal(burst, 100);
  assert.equal(rate.next(), 20);
  now += 20;
  assert.equal(rate.next(), 0);
  assert.equal(rate.next(), 20);
  now += 3_600_000;
  burst = 0;
  while (rate.next() === 0) burst++;
  assert.equal(burst, 100);
});

Deno.test("02a 13.3 max_connect_rate none admits everything", () => {
  const rate = new ConnectRate(undefined, { monotonic: () => 0, wall: () => 0n });
  for (let i = 0; i < 10_000; i++) assert.equal(rate.next(), 0);
});
