import type { AccessControl, ClientAccess } from "../auth/acl/access.ts";
import type { ClientRules } from "../auth/acl/client_rules.ts";
import type { PublishRates } from "../auth/publish_rates.ts";
import type { Routes } from "./routes.ts";

/**
 * What an ACL file lets one session do, as it is whenever it is asked (02b 7.5). Made for brokers that have
 * an ACL file; without one a session has none, and nothing is asked.
 */
export class SessionAccess {
  readonly #client: ClientAccess;
  #version = -1;
  /** By queue; what is granted on a queue is not told from one look at a table. */
  #consumes: Map<string, boolean> | undefined;

  constructor(
    private readonly control: AccessControl,
    private readonly routes: Routes,
    user: string,
    clientId: string,
  ) {
    this.#client = control.client(user, clientId);
  }

  /** A reload is noticed here. */
  get rules(): ClientRules {
    return this.#client.rules;
  }

  get rates(): PublishRates {
    return this.#client.rates;
  }

  /** Whether a message may be delivered, whatever holds its topic. */
  mayReceive(topic: string): boolean {
    return this.rules.mayRead(topic, this.routes.holder(topic)?.name);
  }

  mayConsume(queue: string): boolean {
    if (this.#version !== this.control.version) {
      this.#version = this.control.version;
      this.#consumes = undefined;
    }
    const consumes = this.#consumes ??= new Map();
    let may = consumes.get(queue);
    if (may === undefined) consumes.set(queue, may = this.rules.mayConsume(queue));
    return may;
  }
}
