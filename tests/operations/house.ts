/** A broker in the test's process with an operations listener on it, and a clock moved by hand. */
import { type Credentials, loadCredentials } from "../../src/auth/credentials.ts";
import { PasswordChecker } from "../../src/auth/password_checker.ts";
import { Findings } from "../../src/config/finding.ts";
import { loadConfiguration } from "../../src/config/load.ts";
import type { Settings } from "../../src/config/settings.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import { Door } from "../../src/operations/door.ts";
import { Router } from "../../src/operations/router.ts";
import { routesOf } from "../../src/operations/routes.ts";
import { configurationText, type Parts } from "../support/broker_process.ts";
import { House } from "../support/house.ts";
import { ask, type RawAnswer } from "../support/http.ts";
import { Metrics } from "../support/metrics.ts";

export const SCRAPE_MS = 60_000;

export class OperationsHouse implements AsyncDisposable {
  #door!: Door;
  /** What the process would have measured. */
  readonly clockwork = { fired: 3, lateMs: 1_500 };

  private constructor(
    readonly house: House,
    readonly settings: Settings,
    public credentials: Credentials,
  ) {}

  /** `files`: what the configuration names, by path. */
  static async open(
    parts: Parts = {},
    files: Readonly<Record<string, string>> = {},
  ): Promise<OperationsHouse> {
    const house = await House.open(parts);
    const place = { directory: "/nowhere", port: 1883, database: "/nowhere/b.db" };
    const bytes = (text: string) => new TextEncoder().encode(text);
    const loading = loadConfiguration("/etc/saguin.yaml", {
      ...REAL_SURROUNDINGS,
      readFile: () => bytes(configurationText(place, parts)),
    });
    if ("findings" in loading) throw new Error(loading.findings);
    const findings = new Findings();
    const readFile = (path: string) => {
      if (!(path in files)) throw new Deno.errors.NotFound(`no ${path}`);
      return bytes(files[path]);
    };
    const credentials = loadCredentials(house.configuration, readFile, findings);
    if (!findings.empty) throw new Error(findings.report("/etc/saguin.yaml"));
    const made = new OperationsHouse(house, loading.settings, credentials);
    made.reopen();
    return made;
  }

  /** Listens, for the broker that runs now. */
  reopen(): void {
    this.#door?.stop();
    const { house } = this;
    const { time, log } = house;
    this.#door = new Door({
      kind: "tcp",
      name: "tcp",
      path: "broker.operations.listen.tcp",
      passwordFile: undefined,
      address: { host: "127.0.0.1", port: 0, text: "127.0.0.1:0" },
      tls: undefined,
    }, { clock: time, timers: time, log });
    this.#door.bind();
    const routes = routesOf({
      broker: house.broker,
      configuration: house.configuration,
      settings: this.settings,
      credentials: () => this.credentials,
      version: "1.2.3",
      startedAt: time.monotonic(),
      timers: this.clockwork,
      extensions: house.ingest?.families,
      ingest: house.ingest?.store,
    }, SCRAPE_MS);
    const router = new Router(routes, new PasswordChecker(), log);
    this.#door.serve((request, peer) =>
      router.answer(request, peer, { name: "tcp", operators: undefined })
    );
  }

  get where() {
    return { hostname: "127.0.0.1", port: Number(this.#door.address.split(":").pop()) };
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<RawAnswer> {
    return ask(this.where, path, headers);
  }

  // deno-lint-ignore no-explicit-any
  async json(route: string): Promise<any> {
    const { status, body, headers } = await this.get(`/v1/operations/${route}`);
    if (status !== 200) throw new Error(`${route} answered ${status}: ${body}`);
    if (headers.get("content-type") !== "application/json") throw new Error(`${route}: not JSON`);
    return JSON.parse(body);
  }

  /** A scrape of now: the interval since the last one passes first. */
  async scrape(): Promise<Metrics> {
    await this.house.time.pass(SCRAPE_MS);
    return Metrics.parse((await this.get("/metrics")).body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#door.stop();
    await this.house[Symbol.asyncDispose]();
  }
}
