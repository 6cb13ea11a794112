/** A broker in the test's own process with an AMQP door, on a clock that a test moves by hand. */
import { DatabaseSync } from "node:sqlite";
import type { Amqp } from "../../../src/amqp/amqp.ts";
import { AmqpDoor } from "../../../src/amqp/door.ts";
import type { Access } from "../../../src/amqp/login.ts";
import { Admission } from "../../../src/doors/admission.ts";
import type { Provider } from "../../../src/storage/contract.ts";
import type { Parts } from "../../support/broker_process.ts";
import { House } from "../../support/house.ts";
import { until } from "../../support/wait.ts";
import { AmqpClient, type Connect } from "./client.ts";

export interface AmqpParts extends Parts {
  /** The lines below `amqp:`, not indented, without its door. */
  readonly amqp?: string;
  readonly access?: Access;
}

/** Everybody comes in, under the name given, but `stranger`; `denied` may not use AMQP. */
const OPEN: Access = {
  login({ user, password }) {
    if (user === "denied") return Promise.resolve({ admitted: false, why: "denied" });
    const right = new TextDecoder().decode(password) !== "wrong";
    return Promise.resolve(
      right ? { admitted: true, user } : { admitted: false, why: "wrong" },
    );
  },
};

export class AmqpHouse implements AsyncDisposable {
  #door!: AmqpDoor;

  private constructor(readonly house: House, private parts: AmqpParts) {}

  static async open(parts: AmqpParts = {}): Promise<AmqpHouse> {
    const made = new AmqpHouse(await House.open(houseParts(parts)), parts);
    made.#serve();
    return made;
  }

  #serve(): void {
    const { configuration, broker } = this.house;
    this.#door = new AmqpDoor(configuration.amqp!.doors[0], this.parts.access ?? OPEN);
    this.#door.bind();
    const admission = new Admission(configuration.limits.maxConnections);
    this.#door.serve(this.amqp, broker.context, admission);
  }

  get amqp(): Amqp {
    return this.house.amqp!;
  }

  get provider(): Provider {
    return this.house.providers.get(this.house.configuration.amqp!.storage)!;
  }

  get time() {
    return this.house.time;
  }

  get port(): number {
    return Number(this.#door.address.split(":").pop());
  }

  client(options: Connect = {}): Promise<AmqpClient> {
    return AmqpClient.connected(this.port, options);
  }

  /** Waits until the broker has noticed that connections ended. */
  async connections(count: number): Promise<void> {
    const { counters } = this.amqp.host;
    await until(`${count} AMQP connections`, () => counters.connections === count);
    await this.amqp.host.changed();
  }

  async #stop(): Promise<void> {
    this.#door.stopAccepting();
    const drained = this.#door.drain(100);
    await this.time.pass(0);
    await drained;
    await this.amqp.stop();
  }

  /** What the next start reads, beside what it read before. */
  configure(parts: AmqpParts): void {
    this.parts = { ...this.parts, ...parts };
    this.house.configure(houseParts(this.parts));
  }

  /** Changes the database from outside. */
  execute(sql: string): void {
    const database = new DatabaseSync(this.house.database);
    database.exec(sql);
    database.close();
  }

  /** A graceful stop and another start on the same files. */
  async restart(): Promise<void> {
    await this.#stop();
    await this.house.restart();
    this.#serve();
  }

  /** The broker that starts on what is committed at this instant, as after a `kill -9`. */
  async killed(): Promise<AmqpHouse> {
    const made = new AmqpHouse(await this.house.killed(), this.parts);
    made.#serve();
    return made;
  }

  /** Rows of the database. */
  rows(sql: string): Record<string, unknown>[] {
    return this.house.rows(sql);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop();
    await this.house[Symbol.asyncDispose]();
  }
}

function houseParts(parts: AmqpParts): Parts {
  const amqp = [
    "amqp:",
    "  listen:",
    "    tcp:",
    "      address: 127.0.0.1:0",
    ...(parts.amqp ?? "").trim().split("\n").filter((line) => line !== "").map((line) =>
      `  ${line}`
    ),
  ].join("\n");
  return { provider: "sqlite", ...parts, broker: `${parts.broker ?? ""}\n${amqp}` };
}
