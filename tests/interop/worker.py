"""A queue worker in paho: takes jobs, does them, answers each. Ends when none came for two seconds.

Usage: worker.py [answer], where the answer is "ack" (done; the default) or "return" (offer it again).
"""

import os
import signal
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

ANSWER = sys.argv[1] if len(sys.argv) > 1 else "ack"
PATIENCE_S = 2

# As `head` expects of what it reads from: end without a word when nobody reads on.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)

last = time.monotonic()


def on_connect(client, userdata, flags, code, properties):
    client.subscribe("$saguin/queue/jobs", qos=1)


def on_message(client, userdata, job):
    global last
    last = time.monotonic()
    attempt = dict(job.properties.UserProperty)["saguin-attempt"]
    # One write a line: two workers may share a pipe.
    line = f"{job.topic} {job.payload.decode()} (attempt {attempt}): {ANSWER}\n"
    print(line, end="", flush=True)
    reply = Properties(PacketTypes.PUBLISH)
    reply.CorrelationData = job.properties.CorrelationData
    client.publish(job.properties.ResponseTopic, ANSWER, qos=1, properties=reply)


worker = mqtt.Client(client_id=f"worker-{os.getpid()}", protocol=mqtt.MQTTv5)
worker.on_connect = on_connect
worker.on_message = on_message
worker.connect("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
while time.monotonic() < last + PATIENCE_S:
    worker.loop(0.1)
worker.disconnect()
