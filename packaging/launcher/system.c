#include "system.h"
#include <asm/unistd.h>

/* ---------------------------------------------------------------------------------- the kernel */

#if defined(__x86_64__)

static long call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

__asm__(".globl _start\n_start:\n  xor %ebp, %ebp\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call begin\n");

#elif defined(__aarch64__)

static long call(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}

__asm__(".globl _start\n_start:\n  mov x29, #0\n  mov x30, #0\n  mov x0, sp\n  bl begin\n");

#else
#error "the runtime exists for x86_64 and aarch64 only"
#endif

enum {
  HERE = -100,          /* AT_FDCWD */
  LINK_ITSELF = 0x100,  /* AT_SYMLINK_NOFOLLOW */
  REMOVE_DIRECTORY = 0x200,
  LOCK_EXCLUSIVE = 2,
  WRITABLE = 2, /* W_OK */
  READ_AND_WRITE = 3,
  PRIVATE_ANONYMOUS = 0x22,
  SEEK_END_ = 2,
};

static long at(long number, const char *path, long b, long c, long d) {
  return call(number, HERE, (long)path, b, c, d, 0);
}

long sys_open(const char *path, int flags, int mode) { return at(__NR_openat, path, flags, mode, 0); }
long sys_close(long file) { return call(__NR_close, file, 0, 0, 0, 0, 0); }

long sys_read(long file, void *into, size_t bytes) {
  return call(__NR_read, file, (long)into, (long)bytes, 0, 0, 0);
}

long sys_read_at(long file, void *into, size_t bytes, uint64_t offset) {
  return call(__NR_pread64, file, (long)into, (long)bytes, (long)offset, 0, 0);
}

long sys_write(long file, const void *from, size_t bytes) {
  return call(__NR_write, file, (long)from, (long)bytes, 0, 0, 0);
}

long sys_sync(long file) { return call(__NR_fsync, file, 0, 0, 0, 0, 0); }
long sys_lock(long file) { return call(__NR_flock, file, LOCK_EXCLUSIVE, 0, 0, 0, 0); }

long sys_stat(const char *path, struct stat *into) {
  return at(__NR_newfstatat, path, (long)into, 0, 0);
}

long sys_stat_link(const char *path, struct stat *into) {
  return at(__NR_newfstatat, path, (long)into, LINK_ITSELF, 0);
}

long sys_file_size(long file) { return call(__NR_lseek, file, 0, SEEK_END_, 0, 0, 0); }

/* struct statfs of both processors: fifteen words, the flags in the eleventh. */
long sys_file_system_flags(const char *path) {
  long words[32];
  const long result = call(__NR_statfs, (long)path, (long)words, 0, 0, 0, 0);
  return result < 0 ? result : words[10];
}

long sys_list(long directory, void *into, size_t bytes) {
  return call(__NR_getdents64, directory, (long)into, (long)bytes, 0, 0, 0);
}

long sys_make_directory(const char *path, int mode) { return at(__NR_mkdirat, path, mode, 0, 0); }

long sys_rename(const char *from, const char *to) {
  return call(__NR_renameat2, HERE, (long)from, HERE, (long)to, 0, 0);
}

long sys_remove(const char *path, bool directory) {
  return at(__NR_unlinkat, path, directory ? REMOVE_DIRECTORY : 0, 0, 0);
}

long sys_writable(const char *path) { return at(__NR_faccessat, path, WRITABLE, 0, 0); }
long sys_umask(int mask) { return call(__NR_umask, mask, 0, 0, 0, 0, 0); }
long sys_user(void) { return call(__NR_geteuid, 0, 0, 0, 0, 0, 0); }

long sys_execute(const char *path, char *const arguments[], char *const environment[]) {
  return call(__NR_execve, (long)path, (long)arguments, (long)environment, 0, 0, 0);
}

void *sys_memory(size_t bytes) {
  const long result =
      call(__NR_mmap, 0, (long)bytes, READ_AND_WRITE, PRIVATE_ANONYMOUS, -1, 0);
  return result < 0 && result > -4096 ? NULL : (void *)result;
}

_Noreturn void sys_exit(int code) {
  for (;;) call(__NR_exit_group, code, 0, 0, 0, 0, 0);
}

/* ---------------------------------------------------- what a compiler calls without being asked */

void *memcpy(void *restrict into, const void *restrict from, size_t bytes) {
  uint8_t *to = into;
  const uint8_t *source = from;
  while (bytes-- > 0) *to++ = *source++;
  return into;
}

void *memset(void *into, int value, size_t bytes) {
  uint8_t *to = into;
  while (bytes-- > 0) *to++ = (uint8_t)value;
  return into;
}

/* ----------------------------------------------------------------------------------------- text */

size_t length(const char *text) {
  size_t count = 0;
  while (text[count] != 0) count++;
  return count;
}

bool equal(const char *a, const char *b) {
  while (*a != 0 && *a == *b) a++, b++;
  return *a == *b;
}

bool begins(const char *text, const char *prefix) {
  while (*prefix != 0 && *text == *prefix) text++, prefix++;
  return *prefix == 0;
}

void add(struct text *text, const char *more) {
  for (; *more != 0; more++) {
    if (text->used + 1 >= sizeof text->bytes) {
      text->cut = true;
      break;
    }
    text->bytes[text->used++] = *more;
  }
  text->bytes[text->used] = 0;
}

void add_number(struct text *text, uint64_t number) {
  char digits[21];
  size_t at = sizeof digits - 1;
  digits[at] = 0;
  do {
    digits[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  add(text, digits + at);
}

static const char *const errors[] = {
    [1] = "not permitted",
    [2] = "no such file or directory",
    [5] = "input or output error",
    [6] = "no such device",
    [8] = "not an executable of this machine",
    [12] = "out of memory",
    [13] = "permission denied",
    [16] = "in use",
    [17] = "already there",
    [20] = "not a directory",
    [21] = "a directory",
    [22] = "not possible on this file system",
    [23] = "too many open files",
    [24] = "too many open files",
    [26] = "in use",
    [27] = "larger than is allowed",
    [28] = "no space left",
    [30] = "read-only file system",
    [36] = "the name is too long",
    [37] = "cannot be locked",
    [38] = "this kernel does not know how",
    [39] = "not empty",
    [40] = "too many symbolic links",
    [95] = "not possible on this file system",
    [122] = "the quota is used up",
};

void add_error(struct text *text, long error) {
  const uint64_t number = (uint64_t)-error;
  if (number < sizeof errors / sizeof *errors && errors[number] != NULL) {
    add(text, errors[number]);
    return;
  }
  add(text, "error ");
  add_number(text, number);
}
