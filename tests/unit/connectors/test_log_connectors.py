"""The log as source and sink of a job: exactly once through restarts, rescales and fresh starts."""

import itertools
import json
import pickle
from enum import Enum

import pyarrow as pa
import pytest

from penstock.connectors.log import (
    Consumer,
    Json,
    Log,
    LogOffsets,
    LogSink,
    LogSource,
    Producer,
    Raw,
    Text,
)
from penstock.connectors.log.source import PartitionRange
from penstock.connectors.sink import CommitOutcome, DeliveryGuarantee, WriterContext
from penstock.connectors.source import EndOfSplit, Split
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock, SystemClock
from penstock.core.errors import ConfigError, ConnectorError, PositionGoneError
from penstock.core.ids import MIN_TIME
from penstock.core.keygroups import hash_value
from penstock.testing.conformance import SinkConformance, SourceConformance

CLOCK = ManualClock(1000)


def _values(root, name="t"):
    with Consumer(Log(root).topic(name)) as consumer:
        return [v for _, batch in consumer.poll(100_000) for v in batch.column("value").to_pylist()]


class TestLogSourceConformance(SourceConformance):
    def make_source(self, directory):
        topic = Log(directory).create_topic("t", partitions=2, segment_bytes=1500)
        with Producer(topic) as producer:
            for i in range(0, 40, 4):
                values = [b"%d" % n for n in range(i, i + 4)]
                producer.send_many(values, timestamps=range(i, i + 4), partition=i // 4 % 2)
        return LogSource(directory, "t", Text(), end=LogOffsets.latest())

    def expected(self):
        frames = [[str(n) for n in range(i, i + 4)] for i in range(0, 40, 4)]
        return [*itertools.chain(*frames[::2]), *itertools.chain(*frames[1::2])]


class TestLogSinkConformance(SinkConformance):
    def make_sink(self, directory):
        Log(directory).create_topic("t", partitions=2, segment_bytes=700)
        return LogSink(directory, "t", Json())

    def visible(self, sink, directory):
        return [int(value) for value in _values(directory)]

    def leftovers(self, directory):
        return list(directory.glob("t/*/pending/*"))


def _open(source, position=None, index=0):
    splits = list(source.create_enumerator(1).discover())
    return source.open_split(splits[index], position, CLOCK)


def test_a_bounded_source_stops_where_the_topic_ended_when_it_started(tmp_path):
    topic = Log(tmp_path).create_topic("t")
    producer = Producer(topic)
    producer.send_many([b"1", b"2", b"3"], timestamps=[5, 6, 7])
    source = LogSource(tmp_path, "t", Raw(), end=LogOffsets.latest())
    assert source.bounded
    split = next(iter(source.create_enumerator(4).discover()))
    producer.send_many([b"4"])
    reader = source.open_split(pickle.loads(pickle.dumps(split)), None, CLOCK)
    batch = reader.poll(100)
    assert batch.rows == [b"1", b"2", b"3"] and batch.times.tolist() == [5, 6, 7]
    with pytest.raises(EndOfSplit):
        reader.poll(100)
    assert reader.position() == 3
    producer.close()


def test_an_unbounded_source_waits_and_goes_on(tmp_path):
    producer = Producer(Log(tmp_path).create_topic("t"))
    source = LogSource(tmp_path, "t", Text())
    assert not source.bounded
    reader = _open(source)
    assert reader.poll(10) is None
    producer.send_many([b"a"])
    assert reader.poll(10).rows == ["a"]
    assert reader.poll(10) is None
    producer.close()
    reader.close()


def test_start_positions_count_only_without_a_restored_one(tmp_path):
    with Producer(Log(tmp_path).create_topic("t")) as producer:
        producer.send_many([b"%d" % i for i in range(10)], timestamps=range(0, 100, 10))
    for start, first in [
        (LogOffsets.timestamp(45), "5"),
        (LogOffsets.offsets({0: 8}), "8"),
        (LogOffsets.earliest(), "0"),
    ]:
        source = LogSource(tmp_path, "t", Text(), start=start)
        assert _open(source).poll(1).rows == [first]
        assert _open(source, position=3).poll(1).rows == ["3"]
    assert _open(LogSource(tmp_path, "t", Text(), start=LogOffsets.latest())).poll(1) is None


def test_the_source_overtaken_by_retention(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1, retention_bytes=1)
    with Producer(topic) as producer:
        for i in range(6):
            producer.send_many([b"%d" % i])
    with pytest.raises(ConnectorError, match="on_truncated"):
        _open(LogSource(tmp_path, "t", Text()), position=1).poll(10)
    reader = _open(LogSource(tmp_path, "t", Text(), on_truncated="earliest"), position=1)
    assert reader.poll(10).rows == ["4", "5"] and reader.position() == 6
    bounded = LogSource(tmp_path, "t", Text(), end=LogOffsets.offsets({0: 3}), on_truncated="earliest")
    reader = _open(bounded, position=1)
    assert reader.poll(10) is None
    with pytest.raises(EndOfSplit):
        reader.poll(10)


class _Skip:
    def deserialize(self, value):
        return None if value == b"skip" else value


def test_records_that_a_schema_skips_take_their_times_along(tmp_path):
    with Producer(Log(tmp_path).create_topic("t")) as producer:
        producer.send_many([b"a", b"skip", b"b"], timestamps=[1, 2, 3])
        producer.send_many([b"skip"])
    reader = _open(LogSource(tmp_path, "t", _Skip()))
    batch = reader.poll(3)
    assert batch.rows == [b"a", b"b"] and batch.times.tolist() == [1, 3]
    assert reader.poll(3) is None and reader.position() == 4


def test_a_bad_record_is_named_by_partition_and_offset(tmp_path):
    topic = Log(tmp_path).create_topic("t", partitions=2)
    with Producer(topic) as producer:
        producer.send_many([b'{"a":1}', b'{"a":2}', b'{"a":'], partition=1)
    reader = _open(LogSource(tmp_path, "t", Json(pa.schema([("a", pa.int64())]))), index=1)
    assert reader.poll(1).columns.to_pylist() == [{"a": 1}]
    with pytest.raises(ConnectorError, match=r"topic 't' partition 1, offset 2: malformed JSON .*\{\"a\":"):
        reader.poll(10)
    assert reader.position() == 1


def _context(subtask=0, generation=1, restored=None, parallelism=1):
    return WriterContext(
        "job", "sink", subtask, parallelism, generation, restored, (), True, CLOCK, lambda _: None
    )


def _epoch(writer, epoch, *values):
    if values:
        writer.write(Batch.of_rows(list(values)))
    writer.flush(False)
    prepared = writer.prepare_commit(epoch)
    writer.snapshot(epoch)
    return pickle.loads(pickle.dumps(prepared))


def test_a_fresh_start_after_deleted_checkpoints_can_commit(tmp_path):
    Log(tmp_path).create_topic("t")
    sink = LogSink(tmp_path, "t", Raw())
    for life in (b"first", b"second"):
        writer = sink.create_writer(_context())
        committer = sink.create_committer()
        for epoch in (1, 2, 3):
            assert committer.commit(_epoch(writer, epoch, life)) == [CommitOutcome.COMMITTED]
        writer.close()
    assert _values(tmp_path) == [b"first"] * 3 + [b"second"] * 3


def test_going_back_to_an_old_savepoint_can_commit_the_same_epochs_anew(tmp_path):
    Log(tmp_path).create_topic("t")
    sink = LogSink(tmp_path, "t", Raw())
    committer = sink.create_committer()
    writer = sink.create_writer(_context())
    first = _epoch(writer, 1, b"kept")
    committer.commit(first)
    committer.commit(_epoch(writer, 2, b"old timeline"))
    back = sink.create_writer(_context(generation=2, restored=1))
    assert committer.commit(first) == [CommitOutcome.ALREADY_COMMITTED]
    assert committer.commit(_epoch(back, 2, b"new timeline")) == [CommitOutcome.COMMITTED]
    assert _values(tmp_path) == [b"kept", b"old timeline", b"new timeline"]


@pytest.mark.parametrize("before, after", [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("committed", [True, False])
def test_a_restart_at_another_parallelism_repeats_no_commit(tmp_path, before, after, committed):
    Log(tmp_path).create_topic("t", partitions=2)
    sink = LogSink(tmp_path, "t", Text())
    writers = [sink.create_writer(_context(i, parallelism=before)) for i in range(before)]
    published = [c for i, w in enumerate(writers) for c in _epoch(w, 1, f"a{i}", f"b{i}")]
    if committed:
        sink.create_committer().commit(published)
    for i, writer in enumerate(writers):
        _epoch(writer, 2, f"lost{i}")
    restarted = [sink.create_writer(_context(i, 2, 1, after)) for i in range(after)]
    outcomes = sink.create_committer().commit(published)
    wanted = CommitOutcome.ALREADY_COMMITTED if committed else CommitOutcome.COMMITTED
    assert set(outcomes) == {wanted}
    later = [c for i, w in enumerate(restarted) for c in _epoch(w, 3, f"c{i}")]
    sink.create_committer().commit(published + later)
    expected = [f"{x}{i}" for i in range(before) for x in "ab"] + [f"c{i}" for i in range(after)]
    assert sorted(v.decode() for v in _values(tmp_path)) == sorted(expected)
    assert list(tmp_path.glob("t/*/pending/*")) == []


def test_a_large_epoch_goes_through_spool_files_and_is_one_frame(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.connectors.log.sink._SPOOL_BYTES", 200)
    Log(tmp_path).create_topic("t")
    sink = LogSink(tmp_path, "t", Raw())
    writer = sink.create_writer(_context())
    for i in range(50):
        writer.write(Batch.of_rows([b"%d" % i] * 3, times=[i, i, i]))
    assert len(list(tmp_path.glob("t/0/pending/*.open"))) == 1
    prepared = _epoch(writer, 1)
    assert len(prepared) == 1 and prepared[0].records == 150
    sink.create_committer().commit(prepared)
    assert _values(tmp_path) == [b"%d" % i for i in range(50) for _ in range(3)]
    reader = Log(tmp_path).topic("t").reader(0)
    assert reader.offset_for_timestamp(20) == 60


def test_keys_decide_the_partition_and_times_are_kept(tmp_path):
    topic = Log(tmp_path).create_topic("t", partitions=3)
    columns = pa.record_batch({"user": [f"u{i % 5}" for i in range(30)], "n": list(range(30))})
    rows = [{"user": f"u{i % 5}", "n": i} for i in range(30)]
    batches = [Batch.of_columns(columns), Batch.of_rows(rows, times=[7, MIN_TIME] * 15)]
    for key, batch in itertools.product(["user", lambda row: row["user"]], batches):
        sink = LogSink(tmp_path, "t", Json(), key=key, guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
        writer = sink.create_writer(_context())
        writer.write(batch)
        writer.flush(True)
        writer.close()
    with Consumer(topic) as consumer:
        for partition, batch in consumer.poll(1000):
            assert all(hash_value(key) % 3 == partition for key in batch.column("key").to_pylist())
            assert set(batch.column("timestamp").to_pylist()) == {7, 1000}
    assert topic.describe().records == 120
    numbers = LogSink(tmp_path, "t", Json(), key="n").create_writer(_context())
    numbers.write(batches[0])
    with pytest.raises(ConnectorError, match="'nobody' is not among the records' columns: user, n"):
        LogSink(tmp_path, "t", Json(), key="nobody").create_writer(_context()).write(batches[0])


class _OtherEnum(Enum):
    AT_LEAST_ONCE = 1
    NONE = 2


def test_at_least_once_appends_at_once_and_needs_no_committer(tmp_path):
    Log(tmp_path).create_topic("t")
    sink = LogSink(tmp_path, "t", Text(), guarantee=_OtherEnum.AT_LEAST_ONCE)
    assert sink.create_committer() is None
    writer = sink.create_writer(_context())
    writer.write(Batch.of_rows(["a"]))
    assert _values(tmp_path) == [b"a"]
    assert _epoch(writer, 1, "b") == []
    assert _values(tmp_path) == [b"a", b"b"]
    with pytest.raises(ConfigError, match="not NONE"):
        LogSink(tmp_path, "t", Text(), guarantee=_OtherEnum.NONE)


def test_check_wants_the_topic(tmp_path):
    with pytest.raises(ConnectorError, match="penstock topic create t"):
        LogSink(tmp_path, "t", Raw()).check()
    with pytest.raises(ConnectorError, match="penstock topic create t"):
        LogSource(tmp_path, "t", Raw()).create_enumerator(1)


def test_a_topic_made_anew_is_another_topic(tmp_path, caplog):
    """Also if it holds more records than the job has read."""
    log = Log(tmp_path)
    with Producer(log.create_topic("t")) as producer:
        producer.send_many([b"old"] * 3)
    strict, lenient = (LogSource(tmp_path, "t", Text(), on_truncated=way) for way in ("error", "earliest"))
    [split] = strict.create_enumerator(1).discover()
    log.delete_topic("t")
    with Producer(log.create_topic("t")) as producer:
        producer.send_many([b"new %d" % i for i in range(5)])
    with pytest.raises(PositionGoneError, match="made anew: the job was at offset 2"):
        strict.open_split(split, 2, SystemClock())
    reader = lenient.open_split(split, 2, SystemClock())
    assert reader.poll(2).to_rows() == ["new 0", "new 1"] and "DATA LOSS" in caplog.text
    position = pickle.loads(pickle.dumps(reader.position()))
    for source in (lenient, strict):
        again = source.open_split(split, position, SystemClock())
        assert again.poll(9).to_rows() == ["new 2", "new 3", "new 4"]


def test_topics_and_snapshots_of_older_versions_have_no_ids(tmp_path):
    topic = Log(tmp_path).create_topic("t")
    with Producer(topic) as producer:
        producer.send_many([b"a", b"b"])
    part = object.__new__(PartitionRange)
    part.__setstate__([0, 0, None])
    reader = LogSource(tmp_path, "t", Text()).open_split(Split("t-0", part), 1, SystemClock())
    assert reader.poll(9).to_rows() == ["b"] and reader.position() == 2
    meta = topic.path / "meta.json"
    meta.write_text(json.dumps({k: v for k, v in json.loads(meta.read_text()).items() if k != "id"}))
    source = LogSource(tmp_path, "t", Text())
    [split] = source.create_enumerator(1).discover()
    assert source.open_split(split, 1, SystemClock()).poll(9).to_rows() == ["b"]
