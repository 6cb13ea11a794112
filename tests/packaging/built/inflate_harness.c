/*
 * Inflates the streams of a file and writes what comes out, under the sanitizers of the compiler.
 * In:  any number of u32 length, bytes. Out: u8 result, u32 length, bytes of each. Little-endian.
 */
#include "../../../packaging/launcher/inflate.h"
#include "../../../packaging/launcher/system.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nothing in a test makes more than this of a stream; a stream that does is stopped. */
enum { MOST = 8 << 20 };

static uint8_t *made;
static size_t used;

long sys_read_at(long file, void *into, size_t bytes, uint64_t offset) {
  /* Short reads too, as a kernel may. */
  if (bytes > 1000) bytes = bytes / 2 + 1;
  return pread((int)file, into, bytes, (off_t)offset);
}

/* Not zeroed beyond what is promised: kept between streams, as the launcher does. */
void *sys_memory(size_t bytes) { return calloc(1, bytes); }

static bool take(void *with, const uint8_t *bytes, size_t count) {
  (void)with;
  if (used + count > MOST) return false;
  memcpy(made + used, bytes, count);
  used += count;
  return true;
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  FILE *stream = fopen(arguments[1], "rb");
  if (stream == NULL) return 2;
  const int file = fileno(stream);
  const off_t end = lseek(file, 0, SEEK_END);
  made = malloc(MOST);
  for (off_t at = 0; at < end;) {
    uint32_t packed;
    if (pread(file, &packed, sizeof packed, at) != sizeof packed) return 3;
    at += (off_t)sizeof packed;
    used = 0;
    const uint8_t result = (uint8_t)inflate(file, (uint64_t)at, packed, take, NULL);
    const uint32_t length = (uint32_t)used;
    fwrite(&result, 1, 1, stdout);
    fwrite(&length, sizeof length, 1, stdout);
    fwrite(made, 1, used, stdout);
    at += packed;
  }
  return 0;
}
