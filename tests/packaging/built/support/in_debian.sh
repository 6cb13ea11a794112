#!/bin/sh
# Runs /srv/alone/saguin of the Debian in the directory SAGUIN_ROOT: a machine without Node or Deno, as a
# user who has no home and no variables, in a directory with nothing but the file. Directories of the
# tests are there under their own names. exec all the way, so that signals and the exit status are the
# broker's own.
set -eu
tests=$(cd "$(dirname "$0")/../../../../run/tests" && pwd -P)
mkdir -p "$SAGUIN_ROOT$tests"
# shellcheck disable=SC2016 # expanded in there
exec unshare --mount sh -euc '
  root=$1 tests=$2
  shift 2
  mount -t proc proc "$root/proc"
  mount --bind "$tests" "$root$tests"
  exec chroot --userspec=nobody:nogroup "$root" /usr/bin/env -i /bin/sh -euc "
    cd /srv/alone
    exec ./saguin \"\$@\"" saguin "$@"' sh "$SAGUIN_ROOT" "$tests" "$@"
