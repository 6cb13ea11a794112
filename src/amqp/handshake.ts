import type { Timers } from "../platform/timers.ts";
import { VERSION } from "../version.ts";
import {
  type Access,
  type Capabilities,
  capabilitiesOf,
  clientName,
  credentialsOf,
  MECHANISM,
  NO_CAPABILITIES,
} from "./login.ts";
import { isRefusal, type Refusal, refuse, Reply } from "./reply.ts";
import { agree, serverProperties, type TuneOffer } from "./tuning.ts";
import { WireFault } from "./wire/fault.ts";
import type { Arguments, Method, MethodName, MethodOf } from "./wire/methods.ts";
import { encodeText } from "./wire/text.ts";

/** How long a wrong password waits for its end where the client cannot be told (A11). */
const WRONG_PASSWORD_MS = 1_000;

/** What a connection does for its handshake. */
export interface HandshakeEvents {
  write<N extends MethodName>(name: N, args: Arguments<N>): void;
  raise(refusal: Refusal, method: MethodName): void;
  /** Closes without a word. */
  cut(): void;
  /** The connection is over, or on its way: nothing more is said. */
  readonly over: boolean;
  tuned(tuned: TuneOffer): void;
  refusedLogin(user: string, why: string): void;
  /** open was accepted; open-ok is written. */
  opened(): void;
}

export interface HandshakeOptions {
  readonly access: Access;
  readonly offer: TuneOffer;
  readonly vhost: string;
  /** The name a certificate proved. */
  readonly proved: string | undefined;
  readonly timers: Timers;
}

/**
 * The start of a connection (4.1); a step out of order is 504 (A9).
 *
 * ```
 * header --8 bytes--> starting --start-ok--> (login) --> tuning --tune-ok--> opening --open--> over
 *            start -->                        tune -->                         open-ok -->
 * ```
 */
export class Handshake {
  #state: "header" | "starting" | "login" | "tuning" | "opening" = "header";
  user = "";
  /** What the client calls itself. */
  name = "";
  capabilities: Capabilities = NO_CAPABILITIES;

  constructor(
    private readonly options: HandshakeOptions,
    private readonly events: HandshakeEvents,
  ) {}

  /** The protocol header was ours. */
  greet(): void {
    this.#state = "starting";
    this.events.write("connection.start", {
      versionMajor: 0,
      versionMinor: 9,
      serverProperties: serverProperties(VERSION),
      mechanisms: encodeText(MECHANISM),
      locales: encodeText("en_US"),
    });
  }

  /** A method before open-ok. A promise: nothing is decoded until it settled. @throws WireFault */
  method(method: Method): Promise<void> | undefined {
    const { method: name } = method;
    if (name === "connection.start-ok" && this.#state === "starting") return this.#logIn(method);
    if (name === "connection.tune-ok" && this.#state === "tuning") this.#tune(method);
    else if (name === "connection.open" && this.#state === "opening") this.#open(method);
    else this.outOfOrder(name);
    return undefined;
  }

  outOfOrder(what: string): never {
    throw new WireFault(Reply.ChannelError, `${what} in state ${this.#state} of the handshake`);
  }

  async #logIn(method: MethodOf<"connection.start-ok">): Promise<void> {
    const { options, events } = this;
    this.#state = "login";
    this.capabilities = capabilitiesOf(method.clientProperties);
    this.name = clientName(method.clientProperties);
    const credentials = credentialsOf(method);
    if (isRefusal(credentials)) return events.raise(credentials, method.method);
    const outcome = await options.access.login(
      { ...credentials, proved: options.proved },
      () => events.over,
    );
    if (events.over) return;
    if (outcome.admitted) {
      this.user = outcome.user;
      this.#state = "tuning";
      const { channelMax, frameMax, heartbeat } = options.offer;
      return events.write("connection.tune", { channelMax, frameMax, heartbeat });
    }
    const { user } = credentials;
    events.refusedLogin(user, outcome.why);
    if (outcome.why === "wrong" && !this.capabilities.authenticationFailureClose) {
      await new Promise<void>((resolve) => options.timers.after(WRONG_PASSWORD_MS, resolve));
      return events.cut();
    }
    const detail = outcome.why === "wrong"
      ? `login refused for user '${user}'`
      : outcome.why === "denied"
      ? `user '${user}' may not connect to AMQP`
      : "too many logins wait to be checked; try again";
    events.raise(refuse(Reply.AccessRefused, detail), method.method);
  }

  #tune(method: MethodOf<"connection.tune-ok">): void {
    const tuned = agree(this.options.offer, method);
    if (isRefusal(tuned)) return this.events.raise(tuned, method.method);
    this.#state = "opening";
    this.events.tuned(tuned);
  }

  #open({ method, virtualHost }: MethodOf<"connection.open">): void {
    if (virtualHost !== this.options.vhost) {
      const detail = `vhost ${virtualHost} not found`;
      return this.events.raise(refuse(Reply.NotAllowed, detail), method);
    }
    this.events.write("connection.open-ok", {});
    this.events.opened();
  }
}
