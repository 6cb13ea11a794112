import type { Nanoseconds } from "../../platform/clock.ts";
import { type Offset, recordSize, type StoredRecord } from "../record.ts";
import { ByteReader } from "./byte_reader.ts";
import { decodeRecord, SMALLEST } from "./decode.ts";

/** Records that are let go of together. */
const PIECE_BYTES = 256 * 1024;

/** Consecutive records as they stand in a file. */
interface Piece {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Where each record begins. */
  readonly starts: Uint32Array;
  readonly firstOffset: Offset;
}

/**
 * Records of an append channel as a snapshot has them, each made when it is asked for: a start then costs a
 * walk over the bytes and not a million objects. Looked through once, when it is made.
 *
 * Records go from the front. At first all pieces are views of the file that was read, which stays as long as
 * one of them does; so each piece that goes takes another one out of it, and half-way the file is let go.
 */
export class PackedRecords {
  #pieces: Piece[];
  /** Place of the lowest record in the first piece. */
  #head = 0;
  #length: number;
  /** Pieces at the end that have memory of their own. */
  #moved = 0;
  #reader: ByteReader | undefined;
  #readerOf: Piece | undefined;

  private constructor(pieces: Piece[], length: number, readonly bytes: number) {
    this.#pieces = pieces;
    this.#length = length;
  }

  static none(): PackedRecords {
    return new PackedRecords([], 0, 0);
  }

  /**
   * Takes a list of records out of a file whose checksum held.
   * @throws SnapshotFault as the decoder of single records does
   */
  static read(from: ByteReader): PackedRecords {
    const count = from.count(SMALLEST.record);
    const scan = new PlainScan(from.body);
    const pieces: Piece[] = [];
    let starts: number[] = [];
    let begin = from.at;
    let size = 0;
    const cut = () => {
      if (starts.length > 0) pieces.push(pieceOf(from.body.subarray(begin, from.at), starts));
      starts = [];
      begin = from.at;
    };
    for (let i = 0; i < count; i++) {
      const start = from.at;
      let end = scan.end(start);
      if (end >= 0) size += scan.size;
      else {
        // Not plain, or not right: the decoder says which.
        size += recordSize(decodeRecord(from).message);
        end = from.at;
      }
      if (end - begin > PIECE_BYTES && starts.length > 0) {
        from.at = start;
        cut();
      }
      starts.push(start - begin);
      from.at = end;
    }
    cut();
    return new PackedRecords(pieces, count, size);
  }

  get length(): number {
    return this.#length;
  }

  /** Offset of the lowest record; undefined when there is none. */
  get first(): Offset | undefined {
    return this.#length === 0 ? undefined : offsetAt(this.#pieces[0], this.#head);
  }

  get last(): Offset | undefined {
    if (this.#length === 0) return undefined;
    const piece = this.#pieces[this.#pieces.length - 1];
    return offsetAt(piece, piece.starts.length - 1);
  }

  /** Receipt time of the lowest record. */
  firstTime(): Nanoseconds {
    return timeAt(this.#pieces[0], this.#head);
  }

  /** Removes the lowest record. @return its `recordSize` */
  shift(): number {
    const [piece] = this.#pieces;
    const size = sizeAt(piece, this.#head);
    this.#length--;
    if (++this.#head === piece.starts.length) {
      this.#pieces.shift();
      this.#head = 0;
      this.#moveOne();
    }
    return size;
  }

  /** The last piece that is still in the file moves into memory of its own. */
  #moveOne(): void {
    this.#reader = this.#readerOf = undefined;
    const { length } = this.#pieces;
    if (this.#moved >= length) return;
    this.#moved++;
    const at = length - this.#moved;
    const { bytes, starts } = this.#pieces[at];
    this.#pieces[at] = pieceOf(bytes.slice(), starts);
  }

  /** As `RecordList.walk`. */
  walk(from: Offset, visit: (record: StoredRecord) => boolean): void {
    this.#places(from, (piece, place) => visit(this.#record(piece, place)));
  }

  /** As `walk`, with no more of each record than its offset and its receipt time. */
  walkTimes(from: Offset, visit: (offset: Offset, time: Nanoseconds) => boolean): void {
    this.#places(from, (piece, place) => visit(offsetAt(piece, place), timeAt(piece, place)));
  }

  /** The records as they stand in a file, one after the other. */
  *encoded(): Generator<Uint8Array> {
    for (let i = 0; i < this.#pieces.length; i++) {
      const { bytes, starts } = this.#pieces[i];
      yield i === 0 ? bytes.subarray(starts[this.#head]) : bytes;
    }
  }

  *offsets(): Generator<Offset> {
    for (let i = 0; i < this.#pieces.length; i++) {
      const piece = this.#pieces[i];
      for (let place = i === 0 ? this.#head : 0; place < piece.starts.length; place++) {
        yield offsetAt(piece, place);
      }
    }
  }

  /** The same records, which stay as they are when this one's go. */
  copy(): PackedRecords {
    const copy = new PackedRecords([...this.#pieces], this.#length, this.bytes);
    copy.#head = this.#head;
    copy.#moved = this.#moved;
    return copy;
  }

  /** Calls `visit` with the places from offset `from` on, until it answers false. */
  #places(from: Offset, visit: (piece: Piece, place: number) => boolean): void {
    const pieces = this.#pieces;
    let low = 0;
    let high = pieces.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (pieces[middle].firstOffset <= from) low = middle + 1;
      else high = middle;
    }
    for (let i = Math.max(0, low - 1); i < pieces.length; i++) {
      const piece = pieces[i];
      const head = i === 0 ? this.#head : 0;
      for (let place = placeOf(piece, from, head); place < piece.starts.length; place++) {
        if (!visit(piece, place)) return;
      }
    }
  }

  #record(piece: Piece, place: number): StoredRecord {
    if (this.#readerOf !== piece) {
      this.#readerOf = piece;
      this.#reader = new ByteReader(piece.bytes);
    }
    const reader = this.#reader!;
    reader.at = piece.starts[place];
    return decodeRecord(reader);
  }
}

function pieceOf(bytes: Uint8Array, starts: ArrayLike<number>): Piece {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { bytes, view, starts: Uint32Array.from(starts), firstOffset: offsetOf(view, 0) };
}

function offsetAt({ view, starts }: Piece, place: number): Offset {
  return offsetOf(view, starts[place]);
}

function offsetOf(view: DataView, at: number): Offset {
  return view.getUint32(at + 4, true) * 0x1_0000_0000 + view.getUint32(at, true);
}

/** Behind the offset, the message id and the topic (S56). */
function timeAt({ view, starts }: Piece, place: number): Nanoseconds {
  let at = starts[place] + 8;
  at += 4 + view.getUint32(at, true);
  at += 4 + view.getUint32(at, true);
  return view.getBigInt64(at, true);
}

/** `recordSize` of a record: the lengths of id, topic, User Properties and payload (S14). */
function sizeAt({ view, starts }: Piece, place: number): number {
  let size = 0;
  let at = starts[place] + 8;
  const add = () => {
    const length = view.getUint32(at, true);
    at += 4 + length;
    size += length;
  };
  add();
  add();
  at += 8;
  const headers = view.getUint32(at, true);
  at += 4;
  for (let i = 0; i < headers * 2; i++) add();
  add();
  return size;
}

/** Place of the first record from `head` on that is at or past `offset`. */
function placeOf(piece: Piece, offset: Offset, head: number): number {
  let low = head;
  let high = piece.starts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (offsetAt(piece, middle) < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What may be added to an offset's upper half below 2^53. */
const HIGHEST_UPPER = 0x1f_ffff;

/**
 * Goes over records that have nothing out of the ordinary: lengths that fit, ASCII texts, numbers within
 * their range. Says -1 for any other, which is then the decoder's to judge; every helper passes a -1 on.
 */
class PlainScan {
  /** `recordSize` of the record gone over last. */
  size = 0;
  readonly #view: DataView;
  readonly #end: number;

  constructor(private readonly body: Uint8Array) {
    this.#view = new DataView(body.buffer, body.byteOffset, body.byteLength);
    this.#end = body.byteLength;
  }

  /** Where the record at `start` ends; -1 where that is not for this class to say. */
  end(start: number): number {
    const view = this.#view;
    if (start + SMALLEST.record > this.#end || view.getUint32(start + 4, true) > HIGHEST_UPPER) {
      return -1;
    }
    const id = start + 8;
    const topic = this.#text(id);
    const time = this.#text(topic);
    if (time < 0 || time + 12 > this.#end) return -1;
    let at = time + 12;
    const headers = view.getUint32(time + 8, true);
    // Two texts of four bytes at least each.
    if (headers * 8 > this.#end - at) return -1;
    let size = time - id - 8;
    for (let i = 0; i < headers; i++) {
      const begin = at;
      at = this.#text(this.#text(at));
      if (at < 0) return -1;
      size += at - begin - 8;
    }
    const payload = at;
    at = this.#bytes(payload);
    if (at < 0) return -1;
    this.size = size + at - payload - 4;
    at = this.#properties(at);
    at = this.#below(at, 2); // retain
    at = this.#text(this.#text(at)); // bridge, client
    at = this.#below(at, 3); // QoS
    at = this.#below(at, 2); // group copy
    return this.#text(at);
  }

  #properties(at: number): number {
    if (at < 0 || at + 5 > this.#end) return -1;
    const { body } = this;
    if (this.#view.getUint32(at, true) === 0 && body[at + 4] === 0) return at + 5;
    at = this.#has(at) ? this.#text(at + 1) : this.#below(at, 2);
    at = this.#has(at) ? this.#text(at + 1) : this.#below(at, 2);
    at = this.#has(at) ? this.#bytes(at + 1) : this.#below(at, 2);
    at = this.#has(at) ? this.#below(at + 1, 2) : this.#below(at, 2);
    if (!this.#has(at)) return this.#below(at, 2);
    return at + 5 > this.#end ? -1 : at + 5;
  }

  #has(at: number): boolean {
    return at >= 0 && at < this.#end && this.body[at] === 1;
  }

  #below(at: number, count: number): number {
    return at < 0 || at >= this.#end || this.body[at] >= count ? -1 : at + 1;
  }

  #bytes(at: number): number {
    if (at < 0 || at + 4 > this.#end) return -1;
    const stop = at + 4 + this.#view.getUint32(at, true);
    return stop > this.#end ? -1 : stop;
  }

  #text(at: number): number {
    const stop = this.#bytes(at);
    if (stop < 0) return -1;
    const view = this.#view;
    let i = at + 4;
    for (; i + 4 <= stop; i += 4) if (view.getInt32(i, true) & 0x80808080) return -1;
    for (; i < stop; i++) if (this.body[i] > 0x7f) return -1;
    return stop;
  }
}
