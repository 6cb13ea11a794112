#!/bin/sh
# Puts the programs in place that building and testing executables takes. What is there is left alone;
# what cannot be installed is an error that names it, never a reason to build or test less.
#
#     packaging/tools.sh linux-x86_64 ...   a C compiler for that target of packaging/targets.ts
#     packaging/tools.sh deb                what makes a Debian package
#     packaging/tools.sh test               an emulator with a C library, and what makes a small Debian
set -eu

missing=""
need() { # COMMAND-OR-FILE PACKAGE
  case $1 in
  /*) [ -e "$1" ] && return ;;
  *) command -v "$1" >/dev/null && return ;;
  esac
  case "$missing " in
  *" $2 "*) ;;
  *) missing="$missing $2" ;;
  esac
}

native_compiler() {
  need cc gcc
  need /usr/include/stdio.h libc6-dev
}

compiler() { # PROCESSOR ITS-DEBIAN-TOOLCHAIN ITS-DEBIAN-NAME
  if [ "$(uname -sm)" = "Linux $1" ]; then native_compiler
  else
    need "$1-linux-gnu-gcc" "gcc-$2-linux-gnu"
    need "/usr/$1-linux-gnu/include/asm/unistd.h" "linux-libc-dev-$3-cross"
  fi
}

for what in "$@"; do
  case $what in
  linux-x86_64) compiler x86_64 x86-64 amd64 ;;
  linux-arm64) compiler aarch64 aarch64 arm64 ;;
  macos-*) ;; # its launcher is a script
  deb) need dpkg-deb dpkg ;;
  test)
    native_compiler
    need dpkg-deb dpkg
    need unshare util-linux
    need mmdebstrap mmdebstrap
    need systemd-analyze systemd
    need qemu-aarch64-static qemu-user-static
    need /usr/aarch64-linux-gnu/lib/libc.so.6 libc6-arm64-cross
    need /usr/aarch64-linux-gnu/lib/libgcc_s.so.1 libgcc-s1-arm64-cross
    ;;
  *)
    echo "tools.sh: \"$what\" is no target, nor deb nor test" >&2
    exit 1
    ;;
  esac
done

[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing:$missing; install with: apt-get install$missing" >&2
  exit 1
fi
# Lists that are there may do; if they do not, installing fails and says so.
apt-get update -qq || true
# shellcheck disable=SC2086 # one word a package
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
