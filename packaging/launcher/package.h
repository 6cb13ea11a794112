/*
 * What is behind the launcher in the one file, as packaging/single_file.ts writes it:
 *
 *     launcher | packed files | index | footer
 *
 * footer: "SAGUPACK", u64 offset of the index, u32 its length, SHA-256 of it. All little-endian.
 * index:  u32 files, each: path, u8 executable, u64 offset, u64 packed bytes, u64 bytes, SHA-256
 *         u32 arguments, each a text. A text is u16 length and its bytes with a NUL at the end.
 *
 * A path is `<directory>/<name>`, its directory named after the hashes of what is in it, so that a
 * directory that exists is complete and never changes. An argument that begins with "@/" is a path.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_FILES = 256, MOST_ARGUMENTS = 64, DIGEST = 32 };

struct packed_file {
  const char *path;
  size_t directory; /* bytes of the path before its slash */
  bool executable;
  uint64_t offset, packed, bytes;
  const uint8_t *sha256;
};

struct package {
  long file; /* open for reading */
  uint32_t files;
  struct packed_file list[MOST_FILES];
  uint32_t arguments;
  const char *argument[MOST_ARGUMENTS];
};

/* False when the file is not what was built. */
bool package_read(struct package *package, long file);
/* What it takes when unpacked. */
uint64_t package_bytes(const struct package *package);
