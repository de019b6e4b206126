"""Reading by offset and by time, tailing, and being overtaken by retention."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.log import Consumer, Log, LogOffsets, OffsetTruncatedError, Producer
from penstock.core.errors import ConfigError, ConnectorError


def _fill(topic, frames):
    """Append frames of timestamps; the value of a record is its number."""
    number = 0
    with Producer(topic) as producer:
        for times in frames:
            values = [b"%d" % i for i in range(number, number + len(times))]
            producer.send_many(values, timestamps=times, partition=0)
            number += len(times)


@pytest.mark.parametrize("segment_bytes", [1, 1200, 1 << 20])
def test_every_offset_and_size_gives_the_same_records(tmp_path, segment_bytes):
    topic = Log(tmp_path).create_topic("t", segment_bytes=segment_bytes)
    _fill(topic, [[0], [0, 0, 0], [0, 0], [0] * 5, [0]])
    reader = topic.reader(0)
    for offset in range(13):
        for size in (1, 2, 5, 100):
            batch = reader.read(offset, size)
            expected = list(range(offset, min(12, offset + size)))
            assert batch.column("offset").to_pylist() == expected
            assert [int(v) for v in batch.column("value").to_pylist()] == expected
    with pytest.raises(ConnectorError, match="the partition ends at 12"):
        reader.read(13, 1)
    reader.close()


def test_an_empty_topic_can_be_tailed_from_the_start(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1)
    reader = topic.reader(0)
    assert (reader.start_offset(), reader.end_offset(), reader.offset_for_timestamp(5)) == (0, 0, 0)
    seen = []
    for i in range(5):
        assert reader.read(i, 10).num_rows == 0
        _fill(topic, [[i]])
        seen += reader.read(i, 10).column("timestamp").to_pylist()
        assert reader.end_offset() == i + 1
    assert seen == [0, 1, 2, 3, 4]
    reader.close()


def test_tailing_reads_no_old_bytes(tmp_path, monkeypatch):
    topic = Log(tmp_path).create_topic("t")
    _fill(topic, [[0] * 1000] * 20)
    reader = topic.reader(0)
    assert reader.read(0, 100_000).num_rows == 20_000
    real, read = os.pread, []

    def counting(fd, length, position):
        found = real(fd, length, position)
        read.append(len(found))
        return found

    monkeypatch.setattr(os, "pread", counting)
    assert reader.read(20_000, 10).num_rows == 0
    assert sum(read) == 0
    _fill(topic, [[7]])
    read.clear()
    assert reader.read(20_000, 10).column("timestamp").to_pylist() == [7]
    assert sum(read) < 1000
    reader.close()


@settings(max_examples=15, deadline=None)
@given(
    frames=st.lists(st.lists(st.integers(-20, 20), min_size=1, max_size=5), max_size=6),
    segment_bytes=st.sampled_from([1, 900, 1 << 20]),
)
def test_offset_for_timestamp_is_the_first_record_at_or_after(tmp_path_factory, frames, segment_bytes):
    topic = Log(tmp_path_factory.mktemp("log")).create_topic("t", segment_bytes=segment_bytes)
    _fill(topic, frames)
    times = [time for frame in frames for time in frame]
    reader = topic.reader(0)
    for wanted in range(-21, 23):
        expected = next((i for i, time in enumerate(times) if time >= wanted), len(times))
        assert reader.offset_for_timestamp(wanted) == expected
    reader.close()


def test_a_slow_reader_overtaken_by_retention_is_told_or_moves_on(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1, retention_bytes=500)
    _fill(topic, [[0]])
    strict, lenient = topic.reader(0), topic.reader(0, "earliest")
    for reader in (strict, lenient):
        assert reader.read(0, 1).num_rows == 1
    _fill(topic, [[i] for i in range(1, 9)])
    start = strict.start_offset()
    assert start > 2
    with pytest.raises(OffsetTruncatedError):
        for _ in range(3):
            strict.read(1, 10)
    assert lenient.read(1, 10).column("offset").to_pylist() == list(range(start, 9))


def test_a_reader_of_an_empty_topic_overtaken_by_retention_is_told(tmp_path):
    topic = Log(tmp_path).create_topic("t", segment_bytes=1, retention_bytes=1)
    reader = topic.reader(0)
    assert reader.read(0, 1).num_rows == 0
    _fill(topic, [[i] for i in range(5)])
    with pytest.raises(OffsetTruncatedError):
        reader.read(0, 1)


def test_consumers_are_independent_and_start_where_told(tmp_path):
    topic = Log(tmp_path).create_topic("t", partitions=2)
    with Producer(topic) as producer:
        for partition in range(2):
            producer.send_many(
                [b"%d" % i for i in range(10)], timestamps=np.arange(10) * 100, partition=partition
            )
    places = {
        "earliest": (LogOffsets.earliest(), [0, 0]),
        "latest": (LogOffsets.latest(), [10, 10]),
        "time": (LogOffsets.timestamp(250), [3, 3]),
        "exact": (LogOffsets.offsets({1: 7, 0: 4}), [4, 7]),
    }
    for start, expected in places.values():
        with Consumer(topic, start) as consumer:
            assert consumer.positions == expected
            found = {partition: batch.num_rows for partition, batch in consumer.poll(3)}
            assert found == {p: min(3, 10 - e) for p, e in enumerate(expected) if e < 10}
            while consumer.poll(3):
                pass
            assert consumer.positions == [10, 10]
    with pytest.raises(ConfigError, match="give one for each"):
        Consumer(topic, LogOffsets.offsets({0: 1}))
