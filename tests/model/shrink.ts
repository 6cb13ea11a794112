/** From a schedule that fails to a short one that fails alike. */
import type { Failure } from "./runner.ts";
import type { Schedule, Step } from "./schedule.ts";

/** Runs a schedule; undefined when everything was kept. */
export type Run = (schedule: Schedule) => Promise<Failure | undefined>;

/**
 * Leaves out steps, in ever smaller pieces, and then makes those that stay plainer, for as long as the same
 * rule is broken. `budget`: runs at most.
 */
export async function shrink(
  schedule: Schedule,
  rule: string,
  run: Run,
  budget = 600,
): Promise<Schedule> {
  let left = budget;
  let steps = schedule.steps;
  const fails = async (attempt: readonly Step[]) => {
    if (left-- <= 0) return false;
    return (await run({ ...schedule, steps: attempt }))?.rule === rule;
  };
  for (let size = Math.ceil(steps.length / 2); size >= 1;) {
    let dropped = false;
    for (let from = 0; from < steps.length;) {
      const attempt = [...steps.slice(0, from), ...steps.slice(from + size)];
      if (await fails(attempt)) {
        steps = attempt;
        dropped = true;
      } else from += size;
    }
    if (size === 1 && !dropped) break;
    size = size === 1 ? 1 : Math.ceil(size / 2);
  }
  for (let i = 0; i < steps.length; i++) {
    for (const plainer of plainerThan(steps[i])) {
      const attempt = steps.with(i, plainer(steps[i]));
      if (await fails(attempt)) steps = attempt;
    }
  }
  return { ...schedule, steps };
}

/** Changes that make a step of its kind plainer. */
function plainerThan(step: Step): ((step: Step) => Step)[] {
  const changes: ((step: Step) => Step)[] = [];
  const change = (make: (step: Step) => object) => {
    changes.push((step) => ({ ...step, ...make(step) }) as Step);
  };
  if (step.turns !== undefined) {
    changes.push(({ turns: _, ...rest }) => rest as Step);
    if (step.turns > 0) change(() => ({ turns: 0 }));
  }
  switch (step.do) {
    case "connect":
      if (step.level === 4) change(() => ({ level: 5 }));
      if (step.clean) change(() => ({ clean: false }));
      if (step.expiry !== 3_000) change(() => ({ expiry: 3_000 }));
      if (step.window !== 20) change(() => ({ window: 20 }));
      break;
    case "publish":
      if (step.qos !== 1) change(() => ({ qos: 1 }));
      if (step.retain) change(() => ({ retain: false }));
      if (step.named) change(() => ({ named: false }));
      break;
    case "subscribe":
      if (step.qos !== 1) change(() => ({ qos: 1 }));
      if (step.handling !== 0) change(() => ({ handling: 0 }));
      break;
    case "ack":
    case "answer":
    case "release":
    case "redrive":
      if (step.pick !== 0) change(() => ({ pick: 0 }));
      break;
    case "crash":
    case "restart":
      if (step.downMs !== 0) change(() => ({ downMs: 0 }));
      break;
    case "pass":
      if (step.ms > 500) change(() => ({ ms: 500 }));
      break;
  }
  return changes;
}
