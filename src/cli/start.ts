import type { Credentials } from "../auth/credentials.ts";
import { Broker } from "../broker/broker.ts";
import type { Context } from "../broker/context.ts";
import { Counters } from "../broker/counters.ts";
import { AckDrain } from "../broker/drain.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Settings } from "../config/settings.ts";
import { Admission } from "../doors/admission.ts";
import { Door } from "../mqtt/doors/door.ts";
import { systemClock } from "../platform/clock.ts";
import { randomIds } from "../platform/ids.ts";
import { CoalescingLog } from "../platform/coalescing_log.ts";
import { keepInspectorClosed } from "../platform/inspector.ts";
import { lineWriter, type Log, LogfmtLog } from "../platform/log.ts";
import { HeapTimers } from "../platform/timers.ts";
import { REVISION, VERSION } from "../version.ts";
import { removePidFile, writePidFile } from "./pid_file.ts";
import type { AmqpService } from "./amqp.ts";
import { Identities } from "./identities.ts";
import { makeProviders } from "./providers.ts";
import { reload, reloadDoor, reloadLogLevel } from "./reload.ts";

/** How long connections have to take their last packet when the broker stops. */
const GOODBYE_MS = 2_000;

const STOPPED = 0;
const FAILED = 1;

/**
 * Runs a broker until a signal stops it. Doors are bound before storage is touched and serve only once
 * it is open, so that a port in use changes nothing on disk.
 * @throws Error before anything listens, with one sentence saying what and where
 */
export async function startBroker(
  configuration: Configuration,
  credentials: Credentials,
  settings: Settings,
  spawn: (name: string) => Worker,
): Promise<number> {
  const clock = systemClock;
  const startedAt = clock.monotonic();
  const lines = new LogfmtLog(
    configuration.brokerId,
    configuration.logLevel,
    clock,
    lineWriter(Deno.stdout),
  );
  const timers = new HeapTimers(
    clock,
    (error) =>
      lines.error("a timer failed on an internal error", {
        error: error instanceof Error ? error.stack ?? error.message : String(error),
      }),
  );
  const log = new CoalescingLog(lines, timers);
  const context: Context = {
    clock,
    timers,
    log,
    ids: randomIds(),
    limits: configuration.limits,
    counters: new Counters(),
    ackCommitIntervalMs: configuration.session.ackCommitIntervalMs,
    drain: new AckDrain(configuration.session.ackCommitIntervalMs, timers, log),
  };
  const doors = configuration.mqtt.doors.map((door) => new Door(door));
  const identities = new Identities(configuration, credentials);
  // Front doors that are not configured are not loaded either: each costs megabytes of memory.
  const amqp = configuration.amqp === undefined
    ? undefined
    : new (await import("./amqp.ts")).AmqpService(configuration, configuration.amqp, identities);
  const operations = configuration.operations === undefined
    ? undefined
    : new (await import("./operations.ts")).OperationsService(
      configuration.operations,
      identities,
      { clock, timers, log },
    );
  const ingest = configuration.ingest === undefined
    ? undefined
    : new (await import("./ingest.ts")).IngestService(configuration.ingest);
  const parts = [
    ...doors.map(reloadDoor),
    ...operations === undefined ? [] : [() => operations.reread()],
    () => identities.reread(),
    ...amqp === undefined ? [] : [() => amqp.reread()],
    reloadLogLevel(lines, configuration),
  ];
  const stop = new StopSignal(log, () => reload(configuration.file, settings, parts, log));
  stop.listen();
  try {
    for (const door of doors) door.bind();
    amqp?.bind();
    operations?.bind();
    const providers = makeProviders(configuration, {
      clock,
      timers,
      log,
      revision: REVISION,
      spawn,
      onFatal: (error) => stop.fail(error),
    });
    const broker = await Broker.open(
      context,
      configuration,
      providers,
      identities.access,
      async (made) => {
        ingest?.join(made, providers);
        await amqp?.join(made, providers);
      },
    );
    ingest?.start();
    if (configuration.pidFile !== undefined) {
      try {
        writePidFile(configuration.pidFile);
      } catch (error) {
        await broker.close();
        throw error;
      }
    }
    const admission = new Admission(configuration.limits.maxConnections);
    serve(broker, configuration, doors, admission, identities);
    amqp?.serve(context, admission);
    operations?.serve({
      broker,
      configuration,
      settings,
      version: VERSION,
      startedAt,
      timers,
      extensions: [...amqp?.families ?? [], ...ingest?.families ?? []],
      ingest: ingest?.store,
      amqp: amqp && (() => amqp.overview()),
    });
    log.info("the broker is running", { version: VERSION, revision: REVISION, pid: Deno.pid });
    stop.running();
    const code = await stop.requested;
    operations?.stop();
    ingest?.stop();
    const whole = await shutDown(broker, doors, amqp, log);
    if (configuration.pidFile !== undefined) removePidFile(configuration.pidFile);
    log.flush();
    log.info("the broker has stopped");
    return whole ? code : FAILED;
  } finally {
    stop.close();
    for (const door of doors) door.stopAccepting();
    amqp?.stopAccepting();
    ingest?.stop();
    operations?.stop();
    timers.stop();
  }
}

function serve(
  broker: Broker,
  configuration: Configuration,
  doors: readonly Door[],
  admission: Admission,
  identities: Identities,
): void {
  const { log } = broker.context;
  const rules = {
    minProtocolVersion: configuration.mqtt.minProtocolVersion,
    maxClientIdLength: configuration.limits.maxClientIdLength,
    token: (bytes: number) => broker.context.ids.token(bytes),
  };
  identities.warn(log);
  for (const door of doors) {
    const { name: listener } = door.configuration;
    door.serve(broker, rules, admission, identities.at(listener));
    log.info("listening", { listener, address: door.address });
  }
}

/** False when not everything was kept. */
async function shutDown(
  broker: Broker,
  doors: readonly Door[],
  amqp: AmqpService | undefined,
  log: Log,
): Promise<boolean> {
  log.info("the broker is stopping");
  for (const door of doors) door.stopAccepting();
  amqp?.stopAccepting();
  await amqp?.stop(broker.context);
  await broker.stopSessions();
  await Promise.all(doors.map((door) => door.drain(GOODBYE_MS)));
  return await broker.close();
}

/**
 * The signals of 05 section 12.3 as this runtime can take them (spec README: SIGHUP reloads). They are
 * taken from before the start on, which may have much to read: one that comes during it neither kills
 * the process nor is forgotten, but is obeyed once the broker runs.
 */
class StopSignal {
  readonly requested: Promise<number>;
  #resolve!: (code: number) => void;
  #stopping = false;
  #running = false;
  #reloadAsked = false;
  readonly #handlers: [Deno.Signal, () => void][];

  constructor(private readonly log: Log, private readonly reload: () => void) {
    this.requested = new Promise((resolve) => this.#resolve = resolve);
    this.#handlers = [
      ["SIGTERM", () => this.#stop()],
      ["SIGINT", () => this.#stop()],
      ["SIGHUP", () => this.#reload()],
      ["SIGUSR1", () => this.#userSignal()],
    ];
  }

  listen(): void {
    for (const [signal, handler] of this.#handlers) Deno.addSignalListener(signal, handler);
  }

  close(): void {
    for (const [signal, handler] of this.#handlers) Deno.removeSignalListener(signal, handler);
  }

  /** The start is over: what was asked for meanwhile is done. */
  running(): void {
    this.#running = true;
    if (this.#reloadAsked && !this.#stopping) this.reload();
  }

  /** The broker cannot go on; it stops and the process reports a failure. */
  fail(error: Error): void {
    this.log.error("the broker stops because its storage failed", { error: error.message });
    this.#stopping = true;
    this.#resolve(FAILED);
  }

  #stop(): void {
    if (this.#stopping) {
      this.log.error(
        "a second signal: the broker ends at once; a memory provider keeps its last snapshot",
      );
      Deno.exit(FAILED);
    }
    this.#stopping = true;
    this.#resolve(STOPPED);
  }

  #reload(): void {
    if (this.#running) this.reload();
    else this.#reloadAsked = true;
  }

  #userSignal(): void {
    this.log.warn("SIGUSR1 does nothing; SIGHUP is the reload signal");
    keepInspectorClosed(
      () => this.log.warn("closed the debugger port that the runtime opens on SIGUSR1"),
      (why) =>
        this.log.error("cannot close the debugger port that the runtime opened", { error: why }),
    );
  }
}
