"""The Kafka source against a real broker: what it delivers, from where, and when it ends."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.common import Types
from penstock.connectors.source import Source
from penstock.core.clock import SystemClock
from penstock.core.ids import MIN_TIME
from penstock.datastream.connectors.kafka import (
    KafkaRecord,
    KafkaRecordDeserializationSchema,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.testing.conformance import SourceConformance
from tests.kafka_kit import T0, TestTopic, read_all, read_split, splits_of
from tests.patience import PATIENCE_S


class _KafkaConformance(SourceConformance):
    @pytest.fixture(autouse=True)
    def _use_server(self, kafka_server: Any) -> None:
        self.topic = TestTopic(kafka_server.bootstrap, partitions=2)


class TestPlain(_KafkaConformance):
    def make_source(self, directory: Path) -> Source:
        self.topic.send((f"a{i}" for i in range(17)), partition=0)
        self.topic.send((f"b{i}" for i in range(5)), partition=1)
        return self.topic.bounded().build()

    def expected(self) -> list[Any]:
        return [f"a{i}" for i in range(17)] + [f"b{i}" for i in range(5)]


class TestTransactions(_KafkaConformance):
    def make_source(self, directory: Path) -> Source:
        for number in range(6):
            values = [(i % 2, f"{number}-{i}") for i in range(4)]
            self.topic.transaction(values, commit=number % 3 != 2)
        return self.topic.bounded().build()

    def expected(self) -> list[Any]:
        kept = [0, 1, 3, 4]
        return [f"{n}-{i}" for part in (0, 1) for n in kept for i in range(part, 4, 2)]


class TestJsonColumns(_KafkaConformance):
    def make_source(self, directory: Path) -> Source:
        self.topic.send(f'{{"a": {i}, "b": "x{i}"}}' for i in range(20))
        return self.topic.bounded().set_value_only_deserializer(json_schema()).build()


def json_schema() -> JsonRowDeserializationSchema:
    kind = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    return JsonRowDeserializationSchema.builder().type_info(kind).build()


@pytest.fixture
def topic(kafka_server: Any) -> TestTopic:
    return TestTopic(kafka_server.bootstrap)


def test_typed_json_comes_as_columns_with_the_records_times(topic: TestTopic) -> None:
    topic.send([b'{"a": 1, "b": "x"}', b'{"a": 2}'], times=[T0 + 5, T0 + 3])
    source = topic.bounded().set_value_only_deserializer(json_schema()).build()
    [split] = splits_of(source)
    reader = source.open_split(split, None, SystemClock())
    batch = None
    while batch is None:
        batch = reader.poll(100)
    reader.close()
    assert batch.columns.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert np.array_equal(batch.times, [T0 + 5, T0 + 3])
    assert source.produced_type() == json_schema().get_produced_type()


class WithEverything(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaRecord) -> Any:
        return None if record.key == b"skip" else record


def test_a_record_schema_sees_all_there_is_to_a_message(topic: TestTopic) -> None:
    topic.send([b"v"], key=b"k", headers=[("h", b"1"), ("h", None)])
    topic.send([b"unwanted"], key=b"skip")
    topic.send([None], key=b"gone", times=[T0 + 7])
    source = topic.bounded().set_deserializer(WithEverything()).build()
    assert read_all(source) == [
        KafkaRecord(topic.name, 0, 0, T0, b"k", b"v", (("h", b"1"), ("h", None))),
        KafkaRecord(topic.name, 0, 2, T0 + 7, b"gone", None, ()),
    ]


def test_messages_without_a_value_are_no_records_for_a_value_schema(topic: TestTopic) -> None:
    topic.send(["a", None, "b", None])
    assert read_all(topic.bounded().build()) == ["a", "b"]


def test_a_bounded_read_ends_though_its_last_offsets_were_aborted(topic: TestTopic) -> None:
    topic.transaction([(0, "kept")], commit=True)
    topic.transaction([(0, "aborted")] * 20, commit=False)
    source = topic.bounded().build()
    [split] = splits_of(source)
    assert split.info.stop == 23  # a record, 20 aborted ones, and a marker behind each transaction
    assert read_split(source, split) == ["kept"]


def test_a_bounded_read_of_nothing_but_aborted_records_ends(topic: TestTopic) -> None:
    topic.transaction([(0, "aborted")] * 3, commit=False)
    assert read_all(topic.bounded().build()) == []


def test_a_bounded_read_stops_before_later_records_and_open_transactions(topic: TestTopic) -> None:
    topic.send(["a", "b"])
    source = topic.bounded().build()
    [split] = splits_of(source)
    topic.send(["later"])
    left_open = topic.begin([(0, "open")])
    assert read_split(source, split) == ["a", "b"]
    now = topic.bounded().build()
    assert read_all(now) == ["a", "b", "later"]
    left_open.abort_transaction(10)


def test_uncommitted_records_are_read_on_demand(topic: TestTopic) -> None:
    left_open = topic.begin([(0, "open")])
    uncommitted = topic.bounded().set_property("isolation.level", "read_uncommitted").build()
    assert read_all(uncommitted) == ["open"]
    assert read_all(topic.bounded().build()) == []
    left_open.abort_transaction(10)


def test_partitions_of_one_task_share_a_consumer_and_each_gets_its_own(kafka_server: Any) -> None:
    topic = TestTopic(kafka_server.bootstrap, partitions=8)
    for partition in range(8):
        topic.send((f"{partition}:{i}" for i in range(50)), partition)
    source = topic.bounded().build()
    splits = splits_of(source)
    readers = {split.id: source.open_split(split, None, SystemClock()) for split in splits}
    assert len(source._feeds) == 1
    # Nobody asks for partition 0: its records must neither be lost nor stand in the way of the others.
    found = {split.id: [] for split in splits}
    held = splits[0].id
    others = [split.id for split in splits[1:]]
    deadline = time.monotonic() + PATIENCE_S
    while any(len(found[name]) < 50 for name in others) and time.monotonic() < deadline:
        for name in others:
            if len(found[name]) < 50:
                batch = readers[name].poll(7)
                found[name] += batch.to_rows() if batch is not None else []
    while len(found[held]) < 50 and time.monotonic() < deadline:
        batch = readers[held].poll(7)
        found[held] += batch.to_rows() if batch is not None else []
    for reader in readers.values():
        reader.close()
    assert all(f.is_closed for f in source._feeds)
    assert found == {split.id: [f"{i}:{j}" for j in range(50)] for i, split in enumerate(splits)}


def test_a_lane_that_nobody_empties_is_paused_and_resumed(kafka_server: Any) -> None:
    topic = TestTopic(kafka_server.bootstrap, partitions=2)
    topic.send([f"0:{i}" for i in range(3000)], 0)
    topic.send([f"1:{i}" for i in range(3000)], 1)
    source = topic.bounded().build()
    slow, quick = (source.open_split(split, None, SystemClock()) for split in splits_of(source))
    found: dict[Any, list[Any]] = {slow: [], quick: []}
    for reader in (quick, slow):
        deadline = time.monotonic() + PATIENCE_S
        while len(found[reader]) < 3000 and time.monotonic() < deadline:
            batch = reader.poll(10)
            found[reader] += batch.to_rows() if batch is not None else []
    slow.close()
    quick.close()
    assert found[quick] == [f"1:{i}" for i in range(3000)]
    assert found[slow] == [f"0:{i}" for i in range(3000)]


def test_messages_without_a_timestamp_have_no_event_time(topic: TestTopic) -> None:
    topic.send(["a"], times=[T0])
    source = topic.bounded().build()
    [split] = splits_of(source)
    reader = source.open_split(split, None, SystemClock())
    while (batch := reader.poll(1)) is None:
        pass
    assert batch.time_list() == [T0] != [MIN_TIME]
