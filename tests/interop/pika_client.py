"""Debian's python3-pika against a broker. Arguments: AMQP port, scenario, MQTT port.

Prints what happened, a line each; the test knows what it should be."""

import subprocess
import sys
import threading
import time

import pika

PORT = int(sys.argv[1])
SCENARIO = sys.argv[2]
MQTT_PORT = sys.argv[3]
PARAMETERS = pika.ConnectionParameters("127.0.0.1", PORT)
LASTING = pika.BasicProperties(delivery_mode=2, content_type="text/plain")


def connect():
    connection = pika.BlockingConnection(PARAMETERS)
    return connection, connection.channel()


def drain(channel, queue):
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body.decode())


def exchanges():
    connection, channel = connect()
    print("product", connection._impl.server_properties["product"])
    channel.exchange_declare("orders", exchange_type="direct")
    for queue, key in [("q.paid", "paid"), ("q.refund", "refunded")]:
        channel.queue_declare(queue)
        channel.queue_bind(queue, "orders", routing_key=key)
    orders = [
        ("paid", "order-1001"),
        ("refunded", "order-0999"),
        ("paid", "order-1002"),
        ("cancelled", "order-1003"),
    ]
    for key, body in orders:
        channel.basic_publish("orders", key, body)
    channel.exchange_declare("cache-bust", exchange_type="fanout")
    for queue in ("node-a", "node-b", "node-c"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, "cache-bust")
    channel.basic_publish("cache-bust", "ignored", "invalidate:/products/42")
    channel.exchange_declare("logs", exchange_type="topic")
    patterns = {"all-errors": "*.error", "eu-everything": "eu.#", "eu-west-db": "eu.west.db.*"}
    for queue, pattern in patterns.items():
        channel.queue_declare(queue)
        channel.queue_bind(queue, "logs", routing_key=pattern)
    keys = ["api.error", "eu.west.db.error", "eu.west.db.slow", "eu", "us.east.api.info"]
    for key in keys:
        channel.basic_publish("logs", key, key)
    for queue in ("q.paid", "q.refund", "node-a", "node-b", "node-c", *patterns):
        print(queue, *drain(channel, queue))
    connection.close()


def confirms():
    connection, channel = connect()
    channel.confirm_delivery()
    channel.queue_declare("jobs")
    channel.basic_publish("", "jobs", "resize:img-1.png")
    print("confirmed")
    try:
        channel.basic_publish("", "no-such-queue", "lost?", mandatory=True)
    except pika.exceptions.UnroutableError as error:
        [returned] = error.messages
        print("unroutable", returned.method.reply_code, returned.method.reply_text, returned.body.decode())
    for settle in (lambda tag: channel.basic_nack(tag, requeue=True), channel.basic_ack):
        method, _, body = channel.basic_get("jobs")
        print("got", body.decode(), "redelivered", method.redelivered)
        settle(method.delivery_tag)
    print("left", *drain(channel, "jobs"))
    try:
        channel.exchange_declare("hdr", exchange_type="headers")
    except pika.exceptions.ChannelClosedByBroker as error:
        print("refused", error.reply_text)
    connection.close()


def compete(prefetch):
    """Twelve jobs, a worker of 50 ms and one of 500 ms."""
    queue = f"work-{prefetch}"
    setup, channel = connect()
    channel.queue_declare(queue, durable=True)
    done = {"fast": [], "slow": []}
    ready = threading.Barrier(3)
    stop = threading.Event()

    def worker(name, cost):
        connection, channel = connect()
        if prefetch > 0:
            channel.basic_qos(prefetch_count=prefetch)

        def on_message(channel, method, _properties, body):
            time.sleep(cost)
            done[name].append(body.decode())
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue, on_message)
        ready.wait()
        while not stop.is_set():
            connection.process_data_events(time_limit=0.05)
        connection.close()

    threads = [
        threading.Thread(target=worker, args=("fast", 0.05)),
        threading.Thread(target=worker, args=("slow", 0.5)),
    ]
    for thread in threads:
        thread.start()
    ready.wait()
    for number in range(1, 13):
        channel.basic_publish("", queue, f"job-{number:02}", LASTING)
    deadline = time.time() + 20
    while len(done["fast"]) + len(done["slow"]) < 12 and time.time() < deadline:
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    setup.close()
    return done


def workers():
    fair = compete(0)
    print("unlimited", len(fair["fast"]), len(fair["slow"]))
    odd = [f"job-{number:02}" for number in range(1, 13, 2)]
    even = [f"job-{number:02}" for number in range(2, 13, 2)]
    print("in turn", sorted(fair.values()) == [odd, even])
    by_capacity = compete(1)
    print("prefetch 1", 8 <= len(by_capacity["fast"]) <= 11, 1 <= len(by_capacity["slow"]) <= 4)
    print("all once", sorted(by_capacity["fast"] + by_capacity["slow"]) == [f"job-{n:02}" for n in range(1, 13)])


def durable_before():
    connection, channel = connect()
    channel.confirm_delivery()
    channel.queue_declare("invoices", durable=True)
    channel.queue_declare("scratch")
    for number in (1, 2, 3):
        channel.basic_publish("", "invoices", f"invoice-{number}", LASTING)
    channel.basic_publish("", "invoices", "draft", pika.BasicProperties(delivery_mode=1))
    channel.basic_publish("", "scratch", "scribble", LASTING)
    print("confirmed", 5)


def durable_after():
    connection, channel = connect()
    while True:
        method, properties, body = channel.basic_get("invoices")
        if method is None:
            break
        print(body.decode(), method.redelivered, properties.content_type, properties.delivery_mode)
        channel.basic_ack(method.delivery_tag)
    try:
        channel.queue_declare("scratch", passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        print("scratch", error.reply_code)
    connection.close()


def measure(topic, payload):
    """A QoS 1 publish, and what the client says of its PUBACK."""
    arguments = ["-h", "127.0.0.1", "-p", MQTT_PORT, "-i", "probe", "-q", "1", "-t", topic, "-m", payload, "-d"]
    said = subprocess.run(
        ["mosquitto_pub", *arguments], check=True, timeout=20, stdout=subprocess.PIPE, text=True
    ).stdout
    print(*[line for line in said.splitlines() if "PUBACK" in line])


def bind_alerts():
    connection, channel = connect()
    channel.queue_declare("temp-alerts", durable=True)
    channel.queue_bind("temp-alerts", "amq.topic", routing_key="sensors.*.temp")
    connection.close()


def take_alerts(count):
    connection, channel = connect()
    channel.basic_qos(prefetch_count=10)
    taken = []

    def on_message(channel, method, properties, body):
        taken.append(body)
        print(method.exchange, method.routing_key, properties.delivery_mode, body.decode())
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume("temp-alerts", on_message)
    deadline = time.time() + 10
    while len(taken) < count and time.time() < deadline:
        connection.process_data_events(time_limit=0.1)
    connection.close()


def crossing():
    bind_alerts()
    measure("sensors/boiler/temp", '{"value": 91.5, "unit": "C"}')
    measure("sensors/boiler/pressure", '{"value": 2.1, "unit": "bar"}')
    take_alerts(1)
    listener = subprocess.Popen(
        ["mosquitto_sub", "-h", "127.0.0.1", "-p", MQTT_PORT, "-t", "devices/+/cmd", "-v", "-C", "1", "-W", "15"],
        stdout=subprocess.PIPE,
        text=True,
    )
    connection, channel = connect()
    channel.confirm_delivery()
    while listener.poll() is None:
        channel.basic_publish("amq.topic", "devices.valve7.cmd", '{"open": false}', LASTING)
        time.sleep(0.2)
    print(listener.stdout.read().strip())
    connection.close()


def hardest_before():
    bind_alerts()
    for value in ("92.8", "95.1"):
        measure("sensors/boiler/temp", f'{{"value": {value}, "unit": "C"}}')


def hardest_after():
    take_alerts(2)


{
    "exchanges": exchanges,
    "confirms": confirms,
    "workers": workers,
    "durable_before": durable_before,
    "durable_after": durable_after,
    "crossing": crossing,
    "hardest_before": hardest_before,
    "hardest_after": hardest_after,
}[SCENARIO]()
