/*
 * The beginning of the portable single file: unpacks the runtime and the program behind it into a
 * directory, once, and becomes the runtime. rfcs/0008-one-file.md tells why it is done so.
 */
#include "cache.h"
#include "package.h"
#include "system.h"

enum {
  REFUSED = 1,
  SHARED_MODE = 0755,
  PRIVATE_MODE = 0700,
  FILE_MASK = 0022,
  MEBIBYTE = 1 << 20,
};

/* Where an installation unpacks for everybody; a start only looks here. */
static const char installed[] = "/usr/lib/saguin";

static void say(const struct text *text) {
  for (size_t at = 0; at < text->used;) {
    const long written = sys_write(2, text->bytes + at, text->used - at);
    if (written < 0 && written != INTERRUPTED) return; /* nobody listens */
    if (written > 0) at += (size_t)written;
  }
}

static const char *variable(char *const environment[], const char *name) {
  const size_t bytes = length(name);
  for (; *environment != NULL; environment++) {
    if (begins(*environment, name) && (*environment)[bytes] == '=' &&
        (*environment)[bytes + 1] != 0) {
      return *environment + bytes + 1;
    }
  }
  return NULL;
}

/* --------------------------------------------------------------------------- where it is unpacked */

/* The search for a directory: what was tried in vain, a line each. */
struct search {
  const struct package *package;
  struct text base;
  struct text tried;
};

static bool in_vain(struct search *search, const char *base, const char *why) {
  add(&search->tried, "  ");
  add(&search->tried, base);
  add(&search->tried, ": ");
  add(&search->tried, why);
  add(&search->tried, "\n");
  return false;
}

static bool usable(struct search *search, const char *first, const char *second, int mode) {
  search->base.used = 0;
  search->base.cut = false;
  add(&search->base, first);
  add(&search->base, second);
  if (search->base.cut) return in_vain(search, first, "the name is too long");
  if (cache_holds(search->package, search->base.bytes)) return true;
  static struct text why;
  why.used = 0;
  why.cut = false;
  if (cache_fill(search->package, search->base.bytes, mode, &why)) return true;
  return in_vain(search, search->base.bytes, why.bytes);
}

/*
 * A directory of this user's own below one that everybody may write to. It is made before it is looked
 * at: once it is a directory of ours, the sticky bit above it keeps everybody else from replacing it,
 * and a symbolic link of theirs is never followed.
 */
static bool usable_for_user(struct search *search, const char *parent) {
  struct text path = {.used = 0};
  add(&path, parent);
  add(&path, "/saguin-");
  add_number(&path, (uint64_t)sys_user());
  sys_make_directory(path.bytes, PRIVATE_MODE);
  struct stat found;
  if (sys_stat_link(path.bytes, &found) == 0 &&
      ((found.st_mode & KIND) != DIRECTORY || (long)found.st_uid != sys_user())) {
    return in_vain(search, path.bytes, "is not a directory of this user");
  }
  return usable(search, path.bytes, "", PRIVATE_MODE);
}

static bool find_directory(struct search *search, char *const environment[]) {
  const char *chosen = variable(environment, "SAGUIN_CACHE");
  if (chosen != NULL) return usable(search, chosen, "", SHARED_MODE);
  search->base.used = 0;
  add(&search->base, installed);
  if (cache_holds(search->package, installed)) return true;
  const char *service = variable(environment, "CACHE_DIRECTORY"); /* systemd.exec(5) */
  if (service != NULL && *service == '/' && usable(search, service, "", SHARED_MODE)) return true;
  const char *cache = variable(environment, "XDG_CACHE_HOME");
  if (cache != NULL && *cache == '/' && usable(search, cache, "/saguin", PRIVATE_MODE)) return true;
  const char *home = variable(environment, "HOME");
  if (home != NULL && *home == '/') {
    struct stat found; /* A home that is not there is not made. */
    if (sys_stat(home, &found) == 0 && usable(search, home, "/.cache/saguin", PRIVATE_MODE)) return true;
  }
  return usable_for_user(search, "/var/tmp") || usable_for_user(search, "/tmp");
}

static _Noreturn void refuse_directories(const struct search *search) {
  struct text message = {.used = 0};
  add(&message, "saguin: unpacks itself once, and no directory can take it:\n");
  add(&message, search->tried.bytes);
  add(&message, "name one with SAGUIN_CACHE=DIRECTORY: this user writes there, ");
  add_number(&message, package_bytes(search->package) / MEBIBYTE + 1);
  add(&message, " MiB are free, and programs may run from it\n");
  say(&message);
  sys_exit(REFUSED);
}

/* ------------------------------------------------------------------------------ what is executed */

/*
 * The runtime reads variables of its own, and some of them would change what it runs or send what it
 * does elsewhere. It sees none but those for V8, by which an operator bounds its memory.
 */
static bool kept(const char *entry) {
  if (begins(entry, "DENO_V8_FLAGS=")) return entry[length("DENO_V8_FLAGS=")] != 0; /* empty is refused */
  return !begins(entry, "DENO_") && !begins(entry, "NODE_") && !begins(entry, "OTEL_");
}

static size_t count(char *const list[]) {
  size_t found = 0;
  while (list[found] != NULL) found++;
  return found;
}

static char *joined(const char *first, const char *second) {
  const size_t a = length(first), b = length(second);
  char *result = sys_memory(a + b + 1);
  if (result == NULL) sys_exit(REFUSED);
  for (size_t i = 0; i < a; i++) result[i] = first[i];
  for (size_t i = 0; i < b; i++) result[a + i] = second[i];
  return result;
}

/* What the runtime keeps for its next start: beside the program, or where the service manager says. */
static const char *compiled_code(const char *base, char *const environment[]) {
  if (sys_writable(base) == 0) return base;
  const char *service = variable(environment, "CACHE_DIRECTORY");
  return service != NULL && *service == '/' ? service : base;
}

static _Noreturn void execute(const struct package *package, const char *base, char *const given[],
                              char *const environment[]) {
  const size_t own = package->arguments;
  char **arguments = sys_memory((own + count(given) + 1) * sizeof *arguments);
  char **variables = sys_memory((count(environment) + 4) * sizeof *variables);
  if (arguments == NULL || variables == NULL) sys_exit(REFUSED);
  const char *runtime = NULL;
  size_t at = 0;
  for (size_t i = 0; i < own; i++) {
    const char *argument = package->argument[i];
    char *whole = begins(argument, "@/") ? joined(base, argument + 1) : joined(argument, "");
    if (i == 0) {
      runtime = whole;
      whole = "saguin";
    }
    arguments[at++] = whole;
  }
  for (size_t i = 0; given[i] != NULL; i++) arguments[at++] = given[i];
  size_t kept_count = 0;
  for (size_t i = 0; environment[i] != NULL; i++) {
    if (kept(environment[i])) variables[kept_count++] = environment[i];
  }
  variables[kept_count++] = joined(joined("DENO_DIR=", compiled_code(base, environment)), "/compiled");
  variables[kept_count++] = "DENO_NO_UPDATE_CHECK=1";
  variables[kept_count++] = "DENO_NO_PACKAGE_JSON=1";

  const long error = sys_execute(runtime, arguments, variables);
  struct text message = {.used = 0};
  add(&message, "saguin: ");
  add(&message, runtime);
  add(&message, " cannot be executed: ");
  if (error == NOT_FOUND) add(&message, "this machine has no GNU C library (glibc), which the runtime needs");
  else add_error(&message, error);
  add(&message, "\n");
  say(&message);
  sys_exit(REFUSED);
}

/* ----------------------------------------------------------------------------------------- start */

static long open_itself(const char *called) {
  const long file = sys_open("/proc/self/exe", OPEN_READ | OPEN_CLOSE_ON_EXEC, 0);
  return file >= 0 ? file : sys_open(called, OPEN_READ | OPEN_CLOSE_ON_EXEC, 0);
}

/* `stack` is what the kernel puts there: argument count, arguments, NULL, environment, NULL. */
_Noreturn void begin(long *stack);
_Noreturn void begin(long *stack) {
  char **given = (char **)(stack + 1);
  char **environment = given + stack[0] + 1;
  static struct package package;
  static struct search search;
  const long file = open_itself(stack[0] > 0 ? given[0] : "");
  if (file < 0 || !package_read(&package, file)) {
    struct text message = {.used = 0};
    add(&message, "saguin: this file cannot be read, or is cut short or damaged");
    if (file < 0) add(&message, ": "), add_error(&message, file);
    add(&message, "; copy it again and compare its checksum\n");
    say(&message);
    sys_exit(REFUSED);
  }
  search.package = &package;
  const long mask = sys_umask(FILE_MASK);
  const bool found = find_directory(&search, environment);
  sys_umask((int)mask);
  if (!found) refuse_directories(&search);
  execute(&package, search.base.bytes, stack[0] > 0 ? given + 1 : given, environment);
}
