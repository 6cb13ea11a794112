/*
 * The kernel and nothing else: system calls, and the few memory routines that a compiler expects to
 * find. There is no C library below this, so one launcher runs on every Linux of its processor, however
 * old or small, and can say in words what the runtime is missing there.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <asm/stat.h>

/* System calls answer like the kernel: a result, or minus the error number. */

long sys_open(const char *path, int flags, int mode);
long sys_close(long file);
long sys_read(long file, void *into, size_t bytes);
long sys_read_at(long file, void *into, size_t bytes, uint64_t offset);
long sys_write(long file, const void *from, size_t bytes);
long sys_sync(long file);
long sys_lock(long file);
long sys_stat(const char *path, struct stat *into);
long sys_stat_link(const char *path, struct stat *into); /* of the link itself, where it is one */
long sys_file_size(long file);
long sys_file_system_flags(const char *path);
long sys_list(long directory, void *into, size_t bytes);
long sys_make_directory(const char *path, int mode);
long sys_rename(const char *from, const char *to);
long sys_remove(const char *path, bool directory);
long sys_writable(const char *path); /* 0 when this process may write it */
long sys_umask(int mask);
long sys_user(void);
long sys_execute(const char *path, char *const arguments[], char *const environment[]);
void *sys_memory(size_t bytes); /* zeroed; NULL when there is none */
_Noreturn void sys_exit(int code);

/* The kernel's own names for what the calls above take and answer. */
enum {
  OPEN_READ = 00,
  OPEN_READ_WRITE = 02,
  OPEN_CREATE = 0100,
  OPEN_EXCLUSIVE = 0200,
  OPEN_CLOSE_ON_EXEC = 02000000,
  KIND = 0170000,      /* of st_mode: S_IFMT, S_IFREG, S_IFDIR */
  REGULAR = 0100000,
  DIRECTORY = 0040000,
  MOUNTED_NOEXEC = 8, /* ST_NOEXEC of statfs(2) */
  INTERRUPTED = -4,
  NOT_FOUND = -2,
  EXISTS = -17,
};

size_t length(const char *text);
bool equal(const char *a, const char *b);
bool begins(const char *text, const char *prefix);

/* A text of bounded length that is built up; what does not fit is cut, and `cut` says so. */
struct text {
  char bytes[4096];
  size_t used;
  bool cut;
};

void add(struct text *text, const char *more);
void add_number(struct text *text, uint64_t number);
/* A negative answer of a system call in words. */
void add_error(struct text *text, long error);
