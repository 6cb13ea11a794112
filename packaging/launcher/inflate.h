/*
 * Inflates one raw deflate stream (RFC 1951) from a range of an open file into a callback. Whatever the
 * bytes are, it reads and writes within its own buffers; whether they were the right ones is for the
 * hash of what came out to say.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes bytes as they come out; false stops the inflation. */
typedef bool (*taker)(void *with, const uint8_t *bytes, size_t count);

enum inflated { INFLATED, BAD_STREAM, CANNOT_READ, NOT_TAKEN, NO_MEMORY };

enum inflated inflate(long file, uint64_t offset, uint64_t packed, taker take, void *with);
