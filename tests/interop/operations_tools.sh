#!/bin/sh
# Puts in place what the tests of the operations listener drive: Debian's chromium with npm's
# playwright-core, and promtool out of Debian's prometheus, without installing the server that comes with
# it. What is there is left alone; what cannot be installed is an error, never a reason to test less.
set -eu
cd "$(dirname "$0")/../.."

PLAYWRIGHT=1.65.1
HERE=.interop/operations

mkdir -p "$HERE"
if ! command -v chromium >/dev/null; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing: chromium; install with: apt-get install chromium" >&2
    exit 1
  fi
  apt-get update -qq || true
  DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends chromium >/dev/null
fi

if ! command -v promtool >/dev/null && [ ! -x "$HERE/prometheus/usr/bin/promtool" ]; then
  apt-get update -qq || true
  (cd "$HERE" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb prometheus)
  rm -f "$HERE"/prometheus_*.deb "$HERE/prometheus/usr/bin/prometheus"
fi

found=$(node -p "require('./$HERE/node_modules/playwright-core/package.json').version" 2>/dev/null || true)
if [ "$found" != "$PLAYWRIGHT" ]; then
  npm install --prefix "$HERE" --no-save --no-audit --no-fund --ignore-scripts \
    "playwright-core@$PLAYWRIGHT"
fi
