#include "inflate.h"
#include "system.h"

enum {
  INPUT = 64 * 1024,
  WINDOW = 32 * 1024, /* the farthest a match reaches back */
  OUTPUT = 256 * 1024,
  LONGEST_CODE = 15,
  FAST = 10, /* codes up to this length are found in one step */
  LITERALS = 288,
  DISTANCES = 32,
  LENGTH_CODES = 19,
  END_OF_BLOCK = 256,
};

/* One Huffman code. A fast entry is symbol << 4 | length, 0 where the code is longer than FAST. */
struct code {
  uint16_t fast[1 << FAST];
  uint16_t count[LONGEST_CODE + 1];
  uint16_t symbol[LITERALS];
};

struct stream {
  long file;
  uint64_t offset, left; /* of the range, what is not read yet */
  uint8_t input[INPUT];
  size_t have, at;
  uint64_t bits;
  int bit_count;
  int missing; /* zero bytes made up behind the end, so that a code can be looked up there */
  enum inflated failure;

  uint8_t output[OUTPUT];
  size_t filled, taken; /* of output: written, and of that given to the taker */
  taker take;
  void *with;

  struct code literal, distance, length;
};

/* ---------------------------------------------------------------------------------------- input */

static bool fill(struct stream *s) {
  const size_t wanted = s->left < INPUT ? (size_t)s->left : INPUT;
  long got;
  do got = sys_read_at(s->file, s->input, wanted, s->offset);
  while (got == INTERRUPTED);
  if (got <= 0) {
    s->failure = CANNOT_READ;
    return false;
  }
  s->offset += (uint64_t)got, s->left -= (uint64_t)got;
  s->have = (size_t)got, s->at = 0;
  return true;
}

/* Puts at least `count` bits (at most 48) within reach; false when the file cannot be read. */
static bool need(struct stream *s, int count) {
  while (s->bit_count < count) {
    if (s->at == s->have && s->left > 0 && !fill(s)) return false;
    const bool end = s->at == s->have;
    if (end) s->missing++;
    s->bits |= (uint64_t)(end ? 0 : s->input[s->at++]) << s->bit_count;
    s->bit_count += 8;
  }
  return true;
}

static uint32_t drop(struct stream *s, int count) {
  const uint32_t value = (uint32_t)(s->bits & ((1u << count) - 1));
  s->bits >>= count;
  s->bit_count -= count;
  return value;
}

/* The next `count` bits, at most 16; -1 when they cannot be read or lie behind the end. */
static int take_bits(struct stream *s, int count) {
  if (!need(s, count)) return -1;
  const int value = (int)drop(s, count);
  /* Bits that were made up have been used once fewer are left than were made up. */
  if (s->bit_count < 8 * s->missing) {
    s->failure = BAD_STREAM;
    return -1;
  }
  return value;
}

/* --------------------------------------------------------------------------------------- output */

static bool give(struct stream *s) {
  if (!s->take(s->with, s->output + s->taken, s->filled - s->taken)) {
    s->failure = NOT_TAKEN;
    return false;
  }
  s->taken = s->filled;
  return true;
}

/* Room for `count` bytes, at most OUTPUT - WINDOW, keeping the window that matches reach into. */
static bool room(struct stream *s, size_t count) {
  if (s->filled + count <= OUTPUT) return true;
  if (!give(s)) return false;
  const uint8_t *kept = s->output + s->filled - WINDOW;
  for (size_t i = 0; i < WINDOW; i++) s->output[i] = kept[i];
  s->filled = s->taken = WINDOW;
  return true;
}

/* ---------------------------------------------------------------------------------------- codes */

static uint32_t reversed(uint32_t code, int bits) {
  uint32_t result = 0;
  for (; bits > 0; bits--, code >>= 1) result = result << 1 | (code & 1);
  return result;
}

/* Builds a code from the lengths of its symbols; false when more codes are named than there are. */
static bool build(struct code *code, const uint8_t *lengths, int symbols) {
  for (int i = 0; i <= LONGEST_CODE; i++) code->count[i] = 0;
  for (int i = 0; i < 1 << FAST; i++) code->fast[i] = 0;
  for (int i = 0; i < symbols; i++) code->count[lengths[i]]++;
  code->count[0] = 0;
  uint16_t place[LONGEST_CODE + 1];
  uint32_t next[LONGEST_CODE + 1];
  uint32_t first = 0;
  uint16_t before = 0;
  for (int bits = 1; bits <= LONGEST_CODE; bits++) {
    first = (first + code->count[bits - 1]) << 1;
    if (first + code->count[bits] > 1u << bits) return false;
    next[bits] = first;
    place[bits] = before;
    before = (uint16_t)(before + code->count[bits]);
  }
  for (int i = 0; i < symbols; i++) {
    const int bits = lengths[i];
    if (bits == 0) continue;
    code->symbol[place[bits]++] = (uint16_t)i;
    const uint32_t value = next[bits]++;
    if (bits > FAST) continue;
    for (uint32_t at = reversed(value, bits); at < 1u << FAST; at += 1u << bits) {
      code->fast[at] = (uint16_t)(i << 4 | bits);
    }
  }
  return true;
}

/* The next symbol; -1 for no code, or none that can be read. */
static int symbol(struct stream *s, const struct code *code) {
  if (!need(s, LONGEST_CODE)) return -1;
  const uint16_t entry = code->fast[s->bits & ((1 << FAST) - 1)];
  if (entry != 0) {
    drop(s, entry & 15);
    return entry >> 4;
  }
  int32_t value = 0, first = 0, place = 0;
  for (int bits = 1; bits <= LONGEST_CODE; bits++) {
    value = value << 1 | (int32_t)(s->bits >> (bits - 1) & 1);
    first <<= 1;
    const int32_t count = code->count[bits];
    if (value - first < count) {
      drop(s, bits);
      return code->symbol[place + value - first];
    }
    first += count;
    place += count;
  }
  s->failure = BAD_STREAM;
  return -1;
}

/* --------------------------------------------------------------------------------------- blocks */

/* RFC 1951 section 3.2.5 */
static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                        2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t distance_base[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,
                                           33,  49,  65,  97,  129, 193,  257,  385,  513,  769,
                                           1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t distance_bits[30] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                          6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

static bool bad(struct stream *s) {
  if (s->failure == INFLATED) s->failure = BAD_STREAM;
  return false;
}

static bool match(struct stream *s, int coded) {
  coded -= END_OF_BLOCK + 1;
  if (coded >= 29) return bad(s);
  const int more = take_bits(s, length_bits[coded]);
  if (more < 0) return false;
  size_t count = (size_t)(length_base[coded] + more);
  const int coded_distance = symbol(s, &s->distance);
  if (coded_distance < 0 || coded_distance >= 30) return bad(s);
  const int farther = take_bits(s, distance_bits[coded_distance]);
  if (farther < 0) return false;
  const size_t distance = (size_t)(distance_base[coded_distance] + farther);
  if (!room(s, count)) return false;
  if (distance > s->filled) return bad(s);
  uint8_t *to = s->output + s->filled;
  s->filled += count;
  for (; count > 0; count--, to++) *to = to[-(ptrdiff_t)distance];
  return true;
}

static bool coded_block(struct stream *s) {
  for (;;) {
    const int found = symbol(s, &s->literal);
    if (found < 0) return false;
    if (found == END_OF_BLOCK) return take_bits(s, 0) == 0; /* that it was all there */
    if (found < END_OF_BLOCK) {
      if (!room(s, 1)) return false;
      s->output[s->filled++] = (uint8_t)found;
      /* A stream that ends in the middle goes on as zeros: those must not fill a disk. */
      if (s->missing > 8) return bad(s);
    } else if (!match(s, found)) return false;
  }
}

static bool fixed_codes(struct stream *s) {
  uint8_t lengths[LITERALS];
  for (int i = 0; i < LITERALS; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  if (!build(&s->literal, lengths, LITERALS)) return bad(s);
  for (int i = 0; i < DISTANCES; i++) lengths[i] = 5;
  return build(&s->distance, lengths, DISTANCES) || bad(s);
}

static bool dynamic_codes(struct stream *s) {
  static const uint8_t order[LENGTH_CODES] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                              11, 4,  12, 3, 13, 2, 14, 1, 15};
  const int literals = take_bits(s, 5) + 257;
  const int distances = take_bits(s, 5) + 1;
  const int length_codes = take_bits(s, 4) + 4;
  if (s->failure != INFLATED || literals > 286) return bad(s);
  uint8_t lengths[LITERALS + DISTANCES] = {0};
  for (int i = 0; i < length_codes; i++) {
    const int bits = take_bits(s, 3);
    if (bits < 0) return false;
    lengths[order[i]] = (uint8_t)bits;
  }
  if (!build(&s->length, lengths, LENGTH_CODES)) return bad(s);
  for (int at = 0; at < literals + distances;) {
    const int found = symbol(s, &s->length);
    if (found < 0) return false;
    if (found < 16) {
      lengths[at++] = (uint8_t)found;
      continue;
    }
    if (found == 16 && at == 0) return bad(s);
    const int repeats = found == 16 ? take_bits(s, 2) + 3
                      : found == 17 ? take_bits(s, 3) + 3
                                    : take_bits(s, 7) + 11;
    if (s->failure != INFLATED || at + repeats > literals + distances) return bad(s);
    const uint8_t repeated = found == 16 ? lengths[at - 1] : 0;
    for (int i = 0; i < repeats; i++) lengths[at++] = repeated;
  }
  if (lengths[END_OF_BLOCK] == 0) return bad(s);
  return (build(&s->literal, lengths, literals) &&
          build(&s->distance, lengths + literals, distances)) ||
         bad(s);
}

static bool stored_block(struct stream *s) {
  drop(s, s->bit_count % 8);
  const int count = take_bits(s, 16);
  const int inverted = take_bits(s, 16);
  if (count < 0 || inverted < 0 || count != (~inverted & 0xffff)) return bad(s);
  for (int i = 0; i < count; i++) {
    const int byte = take_bits(s, 8);
    if (byte < 0 || !room(s, 1)) return false;
    s->output[s->filled++] = (uint8_t)byte;
  }
  return true;
}

static bool blocks(struct stream *s) {
  for (;;) {
    const int last = take_bits(s, 1);
    const int type = take_bits(s, 2);
    if (last < 0 || type < 0) return false;
    if (type == 3) return bad(s);
    if (type == 0) {
      if (!stored_block(s)) return false;
    } else {
      if (!(type == 1 ? fixed_codes(s) : dynamic_codes(s))) return false;
      if (!coded_block(s)) return false;
    }
    if (last) return give(s);
  }
}

enum inflated inflate(long file, uint64_t offset, uint64_t packed, taker take, void *with) {
  static struct stream *s;
  if (s == NULL) s = sys_memory(sizeof *s);
  if (s == NULL) return NO_MEMORY;
  s->file = file, s->offset = offset, s->left = packed;
  s->have = s->at = 0;
  s->bits = 0, s->bit_count = 0, s->missing = 0;
  s->filled = s->taken = 0;
  s->take = take, s->with = with;
  s->failure = INFLATED;
  if (blocks(s)) return INFLATED;
  return s->failure == INFLATED ? BAD_STREAM : s->failure;
}
