import type { FailureKind } from "../contract.ts";

/**
 * A write turned away by what it read, before anything of it was written: its own answer, while the
 * other writes of the transaction go on (S137).
 */
export class Refused extends Error {
  constructor(message: string, readonly kind: FailureKind = "failed") {
    super(message);
  }
}
