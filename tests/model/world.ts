/** What a schedule runs against: a broker with connections to it, that can be killed and started again. */

/** What happens on a connection, told in the turn in which it happens. */
export interface WireEvents {
  data(bytes: Uint8Array): void;
  /** The broker closed it, or died. */
  closed(): void;
}

/** The client's end of a connection. */
export interface ClientWire {
  send(bytes: Uint8Array): void;
  /** What was sent is still read; nothing comes any more. */
  close(): void;
}

export interface World {
  /** Milliseconds on the clock that the broker goes by. */
  readonly now: number;
  /** How far the broker's clock and this one may be apart when something is timed: milliseconds. */
  readonly slackMs: number;
  /** A connection can be opened that nothing can be written to. */
  readonly deafness: boolean;
  /** `deaf`: nothing the broker writes can be written. */
  open(events: WireEvents, deaf?: boolean): Promise<ClientWire>;
  /** Lets the broker do a little. */
  turns(count: number): Promise<void>;
  /** Lets the broker do all that it can without time passing. */
  settle(): Promise<void>;
  pass(ms: number): Promise<void>;
  /** As `kill -9`, and a start on what is kept, `downMs` later. */
  crash(downMs: number): Promise<void>;
  /** A graceful stop, and a start `downMs` later. */
  restart(downMs: number): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What every broker under a schedule is configured with, below `configurationText`. */
export const CONFIGURATION = {
  limits: "max_session_expiry: 1h\nwrite_timeout: 1h",
  channels: `
log:
  type: append
trail:
  type: append
  retention_bytes: 500
brief:
  type: append
  retention_period: 20s
state:
  type: latest
jobs:
  type: queue
  visibility_timeout: 5s
  retry:
    max_attempts: 2
slow:
  type: queue
  visibility_timeout: 3s
  retry:
    max_attempts: 3
    backoff: linear
    backoff_base: 2s
`,
};

/** Of each queue, as configured: milliseconds and attempts. */
export const QUEUE_RULES: Readonly<
  Record<string, { visibilityMs: number; maxAttempts: number; backoffBaseMs: number }>
> = {
  jobs: { visibilityMs: 5_000, maxAttempts: 2, backoffBaseMs: 0 },
  slow: { visibilityMs: 3_000, maxAttempts: 3, backoffBaseMs: 2_000 },
};

/** Whole seconds are stored: an expiry is exact to this. */
export const EXPIRY_SLACK_MS = 1_500;

/** What a session is granted at most, in seconds. */
export const MAX_EXPIRY = 3_600;
