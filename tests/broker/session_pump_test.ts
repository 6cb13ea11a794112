import assert from "node:assert/strict";
import type { WindowEntry } from "../../src/broker/window.ts";
import type { Session, Source } from "../../src/broker/session.ts";
import { quiet, Rig } from "./rig.ts";

/** Has `left` deliveries to make at QoS 1, `quantum` of them a pump. */
class Backlog implements Source {
  pumps = 0;
  constructor(
    private readonly rig: Rig,
    private readonly session: Session,
    public left: number,
    private readonly quantum: number,
  ) {
    session.addSource(this);
  }

  pump(): void {
    if (++this.pumps > 1_000) throw new Error("pumped without end");
    for (let sent = 0; sent < this.quantum && this.left > 0; sent++) {
      if (!this.session.canSend() || !this.session.fits(1)) break;
      const message = this.rig.message("t", "x");
      const delivery = {
        message,
        qos: 1 as const,
        retain: false,
        identifiers: [],
        labels: [],
        expiry: undefined,
      };
      this.session.send(this, 1, 0, delivery, 1);
      this.left--;
    }
    if (this.left > 0) this.session.wait(this);
  }

  acknowledged(_entry: WindowEntry): void {}
  received(_entry: WindowEntry, proceed: () => void): void {
    proceed();
  }
  resend(_entry: WindowEntry): boolean {
    return true;
  }
}

Deno.test("a source that used its quantum goes on by itself", async () => {
  const rig = new Rig();
  const session = rig.session("c");
  const backlog = new Backlog(rig, session, 100, 10);
  session.wait(backlog);
  await quiet();
  assert.equal(backlog.left, 0);
});

Deno.test("D21.2 a source with a full window waits for room, and is not asked meanwhile", async () => {
  const rig = new Rig();
  const session = rig.session("c");
  session.window.receiveMaximum = 3;
  const backlog = new Backlog(rig, session, 10, 64);
  session.wait(backlog);
  await quiet();
  assert.equal(backlog.left, 7);
  const { pumps } = backlog;
  await quiet();
  assert.equal(backlog.pumps, pumps);
  const [entry] = session.window.entries();
  session.onPuback(entry.packetId);
  await quiet();
  assert.equal(backlog.left, 6);
});

Deno.test("two sources of a session share its room", async () => {
  const rig = new Rig();
  const session = rig.session("c");
  session.window.receiveMaximum = 30;
  const first = new Backlog(rig, session, 100, 10);
  const second = new Backlog(rig, session, 100, 10);
  session.wait(first);
  session.wait(second);
  await quiet();
  assert.deepEqual([first.left, second.left], [80, 90]);
});
