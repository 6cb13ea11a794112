import { Reason } from "../../broker/reason.ts";
import { readOpening } from "../codec/decoder.ts";
import { PacketWriter } from "../codec/encode.ts";
import { returnCode } from "../return_codes.ts";
import type { ByteLink } from "../../doors/byte_link.ts";

/** What it takes to know the level that a CONNECT declares: a fixed header, a name, one byte. */
const OPENING_BYTES = 14;

/**
 * Reads the opening of a CONNECT and answers that there is no room (02a 13.3), without asking who it is.
 * False when no CONNECT began, or its client did not take the answer; never rejects.
 */
export async function answerBusy(link: ByteLink): Promise<boolean> {
  const bytes = new Uint8Array(OPENING_BYTES);
  for (let have = 0; have < bytes.length;) {
    const count = await link.read(bytes.subarray(have));
    if (count === null) return false;
    have += count;
    const opening = readOpening(bytes.subarray(0, have));
    if (opening.state === "incomplete") continue;
    if (opening.state === "fault") return false;
    try {
      await link.write(busyConnack(opening.level));
      return true;
    } catch {
      return false;
    }
  }
  return false;
}

/** The top bit of a level is the bridge mark of some brokers and says nothing about the vocabulary. */
function busyConnack(level: number): Uint8Array {
  const packets = new PacketWriter();
  packets.level = (level & 0x7f) < 5 ? 4 : 5;
  packets.connack({
    sessionPresent: false,
    reasonCode: packets.level === 5 ? Reason.ServerBusy : returnCode(Reason.ServerBusy),
    reasonString: "the broker has as many connections as limits.max_connections allows",
  });
  return packets.take()!;
}
