"""Kafka, JSON in and out: what the engine takes beside the bare clients doing the same work.

    python benchmarks/kafka_json.py [way ...] [--records N] [--repeat R] [--bootstrap HOST:PORT]

The work: read records as JSON, add a field to each, write them as JSON to another topic.  ``in`` only reads
and adds up.  Every run is one process with one thread of work: its processor seconds count from the first
call of a client to the last, with the threads of the clients; imports, broker and the making of topics do
not count.  Ways take turns, ``--repeat`` times.  After every run what was read is checked by its sum, and
what was written by reading it, committed records only: each record must be there once.

* bare: ``confluent_kafka`` and :mod:`json` in a loop; a commit (of offsets, or of a transaction) a second;
* dicts: ``KafkaSource`` with ``Json()``, a function on dicts, ``KafkaSink`` with ``Json()``;
* columns: a ``KafkaSource`` of declared rows, ``map_batches`` on columns, ``KafkaSink`` with ``Json()``.

The engine runs in one process, one slot, a checkpoint a second.  ``alo`` is at least once, ``eos`` exactly
once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PARTITIONS = 4
RATE = 1.19
TIMEOUT_S = 120.0
TIMES = ("in", "alo", "eos")
"""What is measured of each way."""


def record(number: int) -> dict[str, Any]:
    """A record of about ninety bytes."""
    amount = (number * 7919 % 100_000) / 100
    return {"id": number, "user": f"user-{number % 1000}", "amount": amount, "ts": 1_767_225_600_000 + number}


def create(bootstrap: str) -> str:
    """A new topic."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=settings)])[name].result(TIMEOUT_S)
    return name


def fill(bootstrap: str, count: int) -> str:
    """A topic with records."""
    from confluent_kafka import Producer

    topic = create(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "partitioner": "murmur2"})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, json.dumps(record(number)), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0
    return topic


def check(bootstrap: str, topic: str, count: int) -> None:
    """All results are in a topic, once each, where readers of committed records see them."""
    seen = bytearray(count)
    consumer = consumer_of(bootstrap, topic)
    left = count
    while left:
        messages = consumer.consume(10_000, TIMEOUT_S)
        if not messages:
            raise SystemExit(f"{left} of {count} results are missing")
        for message in messages:
            found = json.loads(message.value())
            sent = record(found["id"])
            if found != {**sent, "gross": sent["amount"] * RATE} or seen[found["id"]]:
                raise SystemExit(f"a wrong result, or one that was there before: {found}")
            seen[found["id"]] = 1
            left -= 1
    if consumer.consume(1, 2.0):
        raise SystemExit("there are results beyond those expected")
    consumer.close()


def consumer_of(bootstrap: str, topic: str) -> Any:
    """A consumer of all partitions, from their beginning."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    return consumer


# --- the bare clients ----------------------------------------------------------------------------


def bare(bootstrap: str, source: str, target: str, times: str, count: int) -> int:
    """The loop that one would write without an engine; the sum of what was read."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "delivery.report.only.error": True}
    if times == "eos":
        settings["transactional.id"] = uuid.uuid4().hex
    consumer = consumer_of(bootstrap, source)
    producer = None if times == "in" else Producer(settings)
    if producer is not None and times == "eos":
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
    total, left, due = 0, count, time.monotonic() + 1
    while left:
        messages = consumer.consume(min(left, 10_000), 1.0)
        for message in messages:
            found = json.loads(message.value())
            total += found["id"]
            if producer is not None:
                found["gross"] = found["amount"] * RATE
                _produce(producer, target, json.dumps(found).encode(), message.timestamp()[1])
        left -= len(messages)
        if producer is not None:
            producer.poll(0)
        if time.monotonic() >= due or not left:
            _commit(consumer, producer, times, last=not left)
            due = time.monotonic() + 1
    consumer.close()
    return total


def _produce(producer: Any, target: str, value: bytes, timestamp: int) -> None:
    while True:
        try:
            producer.produce(target, value, timestamp=timestamp)
            return
        except BufferError:
            producer.poll(0.05)


def _commit(consumer: Any, producer: Any, times: str, last: bool) -> None:
    if producer is not None and times == "eos":
        places = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        if not last:
            producer.begin_transaction()
        return
    if producer is not None:
        producer.flush(TIMEOUT_S)
    consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=False)


# --- the engine ----------------------------------------------------------------------------------


def dicts(bootstrap: str, source: str, target: str, times: str, count: int) -> int:
    """Python objects."""
    from penstock.connectors.log import Json

    def grossed(found: dict[str, Any]) -> dict[str, Any]:
        found["gross"] = found["amount"] * RATE
        return found

    return engine(bootstrap, source, target, times, Json(), lambda stream: stream.map(grossed))


def columns(bootstrap: str, source: str, target: str, times: str, count: int) -> int:
    """Arrow columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from penstock.common import Types
    from penstock.datastream.formats.json import JsonRowDeserializationSchema

    names = ["id", "user", "amount", "ts"]
    kinds: list[Any] = [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.LONG()]
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(names, kinds)).build()

    def grossed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("gross", pc.multiply(batch.column("amount"), RATE))

    return engine(bootstrap, source, target, times, schema, lambda stream: stream.map_batches(grossed))


def engine(
    bootstrap: str, source: str, target: str, times: str, schema: Any, work: Callable[[Any], Any]
) -> int:
    """A job in this process; the sum of what was read, where that is all it does."""
    from penstock.common import Configuration, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_parallelism(1).enable_checkpointing(1000)
    builder = KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(source)
    builder.set_group_id(uuid.uuid4().hex).set_bounded(KafkaOffsetsInitializer.latest())
    builder.set_value_only_deserializer(schema)
    stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "records").uid("records")
    ids = id_sink()
    if times == "in":
        stream.sink_to(ids)
    else:
        work(stream).sink_to(kafka_sink(bootstrap, target, times))
    with tempfile.TemporaryDirectory() as checkpoints:
        env.get_checkpoint_config().set_checkpoint_storage_dir(checkpoints)
        env.execute("bench-kafka")
    return int(ids.total)


def kafka_sink(bootstrap: str, target: str, times: str) -> Any:
    from penstock.connectors.log import Json
    from penstock.datastream.connectors.kafka import (
        DeliveryGuarantee,
        KafkaRecordSerializationSchema,
        KafkaSink,
    )

    schema = KafkaRecordSerializationSchema.builder().set_topic(target)
    schema.set_value_serialization_schema(Json())
    builder = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(schema.build())
    if times == "eos":
        builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        builder.set_transactional_id_prefix(uuid.uuid4().hex)
    else:
        builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    return builder.build()


def id_sink() -> Any:
    """A sink that adds up the numbers of records."""
    from penstock.connectors.sink import Sink, SinkWriter

    class Writer(SinkWriter):
        def __init__(self, context: Any) -> None:
            self.context, self.total = context, 0

        def write(self, batch: Any) -> None:
            if batch.is_columnar:
                self.total += int(batch.columns.column("id").to_numpy().sum())
            else:
                self.total += sum([row["id"] for row in batch.to_rows()])

        def flush(self, end_of_input: bool) -> None:
            if end_of_input:
                self.context.to_driver(self.total)

    class Ids(Sink):
        total = 0

        def create_writer(self, context: Any) -> SinkWriter:
            return Writer(context)

        def on_driver_message(self, message: Any) -> None:
            self.total += message

    return Ids()


WAYS: dict[str, Callable[[str, str, str, str, int], int]] = {"bare": bare, "dicts": dicts, "columns": columns}


def one(way: str, times: str, bootstrap: str, source: str, target: str, count: int) -> None:
    """Run once in this process and print its processor seconds."""
    import gc

    import confluent_kafka  # noqa: F401

    import penstock.connectors.log
    import penstock.datastream.connectors.kafka
    import penstock.datastream.formats.json  # noqa: F401
    from penstock.testing.local import local_cluster

    gc.set_threshold(200_000, 20, 50)  # as a slot has it
    with local_cluster(slots=1):
        began, wall = time.process_time(), time.monotonic()
        total = WAYS[way](bootstrap, source, target, times, count)
        took, wall = time.process_time() - began, time.monotonic() - wall
    if total != count * (count - 1) // 2 and (times == "in" or way == "bare"):
        raise SystemExit(f"wrong result of {way} {times}: the sum is {total}")
    print(json.dumps([took, wall]))


@contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The broker that was named, or one of our own."""
    if bootstrap:
        yield bootstrap
        return
    from penstock.testing.servers import KafkaServer

    if reason := KafkaServer.why_not():
        raise SystemExit(reason)
    with KafkaServer() as server:
        yield server.bootstrap


def timed(way: str, times: str, bootstrap: str, source: str, count: int) -> tuple[float, float]:
    """Processor seconds and seconds of one run, in a process of its own; its results are checked."""
    target = create(bootstrap)
    more = ["--one", way, times, bootstrap, source, target, str(count)]
    done = subprocess.run([sys.executable, __file__, *more], stdout=subprocess.PIPE, check=True)
    took, wall = json.loads(done.stdout.splitlines()[-1])
    if times != "in":
        check(bootstrap, target, count)
    return took, wall


def measure(args: argparse.Namespace, bootstrap: str) -> None:
    source = fill(bootstrap, args.records)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(args.repeat):
        for times in args.times or TIMES:
            for way in args.ways or WAYS:
                took, wall = timed(way, times, bootstrap, source, args.records)
                found.setdefault((way, times), []).append((took, wall))
                print(f"{way} {times}: {took / args.records * 1e6:.2f} processor s per million", flush=True)
    print(f"\n{args.records:,} records, the best of {args.repeat}")
    print(f"{'way':<10}{'':<6}{'CPU s/M':>9}{'records/s':>12}{'of bare':>9}")
    for (way, times), runs in found.items():
        took, wall = (min(figures) for figures in zip(*runs, strict=True))
        ratio = ""
        if ("bare", times) in found:
            ratio = f"{took / min(bare for bare, _ in found['bare', times]):>9.2f}"
        per_million = took / args.records * 1e6
        print(f"{way:<10}{times:<6}{per_million:>9.2f}{args.records / wall:>12,.0f}{ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ways", nargs="*", choices=[[], *WAYS])
    parser.add_argument("--times", nargs="*", choices=TIMES)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        way, times, bootstrap, source, target, count = args.one
        one(way, times, bootstrap, source, target, int(count))
        return
    with broker(args.bootstrap) as bootstrap:
        measure(args, bootstrap)


if __name__ == "__main__":
    main()
