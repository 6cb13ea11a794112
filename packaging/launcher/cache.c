#include "cache.h"
#include "inflate.h"
#include "sha256.h"

enum {
  WRITABLE_BY_OTHERS = 0022,
  READ_PIECE = 64 * 1024,
  DIRECTORY_MODE = 0755,
};

/* ---------------------------------------------------------------------------------------- paths */

static void path_to(struct text *path, const char *base, const char *before, const char *name,
                    size_t bytes) {
  path->used = 0;
  path->cut = false;
  add(path, base);
  add(path, "/");
  add(path, before);
  for (size_t i = 0; i < bytes && !path->cut; i++) {
    const char one[2] = {name[i], 0};
    add(path, one);
  }
}

static void path_of(struct text *path, const char *base, const struct packed_file *file) {
  path_to(path, base, "", file->path, length(file->path));
}

/* Whether the file is the first one of the index in its directory: directories are handled by these. */
static bool opens_directory(const struct package *package, uint32_t at) {
  const struct packed_file *file = &package->list[at];
  for (uint32_t i = 0; i < at; i++) {
    const struct packed_file *other = &package->list[i];
    if (other->directory != file->directory) continue;
    size_t same = 0;
    while (same < file->directory && other->path[same] == file->path[same]) same++;
    if (same == file->directory) return false;
  }
  return true;
}

static bool in_directory(const struct packed_file *file, const struct packed_file *first) {
  if (file->directory != first->directory) return false;
  for (size_t i = 0; i < file->directory; i++) {
    if (file->path[i] != first->path[i]) return false;
  }
  return true;
}

/* ---------------------------------------------------------------------------------------- trust */

static bool ours(const struct stat *found) {
  return found->st_uid == 0 || (long)found->st_uid == sys_user();
}

static bool same_digest(const uint8_t *a, const uint8_t *b) {
  for (int i = 0; i < DIGEST; i++) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

static bool hash_matches(const char *path, const uint8_t *sha256) {
  static uint8_t piece[READ_PIECE];
  const long file = sys_open(path, OPEN_READ | OPEN_CLOSE_ON_EXEC, 0);
  if (file < 0) return false;
  struct sha256 hash;
  sha256_begin(&hash);
  long got;
  while ((got = sys_read(file, piece, sizeof piece)) > 0 || got == INTERRUPTED) {
    if (got > 0) sha256_add(&hash, piece, (size_t)got);
  }
  sys_close(file);
  uint8_t digest[DIGEST];
  sha256_end(&hash, digest);
  return got == 0 && same_digest(digest, sha256);
}

static bool directory_holds(const struct package *package, const char *base, uint32_t first) {
  static struct text path;
  struct stat found;
  path_to(&path, base, "", package->list[first].path, package->list[first].directory);
  if (path.cut || sys_stat_link(path.bytes, &found) < 0) return false;
  if ((found.st_mode & KIND) != DIRECTORY) return false;
  if (!ours(&found) || (found.st_mode & WRITABLE_BY_OTHERS) != 0) return false;
  for (uint32_t i = first; i < package->files; i++) {
    const struct packed_file *file = &package->list[i];
    if (!in_directory(file, &package->list[first])) continue;
    path_of(&path, base, file);
    if (path.cut || sys_stat_link(path.bytes, &found) < 0) return false;
    if ((found.st_mode & KIND) != REGULAR || (uint64_t)found.st_size != file->bytes) return false;
    if (!ours(&found) || (found.st_mode & WRITABLE_BY_OTHERS) != 0) return false;
    if (!file->executable && !hash_matches(path.bytes, file->sha256)) return false;
  }
  return true;
}

/* Whether nobody but this user and root can put other files into the place of those in `base`. */
static bool trusted(const char *base, struct text *why) {
  struct stat found;
  const long result = sys_stat(base, &found);
  if (result < 0) {
    add_error(why, result);
    return false;
  }
  if ((found.st_mode & KIND) != DIRECTORY) {
    add(why, "not a directory");
    return false;
  }
  if (!ours(&found)) {
    add(why, "belongs to another user");
    return false;
  }
  if ((found.st_mode & WRITABLE_BY_OTHERS) != 0) {
    add(why, "others may write there too");
    return false;
  }
  return true;
}

bool cache_holds(const struct package *package, const char *base) {
  static struct text ignored;
  ignored.used = 0;
  if (!trusted(base, &ignored)) return false;
  for (uint32_t i = 0; i < package->files; i++) {
    if (opens_directory(package, i) && !directory_holds(package, base, i)) return false;
  }
  return true;
}

/* ------------------------------------------------------------------------------------ unpacking */

/* Where inflated bytes go. */
struct sink {
  long file;
  uint64_t bytes;
  struct sha256 hash;
  long error;
};

static bool sink_take(void *with, const uint8_t *bytes, size_t count) {
  struct sink *sink = with;
  sink->bytes += count;
  sha256_add(&sink->hash, bytes, count);
  while (count > 0) {
    const long written = sys_write(sink->file, bytes, count);
    if (written == INTERRUPTED) continue;
    if (written < 0) {
      sink->error = written;
      return false;
    }
    bytes += written, count -= (size_t)written;
  }
  return true;
}

static bool fails(struct text *why, const char *what, long error) {
  add(why, what);
  add_error(why, error);
  return false;
}

static bool unpack_file(const struct package *package, const struct packed_file *packed,
                        const char *path, struct text *why) {
  static struct sink sink;
  const int flags = OPEN_READ_WRITE | OPEN_CREATE | OPEN_EXCLUSIVE | OPEN_CLOSE_ON_EXEC;
  sink.file = sys_open(path, flags, packed->executable ? 0755 : 0644);
  if (sink.file < 0) return fails(why, "", sink.file);
  sink.bytes = 0, sink.error = 0;
  sha256_begin(&sink.hash);
  const enum inflated inflated =
      inflate(package->file, packed->offset, packed->packed, sink_take, &sink);
  const long synced = inflated == INFLATED ? sys_sync(sink.file) : 0;
  sys_close(sink.file);
  uint8_t digest[DIGEST];
  sha256_end(&sink.hash, digest);
  if (inflated == NOT_TAKEN) return fails(why, "", sink.error);
  if (synced < 0) return fails(why, "", synced);
  if (inflated != INFLATED || sink.bytes != packed->bytes || !same_digest(digest, packed->sha256)) {
    add(why, inflated == NO_MEMORY ? "out of memory"
                                   : "this file is damaged: what is packed in it does not match its hash");
    return false;
  }
  return true;
}

/* Removes a directory of files; what cannot be removed stays, and is in the way of its next user. */
static void remove_directory(const char *path) {
  static uint8_t entries[READ_PIECE];
  static struct text inside;
  const long directory = sys_open(path, OPEN_READ | OPEN_CLOSE_ON_EXEC, 0);
  if (directory < 0) return;
  long got;
  while ((got = sys_list(directory, entries, sizeof entries)) > 0) {
    /* struct linux_dirent64: u64 inode, u64 offset, u16 length of the entry, u8 type, name */
    for (long at = 0; at < got; at += entries[at + 16] | entries[at + 17] << 8) {
      const char *name = (const char *)entries + at + 19;
      if (equal(name, ".") || equal(name, "..")) continue;
      path_to(&inside, path, "", name, length(name));
      if (!inside.cut) sys_remove(inside.bytes, false);
    }
  }
  sys_close(directory);
  sys_remove(path, true);
}

static long sync_directory(const char *path) {
  const long directory = sys_open(path, OPEN_READ | OPEN_CLOSE_ON_EXEC, 0);
  if (directory < 0) return directory;
  const long result = sys_sync(directory);
  sys_close(directory);
  return result;
}

/* Unpacks one directory beside its place and moves it there whole. The lock is held. */
static bool unpack_directory(const struct package *package, const char *base, uint32_t first,
                             struct text *why) {
  static struct text beside, place, inside;
  const struct packed_file *opening = &package->list[first];
  path_to(&beside, base, ".unpacking-", opening->path, opening->directory);
  path_to(&place, base, "", opening->path, opening->directory);
  if (beside.cut || place.cut) return fails(why, "", -36);
  remove_directory(beside.bytes);
  long result = sys_make_directory(beside.bytes, DIRECTORY_MODE);
  if (result < 0) return fails(why, "", result);
  for (uint32_t i = first; i < package->files; i++) {
    const struct packed_file *file = &package->list[i];
    if (!in_directory(file, opening)) continue;
    path_to(&inside, beside.bytes, "", file->path + file->directory + 1,
            length(file->path) - file->directory - 1);
    if (inside.cut || !unpack_file(package, file, inside.bytes, why)) {
      remove_directory(beside.bytes);
      return inside.cut ? fails(why, "", -36) : false;
    }
  }
  result = sync_directory(beside.bytes);
  /* What is there under that name is not what belongs there: see cache_holds. */
  if (result >= 0) remove_directory(place.bytes);
  if (result >= 0) result = sys_rename(beside.bytes, place.bytes);
  if (result >= 0) result = sync_directory(base);
  if (result >= 0) return true;
  remove_directory(beside.bytes);
  return fails(why, "", result);
}

/* Makes a directory and those above it; one that is there already is as good. */
static long make_directories(const char *path, int mode) {
  static struct text above;
  above.used = 0;
  above.cut = false;
  for (size_t i = 0; path[i] != 0; i++) {
    if (path[i] == '/' && i > 0) {
      const long result = sys_make_directory(above.bytes, mode);
      /* Reported by what comes below it, if it matters: a parent may be there and closed to us. */
      if (result < 0 && result != EXISTS && result != -30 && result != -13) return result;
    }
    const char one[2] = {path[i], 0};
    add(&above, one);
  }
  const long result = sys_make_directory(path, mode);
  return result == EXISTS ? 0 : result;
}

static bool fill_locked(const struct package *package, const char *base, struct text *why) {
  for (uint32_t i = 0; i < package->files; i++) {
    if (!opens_directory(package, i) || directory_holds(package, base, i)) continue;
    if (!unpack_directory(package, base, i, why)) return false;
  }
  return true;
}

bool cache_fill(const struct package *package, const char *base, int mode, struct text *why) {
  static struct text path;
  const long made = make_directories(base, mode);
  if (made < 0) return fails(why, "", made);
  if (!trusted(base, why)) return false;
  const long flags = sys_file_system_flags(base);
  if (flags >= 0 && (flags & MOUNTED_NOEXEC) != 0) {
    add(why, "is mounted noexec");
    return false;
  }
  path_to(&path, base, "", ".lock", 5);
  const long lock = sys_open(path.bytes, OPEN_READ_WRITE | OPEN_CREATE | OPEN_CLOSE_ON_EXEC, 0600);
  if (lock < 0) return fails(why, "", lock);
  long locked;
  do locked = sys_lock(lock);
  while (locked == INTERRUPTED);
  const bool filled = locked < 0 ? fails(why, "", locked) : fill_locked(package, base, why);
  sys_close(lock);
  return filled;
}
