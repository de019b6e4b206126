"""Positions that a Kafka partition no longer has: the job fails with the range, or goes on if told to."""

from __future__ import annotations

import logging
import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from flow_graphs import read_text, text_file_sink
from local_jobs import environment, finish, until

from penstock.common import WatermarkStrategy
from penstock.common.job_client import JobClient
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.enumerator import PartitionRange
from penstock.connectors.source import EndOfSplit, OnTruncated, SplitReader
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, ConnectorError, JobFailedError, PositionGoneError
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSourceBuilder,
)
from penstock.testing.local import local_cluster
from tests.kafka_kit import TIMEOUT_S, TestTopic, splits_of
from tests.patience import PATIENCE_S


@pytest.fixture
def topic(kafka_server: Any) -> TestTopic:
    return TestTopic(kafka_server.bootstrap)


def reader_at(builder: KafkaSourceBuilder, position: int | None) -> SplitReader:
    source = builder.build()
    [split] = splits_of(source)
    return source.open_split(split, position, SystemClock())


def take(reader: SplitReader, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        batch = reader.poll(10)
        found += batch.to_rows() if batch is not None else []
    return found


STARTS = [
    KafkaOffsetsInitializer.earliest(),
    KafkaOffsetsInitializer.latest(),
    KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST),
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.kind.value)
def test_a_restored_position_that_is_gone_is_an_error_with_the_range(
    topic: TestTopic, start: KafkaOffsetsInitializer
) -> None:
    """However the source was told to begin: that was long ago."""
    topic.send([f"{i}" for i in range(10)])
    topic.delete_before(6)
    reader = reader_at(topic.source().set_group_id("nobody").set_starting_offsets(start), 2)
    with pytest.raises(PositionGoneError, match=r"partition 0.* records 2 to 5 were deleted.*earliest"):
        take(reader, 1)
    reader.close()


def test_a_reader_that_is_overtaken_fails_too(topic: TestTopic) -> None:
    topic.send([f"{i}" for i in range(3)])
    reader = reader_at(topic.source(), None)
    assert take(reader, 3) == ["0", "1", "2"]
    consumer, here = reader._feed._consumer, TopicPartition(topic.name, 0, 3)  # type: ignore[attr-defined]
    consumer.incremental_unassign([here])  # or it would fetch them before they go
    topic.send([f"{i}" for i in range(3, 9)])
    topic.delete_before(7)
    consumer.incremental_assign([here])
    with pytest.raises(PositionGoneError, match="records 3 to 6 were deleted"):
        take(reader, 1)
    reader.close()


def test_going_on_is_a_setting_and_is_told(topic: TestTopic, caplog: pytest.LogCaptureFixture) -> None:
    topic.send([f"{i}" for i in range(10)])
    topic.delete_before(6)
    reader = reader_at(topic.source().set_on_truncated("earliest"), 2)
    with caplog.at_level(logging.ERROR, "penstock.kafka"):
        assert take(reader, 4) == ["6", "7", "8", "9"]
    assert reader.position() == 10
    assert "DATA LOSS" in caplog.text and "records 2 to 5" in caplog.text
    reader.close()


def test_a_first_start_takes_what_is_there(topic: TestTopic, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing was read yet, and the job wants everything: what went in between is no loss."""
    topic.send([f"{i}" for i in range(10)])
    source = topic.source().build()
    [split] = splits_of(source)
    topic.delete_before(6)
    reader = source.open_split(split, None, SystemClock())
    assert take(reader, 4) == ["6", "7", "8", "9"]
    assert "DATA LOSS" not in caplog.text
    reader.close()


def test_a_partition_that_ends_before_the_position(topic: TestTopic) -> None:
    topic.send([f"{i}" for i in range(5)])
    reader = reader_at(topic.source(), 7)
    with pytest.raises(PositionGoneError, match="at offset 7, and the partition ends at 5: it was made anew"):
        take(reader, 1)
    reader.close()
    reader = reader_at(topic.source().set_on_truncated("earliest"), 7)
    assert take(reader, 5) == ["0", "1", "2", "3", "4"]
    reader.close()


def test_gaps_are_no_loss(topic: TestTopic) -> None:
    """Compaction and aborted transactions leave holes; a position in one is where the next record is."""
    topic.send(["0"])
    topic.transaction([(0, "aborted"), (0, "too")], commit=False)
    topic.send(["4"])
    reader = reader_at(topic.source(), 2)
    assert take(reader, 1) == ["4"]
    reader.close()


def test_the_setting_is_checked_and_may_be_a_property() -> None:
    def old(way: str) -> Any:
        return FlinkKafkaConsumer(
            "t", SimpleStringSchema(), {"bootstrap.servers": "b:1", "on.truncated": way}
        )

    assert old("earliest").source._on_truncated is OnTruncated.EARLIEST
    with pytest.raises(ConfigError, match='takes "error" or "earliest", not \'latest\''):
        old("latest").source  # noqa: B018


def test_a_topic_made_anew_is_another_topic(topic: TestTopic) -> None:
    """Also if it holds more records than the job has read."""
    topic.send([f"old {i}" for i in range(3)])
    states = {}
    for way in ("error", "earliest"):
        enumerator = topic.source().set_on_truncated(way).build().create_enumerator(1)
        [old] = enumerator.discover()
        states[way] = pickle.dumps((old, enumerator.snapshot()))
    topic.make_anew()
    topic.send([f"new {i}" for i in range(5)])
    strict = topic.source().build().create_enumerator(1)
    strict.restore(pickle.loads(states["error"])[1])
    with pytest.raises(PositionGoneError, match=f"{topic.name}' was deleted and made anew.*new uid"):
        strict.discover()

    source = topic.source().set_on_truncated("earliest").build()
    old, state = pickle.loads(states["earliest"])
    lenient = source.create_enumerator(1)
    lenient.restore(state)
    [new] = lenient.discover()
    after = source.create_enumerator(1)
    after.restore(pickle.loads(pickle.dumps(lenient.snapshot())))
    assert not list(lenient.discover()) and not list(after.discover())
    assert new.id != old.id
    with pytest.raises(EndOfSplit):
        source.open_split(old, 3, SystemClock()).poll(1)
    reader = source.open_split(new, None, SystemClock())
    assert take(reader, 5) == [f"new {i}" for i in range(5)]
    reader.close()
    again = source.open_split(new, 2, SystemClock())
    assert take(again, 3) == [f"new {i}" for i in range(2, 5)]
    again.close()


def test_a_topic_made_anew_under_a_running_job_starts_it_over(topic: TestTopic) -> None:
    running = topic.source().set_on_truncated("earliest").build().create_enumerator(1)
    assert list(running.discover())
    topic.make_anew()
    with pytest.raises(ConnectorError, match="starts over with it"):
        running.discover()


def test_snapshots_of_older_versions_know_no_ids(topic: TestTopic) -> None:
    source = topic.source().build()
    enumerator = source.create_enumerator(1)
    [split] = enumerator.discover()
    older = source.create_enumerator(1)
    older.restore((True, [split.id]))
    assert not list(older.discover())
    part = object.__new__(PartitionRange)
    part.__setstate__([topic.name, 0, 0, None])
    assert part.topic_id is None and replace(part, start=1).start == 1
    assert pickle.loads(pickle.dumps(split)) == split


def test_a_job_fails_at_once_and_goes_on_when_told_to(topic: TestTopic, tmp_path: Path) -> None:
    """Its strategy would start it again and again; that could not bring the records back."""
    topic.send([f"{i}" for i in range(5)])

    def begin(savepoint: str | None, way: str) -> JobClient:
        more = {} if savepoint is None else {"execution__savepoint__path": savepoint}
        env = environment(tmp_path / "chk", **more).set_parallelism(1)
        source = topic.source().set_on_truncated(way).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
        stream.sink_to(text_file_sink(tmp_path / "out")).uid("out")
        return env.execute_async("gone")

    def arrived(count: int) -> None:
        until(lambda: len(read_text(tmp_path / "out")) >= count, "all has arrived")

    with local_cluster(slots=1) as launcher:
        client = begin(None, "error")
        arrived(5)
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "sp")).result(PATIENCE_S)
        topic.send([f"{i}" for i in range(5, 10)])
        topic.delete_before(8)
        with pytest.raises(JobFailedError, match="records 5 to 7 were deleted before they were read"):
            finish(begin(savepoint, "error"))
        assert launcher.jobs[-1].driver.restarts == 0
        client = begin(savepoint, "earliest")
        arrived(7)
        client.cancel().result()
    assert read_text(tmp_path / "out") == ["0", "1", "2", "3", "4", "8", "9"]
