/* One directory that packages are unpacked to, shared by every start that finds it. */
#pragma once
#include "package.h"
#include "system.h"
#include <stdbool.h>

/*
 * Whether everything of the package lies in `base`, unpacked by this user or by root, and nobody else
 * could have changed it. Sizes are compared for every file; hashes for all but executables, whose hash
 * was compared when they were unpacked: that of a runtime takes longer than its start.
 */
bool cache_holds(const struct package *package, const char *base);

/*
 * Unpacks what is missing in `base`, which is made when it is not there, with `mode`. Nothing is visible
 * under its name before it is complete, compared with its hash and on the disk; of several processes one
 * unpacks and the others wait for it. False when it cannot be done: `why` then says so.
 */
bool cache_fill(const struct package *package, const char *base, int mode, struct text *why);
