#include "package.h"
#include "sha256.h"
#include "system.h"

enum { FOOTER = 52, LONGEST_INDEX = 64 * 1024 };

/* The rest of the index. A read that goes past its end gives zeros and empties it for good. */
struct reader {
  const uint8_t *at, *end;
  bool failed;
};

static const uint8_t *take(struct reader *from, size_t bytes) {
  static const uint8_t zeros[DIGEST];
  if ((size_t)(from->end - from->at) < bytes) {
    from->failed = true;
    from->at = from->end;
    return zeros;
  }
  from->at += bytes;
  return from->at - bytes;
}

static uint64_t number(struct reader *from, int bytes) {
  const uint8_t *at = take(from, (size_t)bytes);
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static const char *text(struct reader *from) {
  const size_t bytes = (size_t)number(from, 2);
  if ((size_t)(from->end - from->at) < bytes || bytes == 0 || from->at[bytes - 1] != 0) {
    from->failed = true;
    return "";
  }
  return (const char *)take(from, bytes);
}

static bool read_whole(long file, uint8_t *into, size_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const long got = sys_read_at(file, into, bytes, offset);
    if (got == INTERRUPTED) continue;
    if (got <= 0) return false;
    into += got, bytes -= (size_t)got, offset += (uint64_t)got;
  }
  return true;
}

static size_t directory_of(const char *path) {
  size_t at = 0;
  while (path[at] != 0 && path[at] != '/') at++;
  return at;
}

static bool read_index(struct package *package, struct reader *from) {
  package->files = (uint32_t)number(from, 4);
  if (package->files > MOST_FILES) return false;
  for (uint32_t i = 0; i < package->files; i++) {
    struct packed_file *file = &package->list[i];
    file->path = text(from);
    file->directory = directory_of(file->path);
    file->executable = number(from, 1) != 0;
    file->offset = number(from, 8);
    file->packed = number(from, 8);
    file->bytes = number(from, 8);
    file->sha256 = take(from, DIGEST);
  }
  package->arguments = (uint32_t)number(from, 4);
  if (package->arguments > MOST_ARGUMENTS) return false;
  for (uint32_t i = 0; i < package->arguments; i++) package->argument[i] = text(from);
  return !from->failed && package->arguments > 0;
}

bool package_read(struct package *package, long file) {
  static uint8_t index[LONGEST_INDEX];
  uint8_t footer[FOOTER];
  const long size = sys_file_size(file);
  if (size < FOOTER || !read_whole(file, footer, FOOTER, (uint64_t)size - FOOTER)) return false;
  static const char magic[8] = {'S', 'A', 'G', 'U', 'P', 'A', 'C', 'K'};
  for (size_t i = 0; i < sizeof magic; i++) {
    if (footer[i] != (uint8_t)magic[i]) return false;
  }
  struct reader from = {footer + 8, footer + FOOTER, false};
  const uint64_t offset = number(&from, 8);
  const size_t bytes = (size_t)number(&from, 4);
  if (bytes > LONGEST_INDEX || offset > (uint64_t)size) return false;
  if (!read_whole(file, index, bytes, offset)) return false;

  struct sha256 hash;
  uint8_t digest[DIGEST];
  sha256_begin(&hash);
  sha256_add(&hash, index, bytes);
  sha256_end(&hash, digest);
  for (int i = 0; i < DIGEST; i++) {
    if (digest[i] != footer[20 + i]) return false;
  }
  package->file = file;
  struct reader rest = {index, index + bytes, false};
  return read_index(package, &rest);
}

uint64_t package_bytes(const struct package *package) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < package->files; i++) sum += package->list[i].bytes;
  return sum;
}
