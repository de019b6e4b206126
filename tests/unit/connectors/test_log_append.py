"""Topics, producers, many processes at once, rolling and retention."""

import multiprocessing
import os
import signal

import numpy as np
import pyarrow as pa
import pytest

from penstock.connectors.log import CorruptLogError, HashPartitioner, Log, OffsetTruncatedError, Producer
from penstock.core.clock import ManualClock, SystemClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.keygroups import hash_value


def _read_all(topic, partition=0, **options):
    reader = topic.reader(partition, **options)
    batch = reader.read(reader.start_offset(), 1_000_000)
    reader.close()
    return batch


def test_topics_are_created_listed_described_and_deleted(tmp_path):
    log = Log(tmp_path / "deep" / "root")
    assert log.topics() == []
    log.create_topic("b", partitions=2, retention_ms=5)
    log.create_topic("a.x-1_2")
    assert log.topics() == ["a.x-1_2", "b"]
    assert log.topic("b").partitions == 2 and log.topic("b").limits.retention_ms == 5
    described = log.describe("b")
    assert [p.end_offset for p in described.partitions] == [0, 0] and described.records == 0
    log.delete_topic("b")
    assert log.topics() == ["a.x-1_2"]
    assert sorted(p.name for p in log.root.iterdir()) == ["a.x-1_2"]


def test_a_deleted_topic_is_told_to_those_at_work(tmp_path):
    topic = Log(tmp_path).create_topic("t")
    producer, reader = Producer(topic), topic.reader(0)
    producer.send_many([b"a"])
    assert reader.read(0, 1).num_rows == 1
    Log(tmp_path).delete_topic("t")
    with pytest.raises(ConnectorError, match="topic was deleted"):
        reader.read(1, 1)
    with pytest.raises(ConnectorError, match="cannot write to the log partition"):
        producer.send_many([b"b"])
    producer.close()


def test_a_missing_topic_says_what_is_there_and_what_to_do(tmp_path):
    log = Log(tmp_path)
    log.create_topic("orders")
    with pytest.raises(ConnectorError) as error:
        log.topic("order")
    message = str(error.value)
    assert str(tmp_path) in message and "orders" in message and "penstock topic create order" in message
    with pytest.raises(ConnectorError, match="exists already"):
        log.create_topic("orders")
    assert log.topics() == ["orders"]


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "a b", "ä", "x" * 201, "a\n"])
def test_bad_names_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="no topic name"):
        Log(tmp_path).create_topic(name)


def test_bad_settings_are_refused(tmp_path):
    log = Log(tmp_path)
    with pytest.raises(ConfigError, match="at least one partition"):
        log.create_topic("t", partitions=0)
    with pytest.raises(ConfigError, match="segment_bytes"):
        log.create_topic("t", segment_bytes=0)
    with pytest.raises(ConfigError, match="local file system"):
        Log("s3://bucket/log")
    log.create_topic("t")
    (tmp_path / "t" / "meta.json").write_text("{")
    with pytest.raises(CorruptLogError, match="meta.json"):
        log.topic("t")


def test_records_come_back_as_they_were_sent(tmp_path):
    topic = Log(tmp_path).create_topic("t")
    with Producer(topic, clock=ManualClock(77)) as producer:
        producer.send(b"a", key=b"k", timestamp=-5)
        producer.send(b"")
        producer.send_many([b"x", b"y"], keys=[None, b"\xff"], timestamps=np.array([1, 2]))
        producer.send_many(pa.array(["text"]))
    assert _read_all(topic).to_pylist() == [
        {"offset": 0, "timestamp": -5, "key": b"k", "value": b"a"},
        {"offset": 1, "timestamp": 77, "key": None, "value": b""},
        {"offset": 2, "timestamp": 1, "key": None, "value": b"x"},
        {"offset": 3, "timestamp": 2, "key": b"\xff", "value": b"y"},
        {"offset": 4, "timestamp": 77, "key": None, "value": b"text"},
    ]
    with Producer(topic) as producer:
        producer.send_many([])
        with pytest.raises(ConnectorError, match="needs a value"):
            producer.send_many([b"x", None])
        with pytest.raises(ConnectorError, match="bytes or text"):
            producer.send_many([1, 2])
        with pytest.raises(ConnectorError, match="there is no 3"):
            producer.send(b"x", partition=3)
        with pytest.raises(ConnectorError, match="there is no -1"):
            producer.send_many([b"x"], partition=-1)
    assert _read_all(topic).num_rows == 5


def test_equal_keys_share_a_partition_and_keyless_records_take_turns(tmp_path):
    topic = Log(tmp_path).create_topic("t", partitions=3)
    with Producer(topic, batch_records=10) as producer:
        for i in range(300):
            producer.send(b"%d" % i, key=b"key%d" % (i % 20))
        producer.send(b"pinned", key=b"key1", partition=2)
    for partition in range(3):
        batch = _read_all(topic, partition)
        pairs = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
        kept = [(k, v) for k, v in pairs if v != b"pinned"]
        assert all(hash_value(key) % 3 == partition for key, _ in kept)
        assert [int(v) for _, v in kept] == sorted(int(v) for _, v in kept)
    assert _read_all(topic, 2).column("value").to_pylist()[-1] == b"pinned"
    turns = HashPartitioner()
    none = pa.nulls(4, pa.binary())
    assert np.concatenate([turns(none, 3), turns(none, 3)]).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    mixed = turns(pa.array([None, b"k", None], pa.binary()), 3)
    assert mixed.tolist() == [2, hash_value(b"k") % 3, 0]


def test_own_partitioner(tmp_path):
    topic = Log(tmp_path).create_topic("t", partitions=2)
    with Producer(topic, partitioner=lambda keys, n: np.full(len(keys), n - 1)) as producer:
        producer.send_many([b"a", b"b"])
    assert [p.end_offset for p in topic.describe().partitions] == [0, 2]


def _produce(root, name, count, frame):
    with Producer(Log(root).topic("t")) as producer:
        for start in range(0, count, frame):
            producer.send_many(
                [b"%s:%d" % (name, i) for i in range(start, start + frame)], keys=[name] * frame
            )


@pytest.mark.slow
def test_many_processes_append_at_once(tmp_path):
    topic = Log(tmp_path).create_topic("t", partitions=2, segment_bytes=20_000)
    context = multiprocessing.get_context("spawn")
    names = [b"p%d" % i for i in range(4)]
    workers = [context.Process(target=_produce, args=(tmp_path, name, 600, 4)) for name in names]
    for worker in workers:
        worker.start()
    live = topic.reader(0)
    seen = 0
    while any(worker.is_alive() for worker in workers):
        seen += live.read(seen, 50).num_rows
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    found = []
    for partition in range(2):
        batch = _read_all(topic, partition)
        assert batch.column("offset").to_pylist() == list(range(batch.num_rows))
        found += batch.column("value").to_pylist()
    while (batch := live.read(seen, 1000)).num_rows:
        seen += batch.num_rows
    assert seen == topic.describe().partitions[0].end_offset
    for name in names:
        mine = [value for value in found if value.startswith(name + b":")]
        assert mine == [b"%s:%d" % (name, i) for i in range(600)]
    assert topic.describe().partitions[0].segments > 2


def _die_in_append(root):
    writer = Log(root).topic("t").writer(0)
    with writer.locked():
        os.pwrite(writer._fd, b"PSLF torn", os.fstat(writer._fd).st_size)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_writer_gives_up_the_lock_and_its_torn_write(tmp_path):
    topic = Log(tmp_path).create_topic("t")
    with Producer(topic) as producer:
        producer.send_many([b"a"])
        worker = multiprocessing.get_context("spawn").Process(target=_die_in_append, args=(tmp_path,))
        worker.start()
        worker.join()
        assert worker.exitcode == -signal.SIGKILL
        producer.send_many([b"b"])
    assert _read_all(topic).column("value").to_pylist() == [b"a", b"b"]


def test_two_writers_of_one_process_take_turns_over_rolls(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1500)
    first, second = Producer(topic), Producer(topic)
    for i in range(20):
        (first if i % 3 else second).send_many([b"%d" % i])
    assert _read_all(topic).column("value").to_pylist() == [b"%d" % i for i in range(20)]
    first.close()
    second.close()


def test_retention_by_size_keeps_at_least_that_much_and_the_active_segment(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1, retention_bytes=1000)
    with Producer(topic) as producer:
        for i in range(10):
            producer.send_many([b"%d" % i])
    described = topic.describe().partitions[0]
    assert 1000 <= described.bytes < 2000 and described.end_offset == 10
    start = described.start_offset
    assert start > 5
    assert _read_all(topic).column("offset").to_pylist() == list(range(start, 10))
    with pytest.raises(OffsetTruncatedError, match=f"deleted everything before {start}"):
        topic.reader(0).read(2, 10)
    assert topic.reader(0, "earliest").read(2, 10).column("offset").to_pylist() == list(range(start, 10))


def test_retention_by_age_counts_from_the_last_append(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1, retention_ms=60_000)
    with Producer(topic) as producer:
        for i in range(4):
            producer.send_many([b"%d" % i], timestamps=[i])
    assert topic.apply_retention() == 0
    later = ManualClock(SystemClock().now_ms() + 120_000)
    assert topic.apply_retention(later) == 3
    assert topic.describe().partitions[0].start_offset == 3
    assert topic.apply_retention(later) == 0


def test_a_writer_whose_segment_was_deleted_goes_on(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1, retention_bytes=1)
    slow = Producer(topic)
    slow.send_many([b"0"])
    with Producer(topic) as quick:
        for i in range(1, 5):
            quick.send_many([b"%d" % i])
    slow.send_many([b"5"])
    slow.close()
    assert topic.describe().partitions[0].end_offset == 6
    assert _read_all(topic).column("value").to_pylist()[-1] == b"5"


def test_a_full_disk_leaves_no_half_frame(tmp_path, monkeypatch):
    topic = Log(tmp_path).create_topic("t")
    producer = Producer(topic)
    producer.send_many([b"a"])
    real = os.pwritev

    def full(fd, parts, position):
        real(fd, [memoryview(parts[0])[:10]], position)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(ConnectorError, match="No space left"):
            producer.send_many([b"b"])
    producer.send_many([b"c"])
    producer.close()
    assert _read_all(topic).column("value").to_pylist() == [b"a", b"c"]
