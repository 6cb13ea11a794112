/** An operations listener without a broker: a door, a router, a few routes. */
import { PasswordChecker } from "../../src/auth/password_checker.ts";
import { type PasswordFile, readPasswordFile } from "../../src/auth/password_file.ts";
import type { OperationsDoor } from "../../src/config/configuration.ts";
import { Findings } from "../../src/config/finding.ts";
import { Door } from "../../src/operations/door.ts";
import { textResponse } from "../../src/operations/http/message.ts";
import { type Route, Router, type Routes } from "../../src/operations/router.ts";
import { cheapHash } from "../auth/cheap_hash.ts";
import { ManualTime, RecordingLog } from "../broker/rig.ts";

export const ROUTES: Routes = new Map<string, Route>([
  ["/health", { methods: ["GET", "HEAD"], open: true, answer: () => textResponse(200, "healthy") }],
  ["/metrics", { methods: ["GET", "HEAD"], answer: () => textResponse(200, "metrics") }],
  ["/", { methods: ["GET", "HEAD"], answer: () => textResponse(200, "page") }],
  ["/v1/operations/users", { methods: ["GET"], answer: () => textResponse(200, "users") }],
  ["/v1/operations/queues/", {
    methods: ["GET"],
    answer: (_request, rest) => textResponse(200, `queue ${rest}`),
  }],
  ["/fails", {
    methods: ["GET"],
    answer: () => {
      throw new Error("on purpose");
    },
  }],
]);

/** A password file of `user: [password, third field]`. */
export function operators(
  users: Readonly<Record<string, readonly [password: string, scope?: string]>>,
): PasswordFile {
  const lines = Object.entries(users).map(([user, [password, scope]]) =>
    `${user}:${cheapHash(password)}${scope === undefined ? "" : `:${scope}`}\n`
  );
  const findings = new Findings();
  const bytes = new TextEncoder().encode(lines.join(""));
  const file = readPasswordFile(bytes, "/operators", "operators", findings);
  if (!findings.empty) throw new Error(findings.report("/operators"));
  return file;
}

export interface TestDoor extends Disposable {
  readonly door: Door;
  readonly where: { readonly hostname: string; readonly port: number };
  readonly log: RecordingLog;
  readonly time: ManualTime;
}

/** A plain TCP door on loopback, or what `configuration` says. */
export function openDoor(
  users?: PasswordFile,
  configuration: Partial<OperationsDoor> = {},
  routes = ROUTES,
): TestDoor {
  const log = new RecordingLog();
  const time = new ManualTime();
  const door = new Door(
    {
      kind: "tcp",
      name: "tcp",
      path: "broker.operations.listen.tcp",
      passwordFile: undefined,
      address: { host: "127.0.0.1", port: 0, text: "127.0.0.1:0" },
      tls: undefined,
      ...configuration,
    } as OperationsDoor,
    { clock: time, timers: time, log },
  );
  door.bind();
  const router = new Router(routes, new PasswordChecker(), log);
  door.serve((request, peer) => router.answer(request, peer, { name: "tcp", operators: users }));
  const port = Number(/\d+$/.exec(door.address)?.[0] ?? 0);
  return {
    door,
    where: { hostname: "127.0.0.1", port },
    log,
    time,
    [Symbol.dispose]: () => door.stop(),
  };
}
