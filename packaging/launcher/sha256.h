/* SHA-256 (FIPS 180-4) of bytes that come in pieces. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct sha256 {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const uint8_t *bytes, size_t count);
void sha256_end(struct sha256 *hash, uint8_t digest[32]);
