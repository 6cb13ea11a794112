import type { ByteLink } from "../doors/byte_link.ts";
import { ReadBuffer } from "./read_buffer.ts";
import { WireFault } from "./wire/fault.ts";
import { FRAME_END, FrameDecoder, type FrameSink, WrongProtocol } from "./wire/frames.ts";

/** What a connection does with what is read, and what keeps it from being read. */
export interface Reading extends FrameSink {
  /** Nothing more is looked at. */
  readonly ended: boolean;
  /** Something came in. */
  heard(): void;
  /** It is not read for a while: its silence says nothing. */
  resting(): void;
  /** What the next frame waits for; undefined when it may be decoded. Asked again after each wait. */
  beforeNextFrame(): Promise<void> | undefined;
  /** Does what was put off until that. */
  goOn(): void;
  /** What the next read waits for; undefined when there is room. Asked again after each wait. */
  beforeNextRead(): Promise<void> | undefined;
  /** Frames cannot be told apart any more. */
  undecodable(fault: WireFault): void;
  wrongProtocol(): void;
  /** The last thing a peer said whose frames could not be told apart was connection.close-ok. */
  closeOk(): void;
}

/**
 * What comes in on one connection: a read is decoded where it lies, frame by frame, and the next read
 * waits until all of its frames are done with and there is room for more.
 */
export class Inbound {
  readonly #decoder: FrameDecoder;
  #deaf = false;

  constructor(
    private readonly link: ByteLink,
    private readonly reading: Reading,
  ) {
    this.#decoder = new FrameDecoder(reading);
  }

  /** The largest frame of the peer, known after tuning. */
  set maximumPayload(bytes: number) {
    this.#decoder.maximumPayload = bytes;
  }

  /** Reads until the connection ended. */
  async run(): Promise<void> {
    const buffer = new ReadBuffer();
    const { reading } = this;
    while (!reading.ended) {
      const { bytes } = buffer;
      const count = await this.link.read(bytes);
      if (count === null || reading.ended) return;
      reading.heard();
      if (this.#deaf) {
        if (endsWithCloseOk(bytes, count)) reading.closeOk();
        continue;
      }
      this.#decode(() => this.#decoder.decode(bytes.subarray(0, count)));
      while (this.#decoder.paused && !reading.ended) {
        await this.#rested(() => reading.beforeNextFrame());
        if (!reading.ended) this.#decode(() => this.#resume());
      }
      await this.#rested(() => reading.beforeNextRead());
      buffer.used(count);
    }
  }

  #decode(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#deaf = true;
      if (error instanceof WireFault) this.reading.undecodable(error);
      else if (error instanceof WrongProtocol) this.reading.wrongProtocol();
      else throw error;
    }
  }

  #resume(): void {
    this.reading.goOn();
    this.#decoder.resume();
  }

  async #rested(wanted: () => Promise<void> | undefined): Promise<void> {
    const { reading } = this;
    for (let wait = wanted(); wait !== undefined && !reading.ended; wait = wanted()) {
      reading.resting();
      await wait;
      reading.heard();
    }
  }
}

/** connection.close-ok as the last frame of what was read: the answer of a peer we cannot follow. */
const CLOSE_OK = Uint8Array.of(1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 51, FRAME_END);

function endsWithCloseOk(bytes: Uint8Array, count: number): boolean {
  if (count < CLOSE_OK.length) return false;
  return CLOSE_OK.every((byte, i) => bytes[count - CLOSE_OK.length + i] === byte);
}
