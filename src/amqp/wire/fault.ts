import type { ReplyCode } from "../reply.ts";

/** Bytes that no rule of the wire allows. Thrown inside this folder and by what decodes with it. */
export class WireFault extends Error {
  constructor(readonly code: ReplyCode, readonly detail: string) {
    super(detail);
    this.name = "WireFault";
  }
}
