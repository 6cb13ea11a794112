/** Bodies of all queues together that are kept in memory though they are stored. */
const RESIDENT_BYTES = 64 * 1024 * 1024;

/** The same for one queue: more than a consumer takes between two reads of the store. */
const RESIDENT_BYTES_PER_QUEUE = 4 * 1024 * 1024;

/** Bytes of messages in memory, and whether a stored one has to be. */
export class Residence {
  bytes = 0;

  constructor(
    private readonly most = RESIDENT_BYTES,
    private readonly mostPerQueue = RESIDENT_BYTES_PER_QUEUE,
  ) {}

  /** Whether what is stored had better be read again when its turn comes. */
  isFull(ofQueue: number): boolean {
    return ofQueue > this.mostPerQueue || this.bytes > this.most;
  }
}
