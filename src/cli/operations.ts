/** The operations listener as the process runs it: its doors, its routes, its reload. */
import { PasswordChecker } from "../auth/password_checker.ts";
import type { OperationsConfiguration } from "../config/configuration.ts";
import { Door, type DoorSurroundings } from "../operations/door.ts";
import { Router } from "../operations/router.ts";
import { type RouteParts, routesOf } from "../operations/routes.ts";
import type { Identities } from "./identities.ts";
import type { Change } from "./reload.ts";

export class OperationsService {
  readonly #doors: readonly Door[];
  /** Of its own: whoever looks at a broker under a storm of logins does not queue behind it. */
  readonly #checker = new PasswordChecker();

  /**
   * Reads the certificate files of every door.
   * @throws Error with one sentence naming the door, the key and the file
   */
  constructor(
    private readonly configuration: OperationsConfiguration,
    private readonly identities: Identities,
    private readonly on: DoorSurroundings,
  ) {
    this.#doors = configuration.doors.map((door) => new Door(door, on));
  }

  /** Opens the addresses. @throws Error with one sentence naming the door and its address */
  bind(): void {
    for (const door of this.#doors) door.bind();
  }

  /** Answers from now on. The broker runs. */
  serve(parts: Omit<RouteParts, "credentials">): void {
    const { identities } = this;
    const credentials = () => identities.credentials;
    const routes = routesOf({ ...parts, credentials }, this.configuration.minScrapeIntervalMs);
    const router = new Router(routes, this.#checker, this.on.log);
    for (const door of this.#doors) {
      const { name } = door.configuration;
      door.serve((request, peer) =>
        router.answer(request, peer, { name, operators: credentials().operators.get(name) })
      );
      this.on.log.info("listening for operations", { listener: name, address: door.address });
    }
  }

  /**
   * Reads the certificates again; the password files are among the identities.
   * @throws Error with one sentence naming the door, the key and the file
   */
  reread(): Change {
    const renewals = this.#doors.map((door) => ({
      name: door.configuration.name,
      renewal: door.renew(),
    }));
    return {
      apply: () => {
        for (const { renewal } of renewals) renewal.apply();
      },
      report: (log) => {
        for (const { name, renewal: { expires } } of renewals) {
          if (expires === undefined) continue;
          log.info("certificate of an operations listener", {
            listener: name,
            expires: expires.toISOString(),
          });
        }
      },
    };
  }

  stop(): void {
    for (const door of this.#doors) door.stop();
  }
}
