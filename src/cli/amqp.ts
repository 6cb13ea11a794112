/** AMQP as the process runs it: files, doors, what is stored, and the order of their start and stop. */
import { Amqp } from "../amqp/amqp.ts";
import { DoorLogins } from "../amqp/access.ts";
import { AmqpDoor } from "../amqp/door.ts";
import type { DoorAccess } from "../auth/identity.ts";
import type { Broker } from "../broker/broker.ts";
import type { Context } from "../broker/context.ts";
import type { AmqpConfiguration, Configuration, TcpDoor } from "../config/configuration.ts";
import type { Admission } from "../doors/admission.ts";
import { errorText } from "../platform/log.ts";
import type { Provider } from "../storage/contract.ts";
import type { Family } from "../operations/metrics/exposition.ts";
import type { Scrape } from "../operations/metrics/family.ts";
import { amqpFamilies } from "./amqp_metrics.ts";
import { amqpOverview } from "./amqp_overview.ts";
import type { Identities } from "./identities.ts";
import type { Change } from "./reload.ts";

/** How long clients have to answer our close when the broker stops (A16). */
const GOODBYE_MS = 5_000;

export class AmqpService {
  readonly #doors: readonly AmqpDoor[];
  /** Of the same doors. */
  readonly #logins: readonly DoorLogins[];
  #amqp: Amqp | undefined;

  /**
   * Reads the files of every door.
   * @throws Error with one sentence naming the door, the key and the file
   */
  constructor(
    private readonly all: Configuration,
    private readonly configuration: AmqpConfiguration,
    private readonly identities: Identities,
  ) {
    const { access, checker } = identities;
    const { doors } = configuration;
    const mayConnect = (user: string) => access.rules(user, "").mayConnectAmqp;
    this.#logins = doors.map((door) => new DoorLogins(this.#accessAt(door), checker, mayConnect));
    this.#doors = doors.map((door, i) => new AmqpDoor(door, this.#logins[i]));
  }

  /**
   * Reads the certificates again; password files come with the identities, whose change has to be in force
   * before this one. @throws Error with one sentence naming the door and the file
   */
  reread(): Change {
    const renewals = this.#doors.map((door) => door.renew());
    return {
      apply: () => {
        this.#logins.forEach((login, i) => {
          login.door = this.#accessAt(this.configuration.doors[i]);
        });
        for (const renewal of renewals) renewal.apply();
      },
      report: (log) => {
        for (const [i, { expires }] of renewals.entries()) {
          if (expires === undefined) continue;
          const listener = this.#doors[i].configuration.name;
          log.info("certificate of an AMQP door", { listener, expires: expires.toISOString() });
        }
      },
    };
  }

  /** Opens the addresses. @throws Error with one sentence naming the door and its address */
  bind(): void {
    for (const door of this.#doors) door.bind();
  }

  /**
   * Brings back what is stored, before the broker restores anything, since that may publish a Will. The
   * providers are open. @throws StorageFailure
   */
  async join(broker: Broker, providers: ReadonlyMap<string, Provider>): Promise<void> {
    const provider = providers.get(this.configuration.storage)!;
    this.#amqp = await Amqp.open(this.configuration, broker.context, provider, broker);
  }

  /** Metrics, once it has joined. */
  get families(): readonly Family<Scrape>[] {
    return amqpFamilies(this.#amqp!);
  }

  /** What the page shows of it, once it has joined. */
  overview(): object {
    return amqpOverview(this.#amqp!);
  }

  serve(context: Context, admission: Admission): void {
    for (const door of this.#doors) {
      door.serve(this.#amqp!, context, admission);
      const { name: listener } = door.configuration;
      context.log.info("listening for AMQP", {
        listener,
        address: door.address,
        acknowledge: this.#acknowledge,
      });
    }
  }

  /** What a confirm is worth (T2). */
  get #acknowledge(): string {
    const provider = this.all.storage.providers.get(this.configuration.storage);
    return provider?.type === "sqlite" ? provider.acknowledge : "";
  }

  stopAccepting(): void {
    for (const door of this.#doors) door.stopAccepting();
  }

  /** Ends every connection and stores what is settled. The providers are still open. */
  async stop(context: Context): Promise<void> {
    await Promise.all(this.#doors.map((door) => door.drain(GOODBYE_MS)));
    try {
      await this.#amqp?.stop();
    } catch (error) {
      context.log.error(
        "what AMQP clients settled could not all be stored; it is delivered again",
        {
          error: errorText(error),
        },
      );
    }
  }

  #accessAt({ name }: TcpDoor): DoorAccess {
    return this.identities.credentials.amqpDoors.get(name)!;
  }
}
