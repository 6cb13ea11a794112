"""Drives a broker with paho as an application would, MQTT 3.1.1 and 5, and prints "ok <check>" a line.

Usage: paho_client.py PORT [check ...]. Without names every check runs. The broker must have the channels
of fixtures/quickstart.yaml. Ends with a traceback and a non-zero status at the first check that fails.
"""

import os
import queue
import sys
import time
import uuid

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

PORT = int(sys.argv[1])
WAIT_S = 20
QUIET_S = 0.5
BOTH = (mqtt.MQTTv311, mqtt.MQTTv5)


class Client:
    """paho with its callbacks turned into answers to wait for."""

    def __init__(self, version, client_id=None, durable=False, will=None):
        self.version = version
        self.id = client_id or unique("paho")
        self.durable = durable
        self.messages = queue.Queue()
        self._events = queue.Queue()
        self._mqtt = mqtt.Client(
            self.id,
            protocol=version,
            **({} if version == mqtt.MQTTv5 else {"clean_session": not durable}),
        )
        if will is not None:
            self._mqtt.will_set(*will)
        self._mqtt.on_connect = lambda *args: self._events.put(("connect", args[2], args[3]))
        self._mqtt.on_subscribe = lambda *args: self._events.put(("subscribe", args[3]))
        self._mqtt.on_publish = lambda *args: self._events.put(("publish", args[2]))
        self._mqtt.on_message = lambda _c, _u, message: self.messages.put(message)

    def __enter__(self):
        options = {}
        if self.version == mqtt.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 3600 if self.durable else 0
            options = {"clean_start": not self.durable, "properties": properties}
        self._mqtt.connect("127.0.0.1", PORT, **options)
        self._mqtt.loop_start()
        _, flags, code = self._wait("connect")
        assert code == 0, f"CONNACK {code}"
        self.session_present = flags["session present"] == 1
        return self

    def __exit__(self, *_):
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def cut(self):
        """Closes the socket without DISCONNECT."""
        self._mqtt.loop_stop()
        self._mqtt.socket().close()

    def back(self):
        """Connects again after a cut, with what the client remembers of exchanges under way."""
        self._mqtt.reconnect()
        self._mqtt.loop_start()
        _, flags, code = self._wait("connect")
        assert code == 0, f"CONNACK {code}"
        self.session_present = flags["session present"] == 1

    def subscribe(self, topic, qos):
        granted = self._subscribe(topic, qos)
        assert granted == [qos], f"SUBACK {granted} for {topic}"

    def refused(self, topic):
        """A filter that MQTT 3.1.1 is not served."""
        granted = self._subscribe(topic, 1)
        assert granted == [0x80], f"SUBACK {granted} for {topic}"

    def _subscribe(self, topic, qos):
        if self.version == mqtt.MQTTv5:
            self._mqtt.subscribe(topic, options=SubscribeOptions(qos=qos))
        else:
            self._mqtt.subscribe(topic, qos)
        return [int(getattr(code, "value", code)) for code in self._wait("subscribe")[1]]

    def publish(self, topic, payload, qos=1, retain=False, properties=None):
        sent = self._mqtt.publish(topic, payload, qos, retain, properties)
        sent.wait_for_publish(WAIT_S)
        assert sent.is_published(), f"no acknowledgement for {topic}"

    def receive(self):
        return self.messages.get(timeout=WAIT_S)

    def nothing(self):
        try:
            message = self.messages.get(timeout=QUIET_S)
        except queue.Empty:
            return
        raise AssertionError(f"unexpected {message.topic} {message.payload}")

    def _wait(self, kind):
        while True:
            event = self._events.get(timeout=WAIT_S)
            if event[0] == kind:
                return event


def unique(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def publish_properties(**values):
    properties = Properties(PacketTypes.PUBLISH)
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


def every_qos():
    """A publish at each QoS reaches a subscriber of each QoS, at the lower of the two."""
    for version in BOTH:
        topic = unique("interop/qos")
        for granted in (0, 1, 2):
            with Client(version) as reader, Client(version) as writer:
                reader.subscribe(topic, granted)
                for qos in (0, 1, 2):
                    writer.publish(topic, f"{qos}", qos)
                    message = reader.receive()
                    assert message.payload.decode() == f"{qos}"
                    assert message.qos == min(qos, granted), (message.qos, qos, granted)


def properties_verbatim():
    """User Properties come back complete, in order, repeats kept; so do the other properties."""
    headers = [("b", "2"), ("a", "1"), ("b", "2"), ("7", "\u00fc"), ("", "")]
    for topic in (unique("interop/properties"), f"iot/{unique('paho')}/devices/telemetry/t"):
        with Client(mqtt.MQTTv5) as reader, Client(mqtt.MQTTv5) as writer:
            reader.subscribe(topic, 1)
            sent = publish_properties(
                ContentType="text/plain",
                ResponseTopic="interop/reply",
                CorrelationData=b"\x00\x01\xff",
                PayloadFormatIndicator=1,
            )
            sent.UserProperty = headers
            writer.publish(topic, "payload", properties=sent)
            got = reader.receive().properties
            theirs = [pair for pair in got.UserProperty if not pair[0].startswith("saguin-")]
            assert theirs == headers, theirs
            assert got.ContentType == "text/plain"
            assert got.ResponseTopic == "interop/reply"
            assert got.CorrelationData == b"\x00\x01\xff"
            assert got.PayloadFormatIndicator == 1


def retained():
    """A retained value reaches who subscribes later, with RETAIN, until an empty one removes it."""
    for version in BOTH:
        topic = unique("interop/retained")
        with Client(version) as writer:
            writer.publish(topic, "kept", retain=True)
        with Client(version) as reader:
            reader.subscribe(topic, 1)
            message = reader.receive()
            assert (message.payload, message.retain) == (b"kept", True)
        with Client(version) as writer:
            writer.publish(topic, "", retain=True)
        with Client(version) as reader:
            reader.subscribe(topic, 1)
            reader.nothing()


def will():
    """A Will is published when its connection is cut, and not when the client says goodbye."""
    for version in BOTH:
        topic = unique("interop/will")
        with Client(version) as reader:
            reader.subscribe(topic, 1)
            with Client(version, will=(topic, "gone", 1)):
                pass
            reader.nothing()
            victim = Client(version, will=(topic, "gone", 1))
            victim.__enter__()
            victim.cut()
            assert reader.receive().payload == b"gone"


def away_on_broadcast():
    """A session that outlives its connection is owed what it missed on an ordinary topic."""
    for version in BOTH:
        topic = unique("interop/away")
        client_id = unique("paho-away")
        with Client(version, client_id, durable=True) as reader:
            assert not reader.session_present
            reader.subscribe(topic, 1)
        with Client(version) as writer:
            for number in range(5):
                writer.publish(topic, f"{number}")
        with Client(version, client_id, durable=True) as reader:
            assert reader.session_present
            assert [reader.receive().payload.decode() for _ in range(5)] == list("01234")


def exactly_once():
    """QoS 2 into a log and out of it: each record once, also over a connection that is cut."""
    for version in BOTH:
        topic, client_id = f"iot/{unique('paho')}/devices/telemetry/t", unique("paho-twice")
        with Client(version) as writer:
            reader = Client(version, client_id, durable=True)
            reader.__enter__()
            reader.subscribe(topic, 2)
            for number in range(10):
                writer.publish(topic, f"{number}", 2)
            seen = [reader.receive().payload.decode() for _ in range(5)]
            reader.cut()
            for number in range(10, 15):
                writer.publish(topic, f"{number}", 2)
            reader.back()
            assert reader.session_present
            while len(seen) < 15:
                message = reader.receive()
                assert message.qos == 2
                seen.append(message.payload.decode())
            reader.nothing()
            reader.__exit__()
            assert seen == [f"{number}" for number in range(15)], seen
        with Client(mqtt.MQTTv5) as count:
            count.subscribe(topic, 1)
            assert [count.receive().payload.decode() for _ in range(15)] == seen
            count.nothing()


def shared_group():
    """The members of a group share what is published, each message with one of them."""
    topic = unique("interop/shared")
    five, four = mqtt.MQTTv5, mqtt.MQTTv311
    with Client(five) as one, Client(five) as two, Client(four) as writer:
        one.subscribe(f"$share/group/{topic}", 1)
        two.subscribe(f"$share/group/{topic}", 1)
        for number in range(20):
            writer.publish(topic, f"{number}")
        # Each member gets some, and all of them come, whenever that is.
        seen = [int(member.receive().payload) for member in (one, two)]
        while len(seen) < 20:
            seen.append(int(waiting(one, two).receive().payload))
        assert sorted(seen) == list(range(20)), seen
        one.nothing()
        two.nothing()
        # MQTT 3.1.1 knows no shared subscriptions.
        writer.refused(f"$share/group/{topic}")


def seek():
    """A reader moves its own position, and is told where it stands now, or why not."""
    verb = "$saguin/consumer/events/seek"
    for version in BOTH:
        topic = f"iot/{unique('paho')}/devices/telemetry/t"
        reply = unique("saguin/reply") if version == mqtt.MQTTv5 else f"{verb}/reply"
        with Client(version, unique("paho-seek"), durable=True) as client:
            client.subscribe(topic, 1)
            for number in range(5):
                client.publish(topic, f"{number}")
                assert client.receive().payload.decode() == f"{number}"
            asked = None
            if version == mqtt.MQTTv5:
                asked = publish_properties(ResponseTopic=reply, CorrelationData=b"7")
            client.publish(verb, "-1h", properties=asked)
            answer = client.receive()
            assert answer.topic == reply, answer.topic
            assert answer.payload.isdigit(), answer.payload
            if version == mqtt.MQTTv5:
                assert answer.properties.CorrelationData == b"7"
            assert [client.receive().payload.decode() for _ in range(5)] == list("01234")
            client.nothing()
            client.publish(verb, "nonsense", properties=asked)
            assert client.receive().payload == b"malformed"


def append_replay():
    """A durable consumer gets what it missed, once; a newcomer gets everything, with offsets."""
    for version in BOTH:
        site = unique("paho")
        topic, client_id = f"iot/{site}/devices/telemetry/t", unique("paho-durable")
        with Client(version, client_id, durable=True) as reader, Client(version) as writer:
            reader.subscribe(topic, 1)
            writer.publish(topic, "first")
            assert reader.receive().payload == b"first"
        with Client(version) as writer:
            for number in range(20):
                writer.publish(topic, f"missed {number}")
        with Client(version, client_id, durable=True) as reader:
            assert reader.session_present
            got = [reader.receive().payload.decode() for _ in range(20)]
            assert got == [f"missed {number}" for number in range(20)], got
            reader.nothing()
        with Client(version, client_id, durable=True) as reader:
            reader.nothing()
        with Client(mqtt.MQTTv5) as newcomer:
            newcomer.subscribe(topic, 1)
            replay = [newcomer.receive() for _ in range(21)]
            labels = [dict(message.properties.UserProperty) for message in replay]
            offsets = [int(label["saguin-offset"]) for label in labels]
            assert offsets == sorted(set(offsets)), offsets
            assert len({label["saguin-id"] for label in labels}) == 21
            assert not any(message.retain for message in replay)


def latest_state():
    """A subscriber gets the current value with RETAIN, then each change without."""
    for version in BOTH:
        topic = f"iot/{unique('paho')}/devices/state"
        with Client(version) as writer, Client(version) as reader:
            writer.publish(topic, "old")
            writer.publish(topic, "current")
            reader.subscribe(topic, 1)
            message = reader.receive()
            assert (message.payload, message.retain) == (b"current", True)
            writer.publish(topic, "changed")
            message = reader.receive()
            assert (message.payload, message.retain) == (b"changed", False)


def latest_resume():
    """A viewer that comes back gets what changed meanwhile, once, and nothing else."""
    for version in BOTH:
        site, client_id = unique("paho"), unique("paho-viewer")
        topics = [f"iot/{site}-{each}/devices/state" for each in "abc"]
        with Client(version) as writer:
            for topic in topics:
                writer.publish(topic, "first")
            with Client(version, client_id, durable=True) as reader:
                for topic in topics:
                    reader.subscribe(topic, 1)
                    assert reader.receive().payload == b"first"
            writer.publish(topics[1], "second")
            writer.publish(topics[1], "third")
            with Client(version, client_id, durable=True) as reader:
                message = reader.receive()
                assert (message.topic, message.payload) == (topics[1], b"third")
                reader.nothing()


class Worker(Client):
    def take(self):
        job = self.receive()
        labels = dict(job.properties.UserProperty)
        return job, int(labels["saguin-attempt"])

    def answer(self, job, text):
        correlation = publish_properties(CorrelationData=job.properties.CorrelationData)
        self.publish(job.properties.ResponseTopic, text, properties=correlation)


def queue_jobs():
    """Each job goes to one worker; what is returned is offered again; what is done is gone."""
    site = unique("paho")
    jobs = {f"iot/{site}/work/{number}" for number in range(10)}
    with Worker(mqtt.MQTTv5) as one, Worker(mqtt.MQTTv5) as two, Client(mqtt.MQTTv5) as writer:
        one.subscribe("$saguin/queue/jobs", 1)
        two.subscribe("$saguin/queue/jobs", 1)
        for topic in jobs:
            writer.publish(topic, "do it")
        done = []
        while len(done) < len(jobs):
            held = [(worker, *worker.take()) for worker in (one, two) if len(done) < len(jobs)]
            assert len({job.topic for _, job, _ in held}) == len(held), "one job, two workers"
            for worker, job, attempt in held:
                assert attempt == 1
                done.append(job.topic)
                worker.answer(job, "ack")
        assert sorted(done) == sorted(jobs), done
        one.nothing()
        two.nothing()

        topic = f"iot/{site}/work/again"
        writer.publish(topic, "twice")
        seen = []
        while len(seen) < 2:
            worker = waiting(one, two)
            job, attempt = worker.take()
            assert job.topic == topic
            seen.append(attempt)
            worker.answer(job, "return" if attempt == 1 else "ack")
        assert seen == [1, 2], seen
        one.nothing()
        two.nothing()

    # MQTT 3.1.1 cannot answer an offer, so its SUBSCRIBE is refused.
    with Client(mqtt.MQTTv311) as old:
        old.refused("$saguin/queue/jobs")


def waiting(*clients):
    """The first of the clients that has a message, once one of them has."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        for client in clients:
            if not client.messages.empty():
                return client
        time.sleep(0.01)
    raise AssertionError("none of them got anything")


CHECKS = (
    every_qos,
    properties_verbatim,
    retained,
    will,
    away_on_broadcast,
    exactly_once,
    shared_group,
    seek,
    append_replay,
    latest_state,
    latest_resume,
    queue_jobs,
)

for check in CHECKS:
    if len(sys.argv) == 2 or check.__name__ in sys.argv[2:]:
        check()
        print(f"ok {check.__name__}", flush=True)
# paho's threads may outlive a connection that was cut.
os._exit(0)
