/** The permissions in force, and how a client's follow a reload (02b 7.5.7). */
import type { PublishRates } from "../publish_rates.ts";
import { type Acl, broadRates, channelsByName } from "./acl.ts";
import { type ClientRules, EverythingAllowed } from "./client_rules.ts";
import type { AclWorld } from "./read.ts";

/** One for the whole broker. */
export class AccessControl {
  #acl: Acl | undefined;
  #version = 0;
  readonly #open: ClientRules;
  readonly #onReplaced: (() => void)[] = [];

  /** `acl` undefined: there is no `acl_file`, and everybody who is admitted may do everything. */
  constructor(world: AclWorld, acl: Acl | undefined) {
    this.#acl = acl;
    this.#open = new EverythingAllowed(channelsByName(world.channels), broadRates(world));
  }

  /** The figures of everybody whom no entry of an ACL file gives other ones. */
  get broadRates(): PublishRates {
    return this.#open.rates;
  }

  get acl(): Acl | undefined {
    return this.#acl;
  }

  /** Moves with every reload: what was concluded from the rules before is to be asked again. */
  get version(): number {
    return this.#version;
  }

  /** Puts a re-read file in force for every client, connected or not, from its next question on. */
  replace(acl: Acl): void {
    this.#acl = acl;
    this.#version++;
    for (const heard of this.#onReplaced) heard();
  }

  /** `heard` is called after every reload: whoever was held at a record may be granted it now. */
  onReplaced(heard: () => void): void {
    this.#onReplaced.push(heard);
  }

  /** Whether the user may connect under that client id: the one in the CONNECT, even if it is empty. */
  admits(user: string, clientId: string): boolean {
    return this.#acl === undefined || this.#acl.admits(user, clientId);
  }

  /** What the client may do now. For a client that asks more than once, `client` is cheaper. */
  rules(user: string, clientId: string): ClientRules {
    return this.#acl?.rules(user, clientId) ?? this.#open;
  }

  client(user: string, clientId: string): ClientAccess {
    return new ClientAccess(this, user, clientId);
  }
}

/** One client's permissions, as they are whenever they are asked for. */
export class ClientAccess {
  #rules: ClientRules;
  #version: number;

  constructor(
    private readonly control: AccessControl,
    readonly user: string,
    /** The one in use: assigned by the broker if the client sent none. */
    readonly clientId: string,
  ) {
    this.#rules = control.rules(user, clientId);
    this.#version = control.version;
  }

  get rules(): ClientRules {
    if (this.#version !== this.control.version) {
      this.#rules = this.control.rules(this.user, this.clientId);
      this.#version = this.control.version;
    }
    return this.#rules;
  }

  get rates(): PublishRates {
    return this.rules.rates;
  }
}
