import type {
  LatestStore,
  Provider,
  PublishEntry,
  PublishRow,
  StorageFailure,
} from "../storage/contract.ts";
import { type Message, type Offset, ownedMessage, recordSize } from "../storage/record.ts";
import type { Audience } from "./broadcast.ts";
import type { Copies } from "./copies.ts";
import type { BroadcastLog, Debt } from "./log.ts";
import type { Answerer, Publisher } from "./publish.ts";
import { SENT_AT_ONCE } from "./reach.ts";
import type { Channel } from "./routes.ts";
import type { Session } from "./session.ts";
import type { ShareGroup } from "./share/group.ts";

type Row = Extract<PublishRow, { kind: "append" | "set" | "retain" | "enqueue" }>;
type LogRow = Extract<PublishRow, { kind: "append" }>;

/** The row that puts `message` into `channel`. */
export function channelRow(channel: Channel, message: Message): Row {
  switch (channel.kind) {
    case "append":
      return { kind: "append", store: channel.store, message, offset: 0 };
    case "latest":
      return { kind: "set", store: channel.store, message, offset: 0 };
    case "queue":
      return { kind: "enqueue", store: channel.store, message, offset: 0 };
  }
}

/** The log's copy of a channel record, owed to shared groups alone (D9.5). */
export function copyRow(log: BroadcastLog, message: Message): LogRow {
  return { kind: "append", store: log.store, message: { ...message, groupCopy: true }, offset: 0 };
}

/** Tells the channel of a stored record; offset 0 is a deletion that found no value (D13.4). */
export function reportRecord(channel: Channel, offset: Offset, message: Message): void {
  if (offset > 0) channel.recorded(offset, message);
  else if (channel.kind === "latest") channel.deletedNothing(message);
}

function channelReach(channel: Channel, { topic }: Message): number {
  return channel.kind === "queue" ? 0 : channel.reach(topic);
}

/** One publish into one channel, from its submission to its delivery. */
export class ChannelPublication implements PublishEntry {
  readonly rows: readonly [Row];
  readonly bytes: number;

  constructor(
    private readonly publisher: Publisher,
    private readonly channel: Channel,
    message: Message,
    private readonly answerer: Answerer,
    private readonly token: number,
  ) {
    this.rows = [channelRow(channel, message)];
    this.bytes = recordSize(message);
  }

  /** Asked once it is settled. */
  get reach(): number {
    return channelReach(this.channel, this.rows[0].message);
  }

  submit(): void {
    this.publisher.submit(this.channel.provider, this);
  }

  settled(failure: StorageFailure | undefined): void {
    const [row] = this.rows;
    if (failure !== undefined) {
      const { topic, clientId } = row.message;
      this.publisher.failed(topic, clientId, this.answerer, this.token, failure);
      return;
    }
    this.publisher.stored(this.channel, this.answerer, this.token);
    reportRecord(this.channel, row.offset, row.message);
  }
}

/** Rows of one publish that one provider keeps. */
interface Part {
  readonly home: Provider;
  readonly rows: readonly PublishRow[];
  readonly bytes: number;
}

/**
 * A row that the publisher is answered for, and a log row that yields: a log without room loses the
 * message for those it was owed to and refuses nobody (D8.15, 02b section 15). One transaction where
 * one provider keeps both.
 */
abstract class LoggedPublication {
  #pending = 0;
  #failure: StorageFailure | undefined;
  /** Providers that have stored their part. */
  readonly #written: Provider[] = [];

  constructor(
    protected readonly publisher: Publisher,
    protected readonly message: Message,
    private readonly answerer: Answerer,
    private readonly token: number,
  ) {}

  /** What else is written with it, and required as well. */
  protected abstract readonly copies: readonly Copies[];
  /** Undefined for a broadcast. */
  protected abstract readonly destination: Channel | undefined;
  /** The row whose failure refuses the publish; undefined when only the log keeps it. */
  protected abstract readonly required: Row | undefined;
  /** Undefined when nobody is owed it. */
  protected abstract readonly logRow: LogRow | undefined;
  /** What follows the answer costs (`PublishEntry.reach`). */
  protected abstract readonly reach: number;

  /** `required` is stored. */
  protected abstract requiredStored(): void;
  /** Answered: what follows the answer. `logged`: the log row is stored. */
  protected abstract answered(logged: boolean): void;
  /** The log had no room for its row. */
  protected abstract lost(): void;
  /** Refused: nothing is delivered. */
  protected refused(): void {}

  submit(): void {
    const { logRow, publisher } = this;
    const logHome = logRow === undefined ? undefined : publisher.homeOf(logRow.store);
    this.#pending = 1;
    let logged = logRow === undefined;
    for (const part of this.#requiredParts()) {
      if (logged || part.home !== logHome) this.#alone(part);
      else {
        logged = true;
        this.#together(part, logRow!);
      }
    }
    if (!logged) this.#logAlone(logHome!, logRow!);
    this.#done(undefined);
  }

  /** What the publish cannot do without, by provider. */
  #requiredParts(): readonly Part[] {
    const { required, copies, publisher } = this;
    const parts: Part[] = [];
    if (required !== undefined) {
      const home = publisher.homeOf(required.store);
      parts.push({ home, rows: [required], bytes: recordSize(this.message) });
    }
    for (const { provider: home, rows, bytes } of copies) {
      if (rows.length === 0) continue;
      const at = parts.findIndex((part) => part.home === home);
      if (at < 0) parts.push({ home, rows, bytes });
      else {
        parts[at] = { home, rows: [...parts[at].rows, ...rows], bytes: parts[at].bytes + bytes };
      }
    }
    return parts;
  }

  #together(part: Part, logRow: LogRow): void {
    const { home, rows, bytes } = part;
    this.#enter(home, [...rows, logRow], bytes + recordSize(this.message), (failure) => {
      if (failure?.kind !== "full") {
        if (failure === undefined) this.#partStored(part);
        return this.#done(failure);
      }
      // One of them found no room: the log's may go.
      this.lost();
      this.#alone(part);
      this.#done(undefined);
    });
  }

  #alone(part: Part): void {
    const { home, rows, bytes } = part;
    this.#enter(home, rows, bytes, (failure) => {
      if (failure === undefined) this.#partStored(part);
      this.#done(failure);
    });
  }

  #partStored({ rows, home }: Part): void {
    if (rows[0] === this.required) this.requiredStored();
    this.#written.push(home);
  }

  #logAlone(home: Provider, logRow: LogRow): void {
    this.#enter(home, [logRow], recordSize(this.message), (failure) => {
      if (failure?.kind === "full") this.lost();
      this.#done(failure?.kind === "full" ? undefined : failure);
    });
  }

  #enter(
    home: Provider,
    rows: readonly PublishRow[],
    bytes: number,
    settled: (failure: StorageFailure | undefined) => void,
  ): void {
    this.#pending++;
    this.publisher.submit(home, { rows, bytes, reach: this.reach, settled });
  }

  #done(failure: StorageFailure | undefined): void {
    this.#failure ??= failure;
    if (--this.#pending > 0) return;
    const { publisher, message } = this;
    if (this.#failure !== undefined) {
      const { topic, clientId } = message;
      for (const copies of this.copies) copies.refused(this.#written.includes(copies.provider));
      publisher.failed(topic, clientId, this.answerer, this.token, this.#failure);
      this.refused();
      return;
    }
    for (const copies of this.copies) copies.accepted();
    publisher.stored(this.destination, this.answerer, this.token);
    this.answered((this.logRow?.offset ?? 0) > 0);
  }
}

/**
 * One broadcast: a log record where durable sessions or shared groups are owed it, a retained value
 * where the flag is set, and whoever gets it live.
 */
export class BroadcastPublication extends LoggedPublication {
  protected readonly destination = undefined;
  protected readonly required: Row | undefined;
  protected readonly logRow: LogRow | undefined;
  protected readonly reach: number;
  readonly #audience: Audience;
  readonly #debts: readonly Debt[];
  readonly #liveGroups: readonly ShareGroup[];
  readonly #unmatched: boolean;
  /** Delivers in the client's turn; undefined when nothing has to be waited for. */
  #inTurn: ((deliver: () => void) => void) | undefined;

  constructor(
    publisher: Publisher,
    message: Message,
    subscribers: readonly Session[],
    groups: readonly ShareGroup[],
    answerer: Answerer,
    token: number,
    protected readonly copies: readonly Copies[],
  ) {
    super(publisher, message, answerer, token);
    const { broadcast, log, retained } = publisher.destinations;
    this.#audience = broadcast.audience(message, subscribers);
    this.#unmatched = subscribers.length === 0 && groups.length === 0;
    const { debts, live } = this.#audience;
    this.reach = debts.length + SENT_AT_ONCE * live.length;
    const holding = groups.filter((group) => group.holds(message));
    this.#debts = holding.length === 0 ? debts : [...debts, ...holding];
    this.#liveGroups = holding.length === groups.length
      ? []
      : groups.filter((group) => !holding.includes(group));
    this.required = message.retain ? retainRow(retained, message) : undefined;
    this.logRow = this.#debts.length === 0
      ? undefined
      : { kind: "append", store: log.store, message, offset: 0 };
  }

  override submit(): void {
    const { liveOrder } = this.publisher;
    const { clientId } = this.message;
    const stores = this.required !== undefined || this.logRow !== undefined ||
      this.copies.length > 0;
    if (stores || !liveOrder.idle(clientId)) this.#inTurn = liveOrder.enter(clientId);
    super.submit();
  }

  protected requiredStored(): void {}

  protected lost(): void {
    this.publisher.destinations.log.noRoom(this.#debts);
  }

  protected answered(logged: boolean): void {
    const { log } = this.publisher.destinations;
    if (this.#unmatched) this.publisher.countUnmatched();
    if (logged) log.recorded(this.logRow!.offset, this.message, this.#debts);
    if (this.#inTurn === undefined) return this.#deliver(this.message);
    // It may wait for an earlier one, and a read buffer does not.
    const owned = ownedMessage(this.message);
    this.#inTurn(() => this.#deliver(owned));
  }

  protected override refused(): void {
    this.#inTurn?.(() => {});
  }

  #deliver(message: Message): void {
    this.publisher.destinations.broadcast.deliver(message, this.#audience.live);
    if (this.#liveGroups.length === 0) return;
    const owned = ownedMessage(message);
    for (const group of this.#liveGroups) group.offer(owned, false);
  }
}

/**
 * A channel record that others get too: shared groups, through the log where they hold messages (D9.5),
 * and whoever takes copies.
 */
export class GroupedPublication extends LoggedPublication {
  protected readonly destination: Channel;
  protected readonly required: Row;
  protected readonly logRow: LogRow | undefined;
  protected readonly reach: number;
  readonly #holding: readonly ShareGroup[];

  constructor(
    publisher: Publisher,
    channel: Channel,
    message: Message,
    private readonly groups: readonly ShareGroup[],
    answerer: Answerer,
    token: number,
    protected readonly copies: readonly Copies[],
  ) {
    super(publisher, message, answerer, token);
    this.destination = channel;
    this.required = channelRow(channel, message);
    this.reach = channelReach(channel, message);
    this.#holding = groups.filter((group) => group.holds(message));
    this.logRow = this.#holding.length === 0
      ? undefined
      : copyRow(publisher.destinations.log, message);
  }

  protected requiredStored(): void {
    reportRecord(this.destination, this.required.offset, this.message);
  }

  protected lost(): void {
    this.publisher.destinations.log.noRoom(this.#holding);
  }

  protected answered(logged: boolean): void {
    const { log } = this.publisher.destinations;
    if (logged) log.recorded(this.logRow!.offset, this.logRow!.message, this.#holding);
    if (this.groups.length === this.#holding.length) return;
    const owned = ownedMessage(this.message);
    for (const group of this.groups) {
      if (!this.#holding.includes(group)) group.offer(owned, true);
    }
  }
}

function retainRow(retained: LatestStore, message: Message): Row {
  return { kind: "retain", store: retained, message, offset: 0 };
}
