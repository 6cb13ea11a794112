#!/bin/sh
# Runs SAGUIN_FILE, an executable for arm64, under qemu-user with Debian's C library for it. What the
# file executes in turn runs there too: the kernel is told of the emulator in a namespace of this process
# (Linux 6.7), and the machine stays as it is. exec all the way, so that signals and the exit status are
# the broker's own.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
# shellcheck disable=SC2016 # expanded in there
exec unshare --user --map-root-user --mount sh -euc '
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  printf %s "$1" >/proc/sys/fs/binfmt_misc/register
  shift
  exec "$@"' sh ":arm64:M::$magic:$mask:$(command -v qemu-aarch64-static):" "$SAGUIN_FILE" "$@"
