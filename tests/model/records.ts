/** What records are promised (invariants 8 and 9): one identity, one place, in the order they were stored. */
import { at, Broken, type Facts, isQueue, type Publish, type Seen } from "./facts.ts";

export class Records {
  /** Ids are identities for ever, whatever a crash forgets. */
  readonly #ids = new Map<string, string>();

  /** A record was seen in a channel, by whomever. */
  saw(facts: Facts, channel: string, offset: number, mark: string, id: string | undefined): void {
    const records = at(facts.records, channel, () => new Map<number, Seen>());
    const before = records.get(offset);
    const what = `offset ${offset} of ${channel}`;
    if (before !== undefined && before.mark !== mark) {
      throw new Broken(
        "9",
        `${what} was ${before.mark || "a deletion"} and is ${mark || "a deletion"}`,
      );
    }
    if (before !== undefined && id !== undefined && before.id !== undefined && before.id !== id) {
      throw new Broken("8", `${what} was message ${before.id} and is ${id}`);
    }
    if (before?.id === undefined) records.set(offset, { mark, id });
    if (mark === "") return;
    this.visible(facts, mark, channel);
    this.#identify(facts, mark, id);
    if (isQueue(channel) || channel.endsWith("__dlq")) return;
    const offsets = at(facts.offsets, channel, () => new Map<string, number>());
    const known = offsets.get(mark);
    if (known !== undefined && known !== offset) {
      throw new Broken("18", `${mark} is in ${channel} twice: at ${known} and at ${offset}`);
    }
    offsets.set(mark, offset);
  }

  offsetOf(facts: Facts, channel: string, mark: string): number | undefined {
    return facts.offsets.get(channel)?.get(mark);
  }

  /** Where dead letters of a publish stand: one for each time that its job was given up. */
  lettersOf(facts: Facts, channel: string, mark: string): number[] {
    const letters = [...facts.records.get(channel) ?? []].filter(([, seen]) => seen.mark === mark);
    return letters.map(([offset]) => offset);
  }

  /** One message, one identity, whatever carries it (invariant 8). */
  #identify(facts: Facts, mark: string, id: string | undefined): void {
    if (id === undefined) return;
    const known = this.#ids.get(mark);
    const publish = facts.publishes.get(mark);
    const expected = publish?.named === true ? publish.id : known;
    if (expected !== undefined && expected !== id) {
      throw new Broken("8", `${mark} was message ${expected} and is ${id}`);
    }
    this.#ids.set(mark, id);
    if (publish !== undefined) publish.id ??= id;
  }

  /** Something of a publish got to somebody. */
  visible(facts: Facts, mark: string, where: string): Publish {
    const publish = facts.publishes.get(mark);
    if (publish === undefined) {
      throw new Broken("18", `${mark} is in ${where} and was never stored`);
    }
    if (publish.fate === "held" || publish.fate === "never") {
      throw new Broken("D5.1", `${mark} is in ${where}, and its PUBREL never went`);
    }
    return publish;
  }

  broadcastSeen(facts: Facts, mark: string, id: string | undefined): Publish {
    const publish = this.visible(facts, mark, "a broadcast");
    if (id !== (publish.named ? publish.id : undefined)) {
      throw new Broken("8", `${mark} was published as ${publish.id} and came as ${id}`);
    }
    return publish;
  }

  /** Whether `mark` (undefined: no value) may be the current value of a topic. */
  mayBeCurrent(facts: Facts, topic: string, mark: string | undefined): boolean {
    const kept = topic.startsWith("kept/");
    const all = [...facts.publishes.values()].filter((publish) =>
      publish.topic === topic && (!kept || publish.retain) &&
      publish.fate !== "held" && publish.fate !== "never"
    );
    const overwritten = (storedAt: number, except: Publish | undefined) =>
      all.some((other) => other !== except && other.fate === "stored" && other.askedAt > storedAt);
    if (mark !== undefined) {
      const publish = facts.publishes.get(mark);
      return publish !== undefined && all.includes(publish) &&
        !overwritten(publish.storedAt, publish);
    }
    if (!all.some(({ fate, empty }) => fate === "stored" && !empty)) return true;
    return all.some((each) => each.empty && !overwritten(each.storedAt, each));
  }

  /** Of two records the one stored before the other was asked for has the lower offset (9). */
  inOrder(facts: Facts, channel: string, records: ReadonlyMap<number, Seen>): void {
    let earliest = { storedAt: Infinity, mark: "", offset: 0 };
    for (const offset of [...records.keys()].sort((a, b) => b - a)) {
      const publish = facts.publishes.get(records.get(offset)!.mark);
      if (publish === undefined) continue;
      if (publish.askedAt > earliest.storedAt) {
        throw new Broken(
          "9",
          `${publish.mark} came after ${earliest.mark}, and has offset ${offset} of ${channel} ` +
            `before ${earliest.offset}`,
        );
      }
      if (publish.storedAt < earliest.storedAt) {
        earliest = { storedAt: publish.storedAt, mark: publish.mark, offset };
      }
    }
  }
}
