#!/bin/sh
# Puts the brokers that the benches compare with in place: Debian's mosquitto, and npm's aedes below
# .bench/. What is already there is left alone; what cannot be installed is an error.
set -eu
cd "$(dirname "$0")/../.."

AEDES=1.2.0

if ! command -v mosquitto >/dev/null && ! [ -x /usr/sbin/mosquitto ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "mosquitto is missing; install it with: apt-get install mosquitto" >&2
    exit 1
  fi
  # Only the executable is wanted, not a daemon on port 1883.
  apt-get update -qq || true
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends mosquitto >/dev/null
fi

found=$(node -p "require('./.bench/node_modules/aedes/package.json').version" 2>/dev/null || true)
if [ "$found" != "$AEDES" ]; then
  mkdir -p .bench
  npm install --prefix .bench --no-save --no-audit --no-fund --ignore-scripts "aedes@$AEDES"
fi
