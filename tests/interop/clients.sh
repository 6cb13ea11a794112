#!/bin/sh
# Puts the unmodified clients in place that the interop tests drive: Debian's mosquitto-clients,
# mosquitto (for mosquitto_passwd, and as a reader of our password files), python3-paho-mqtt,
# python3-pika, openssl, sqlite3, curl and strace, npm's mqtt and amqplib below .interop/. What is there is
# left alone; what cannot be installed is an error, never a reason to test less.
set -eu
cd "$(dirname "$0")/../.."

MQTTJS=5.16.0
AMQPLIB=2.3.1

missing=""
command -v mosquitto_pub >/dev/null || missing="$missing mosquitto-clients"
command -v mosquitto_passwd >/dev/null || missing="$missing mosquitto"
command -v openssl >/dev/null || missing="$missing openssl"
command -v sqlite3 >/dev/null || missing="$missing sqlite3"
command -v curl >/dev/null || missing="$missing curl"
command -v strace >/dev/null || missing="$missing strace"
/usr/bin/python3 -c 'import paho.mqtt.client' 2>/dev/null || missing="$missing python3-paho-mqtt"
/usr/bin/python3 -c 'import pika' 2>/dev/null || missing="$missing python3-pika"
if [ -n "$missing" ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing:$missing; install with: apt-get install$missing" >&2
    exit 1
  fi
  apt-get update -qq || true
  # shellcheck disable=SC2086 # one word a package
  DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi

version() {
  node -p "require('./.interop/node_modules/$1/package.json').version" 2>/dev/null || true
}
if [ "$(version mqtt)" != "$MQTTJS" ] || [ "$(version amqplib)" != "$AMQPLIB" ]; then
  mkdir -p .interop
  npm install --prefix .interop --no-save --no-audit --no-fund --ignore-scripts \
    "mqtt@$MQTTJS" "amqplib@$AMQPLIB"
fi
