import assert from "node:assert/strict";
import { Broadcast } from "../../src/broker/broadcast.ts";
import type { LogReader } from "../../src/broker/log_reader.ts";
import { Session } from "../../src/broker/session.ts";
import type { StoredSubscription } from "../../src/storage/contract.ts";
import type { Message, QoS } from "../../src/storage/record.ts";
import { Random } from "../support/random.ts";

const TOPICS = ["a", "a/b", "a/b/c", "b", "b/c", "c"];
const FILTERS = ["#", "a/#", "+", "a/b", "+/c", "b/#", "c"];
const CLIENTS = ["one", "two", "three", "four", "five"];

/** `durable`: it reads the log. */
function sessionOf(clientId: string, durable: boolean): Session {
  const session = new Session({ clientId, user: "", queueBytes: 1_024 });
  if (durable) session.log = { clientId } as unknown as LogReader;
  return session;
}

Deno.test("D8.1 D8.5 D10.5 who is owed a broadcast follows every change of anybody's filters", () => {
  const random = new Random(85);
  const broadcast = new Broadcast();
  const sessions = CLIENTS.map((clientId, i) => sessionOf(clientId, i > 0));
  for (let step = 0; step < 3_000; step++) {
    const changed = random.pick(sessions);
    const filter = random.pick(FILTERS);
    const change = random.below(5);
    if (change === 0) {
      const subscription = {
        filter,
        qos: random.below(3) as QoS,
        noLocal: random.chance(0.3),
        retainAsPublished: false,
        retainHandling: 0,
        logOffset: 1,
      } satisfies StoredSubscription;
      changed.subscribe(subscription, false);
      broadcast.add(filter, changed);
    } else if (change === 1 && changed.unsubscribe(filter)) broadcast.remove(filter, changed);
    const topic = random.pick(TOPICS);
    const qos = random.below(3) as QoS;
    const message = { topic, qos, clientId: random.pick([...CLIENTS, ""]) } as Message;
    const subscribers = broadcast.subscribers(topic);
    const { debts, live } = broadcast.audience(message, subscribers);
    const owed = qos === 0
      ? []
      : subscribers.filter((each) => each.log !== undefined && (each.grant(message)?.qos ?? 0) > 0);
    assert.deepEqual(debts, owed.map(({ log }) => log));
    assert.deepEqual(live, subscribers.filter((each) => !owed.includes(each)));
  }
});
