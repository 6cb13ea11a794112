#!/bin/sh
# packaging/debian/root.sh TARFILE: a small Debian that packages can be installed in and removed from,
# with what every Debian has and what the package depends on. Made once, then left alone.
set -eu
[ ! -e "$1" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "root.sh: makes a system with files of several users, which takes root" >&2
  exit 1
fi
mkdir -p "$(dirname "$1")"
mmdebstrap --quiet --mode=root --variant=essential --include=adduser --format=tar \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  bookworm "$1.new"
mv "$1.new" "$1"
