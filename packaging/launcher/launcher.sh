#!/bin/sh
# The beginning of the portable single file where the C launcher cannot be built for the system: does
# what launcher.c does, with sh, tail, gzip, tar and a program that makes SHA-256 sums.
set -eu

offset=$((@OFFSET@))
runtime='@RUNTIME@'
entry='@ENTRY@'
directories='@DIRECTORIES@'
sums='@SUMS@'

self=$0
user=$(id -u)
tried=
unpacking=
locked=
trap release EXIT
trap 'exit 1' HUP INT TERM

in_vain() { # DIRECTORY WHY
  tried="$tried  $1: $2
"
  return 1
}

# Whether nobody but this user and root can change what is in the directory.
trusted() { # DIRECTORY
  [ -z "$(find "$1" -prune '(' -perm -020 -o -perm -002 ')' 2>&1)" ] &&
    { [ -O "$1" ] || [ -n "$(find "$1" -prune -user 0)" ]; }
}

intact() { # DIRECTORY
  [ -d "$1" ] && [ ! -L "$1" ] && trusted "$1"
}

holds() { # BASE
  for directory in $directories; do intact "$1/$directory" || return 1; done
  [ -x "$1/$runtime" ] && [ -f "$1/$entry" ] && trusted "$1"
}

sums_match() { # BASE
  (
    cd "$1"
    if command -v shasum >/dev/null; then printf '%s\n' "$sums" | shasum -a 256 -c
    else printf '%s\n' "$sums" | sha256sum -c; fi
  ) >/dev/null 2>&1
}

# One start unpacks, the others wait. Whoever finds the lock of a process that is gone breaks it.
lock() { # BASE
  waited=0
  while ! mkdir -- "$1/.locked" 2>/dev/null; do
    holder=$(cat "$1/.locked/process" 2>/dev/null) || holder=
    if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then rm -rf -- "$1/.locked"; fi
    waited=$((waited + 1))
    if [ "$waited" -gt 120 ]; then return 1; fi
    sleep 1
  done
  locked="$1/.locked"
  printf '%s\n' "$$" >"$locked/process"
}

release() {
  [ -z "$unpacking" ] || rm -rf -- "$unpacking"
  [ -z "$locked" ] || rm -rf -- "$locked"
  unpacking=
  locked=
}

# Unpacks beside its place and moves whole directories there: nothing is visible before it is complete.
unpack() { # BASE
  unpacking=$1/.unpacking
  rm -rf -- "$unpacking"
  (umask 022 && mkdir -- "$unpacking" && tail -c +"$offset" <"$self" | gzip -dc | tar -xf - -C "$unpacking") \
    2>/dev/null
  sums_match "$unpacking" || { in_vain "$1" "no space left, or this file is damaged"; return 1; }
  for directory in $directories; do
    if intact "$1/$directory"; then continue; fi
    rm -rf -- "${1:?}/$directory"
    mv -- "$unpacking/$directory" "$1/$directory"
  done
  holds "$1" || in_vain "$1" "programs cannot be executed there"
}

fill() { # BASE
  mkdir -p -- "$1" 2>/dev/null || { in_vain "$1" "cannot be made"; return 1; }
  trusted "$1" || { in_vain "$1" "others may write there too, or it belongs to another user"; return 1; }
  [ -w "$1" ] || { in_vain "$1" "cannot be written"; return 1; }
  lock "$1" || { in_vain "$1" "another start is unpacking there; if none is, remove $1/.locked"; return 1; }
  if holds "$1" || unpack "$1"; then release; else release; return 1; fi
}

usable() { # BASE
  base=$1
  holds "$base" || fill "$base"
}

# A directory of this user's own below one that everybody may write to; see launcher.c.
usable_for_user() { # PARENT
  (umask 077 && mkdir -- "$1/saguin-$user") 2>/dev/null || true
  if [ -L "$1/saguin-$user" ] || [ ! -O "$1/saguin-$user" ]; then
    in_vain "$1/saguin-$user" "is not a directory of this user"
    return 1
  fi
  usable "$1/saguin-$user"
}

find_directory() {
  if [ -n "${SAGUIN_CACHE:-}" ]; then usable "$SAGUIN_CACHE"; return; fi
  base=/usr/lib/saguin
  holds "$base" && return
  case ${XDG_CACHE_HOME:-} in /*) usable "$XDG_CACHE_HOME/saguin" && return ;; esac
  case ${HOME:-} in
    /*) if [ -d "$HOME" ]; then (umask 077 && mkdir -p -- "$HOME/.cache") 2>/dev/null || true
      usable "$HOME/.cache/saguin" && return; fi ;;
  esac
  usable_for_user /var/tmp || usable_for_user /tmp
}

if ! find_directory; then
  printf '%s\n' 'saguin: unpacks itself once, and no directory can take it:' >&2
  printf '%s' "$tried" >&2
  printf '%s\n' 'name one with SAGUIN_CACHE=DIRECTORY: this user writes there, @MEBIBYTES@ MiB are free, and programs may run from it' >&2
  exit 1
fi

# The runtime sees none of the variables that change what it runs, but those for V8.
for name in $(env | sed -n 's/^\(DENO_[A-Z0-9_]*\|NODE_[A-Z0-9_]*\|OTEL_[A-Z0-9_]*\)=.*/\1/p'); do
  if [ "$name" != DENO_V8_FLAGS ] || [ -z "$DENO_V8_FLAGS" ]; then unset "$name"; fi
done
export DENO_DIR="$base/compiled" DENO_NO_UPDATE_CHECK=1 DENO_NO_PACKAGE_JSON=1
trap - EXIT HUP INT TERM
# shellcheck disable=SC2086 # one word an argument
exec "$base/$runtime" @ARGUMENTS@ "$base/$entry" "$@"
exit 1
