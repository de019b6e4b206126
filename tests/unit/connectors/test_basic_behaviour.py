"""Sequences, generators, printing, collecting."""

from __future__ import annotations

import pickle
import queue

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from penstock.connectors.builtin.collection import CollectionSource
from penstock.connectors.builtin.datagen import DataGeneratorSource, NumberSequenceSource
from penstock.connectors.builtin.discard import DiscardingSink
from penstock.connectors.builtin.driver_output import CollectSink, PrintSink
from penstock.connectors.sink import CommitOutcome, WriterContext
from penstock.connectors.source import EndOfSplit
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import Epoch
from penstock.core.row import Row
from penstock.core.typeinfo import Types
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.data_gen import DataGeneratorSource as FaceGenerator
from penstock.datastream.connectors.number_seq import NumberSequenceSource as FaceSequence


def context(**changes) -> WriterContext:
    values = dict(
        job_name="job", sink_id="sink", subtask=0, parallelism=1, generation=1, restored_epoch=None,
        restored_state=(), checkpointing=True, clock=ManualClock(), to_driver=lambda message: None,
    )  # fmt: skip
    return WriterContext(**{**values, **changes})


def splits(source, parallelism):
    return list(source.create_enumerator(parallelism).discover())


def test_collection_carries_times_and_checks_their_number():
    source = CollectionSource("ab", times=[5, 6])
    batch = source.open_split(splits(source, 4)[0], 1, ManualClock()).poll(10)
    assert batch.rows == ["b"] and batch.times.tolist() == [6]
    with pytest.raises(ConfigError, match="one per value"):
        CollectionSource([1, 2], times=[1])


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7, 20])
def test_sequence_is_divided_without_gap_or_overlap(parallelism):
    source = NumberSequenceSource(3, 12)
    parts = splits(source, parallelism)
    numbers = [n for split in parts for n in range(*split.info)]
    assert numbers == list(range(3, 13))
    assert len(parts) == min(parallelism, 10)
    assert FaceSequence is NumberSequenceSource


def test_sequence_refuses_a_reversed_range():
    with pytest.raises(ConfigError, match="start must not exceed end"):
        NumberSequenceSource(2, 1)


def test_sequence_restored_at_another_parallelism_deals_nothing_again():
    source = NumberSequenceSource(0, 99)
    first = source.create_enumerator(2)
    list(first.discover())
    other = source.create_enumerator(3)
    other.restore(first.snapshot())
    assert list(other.discover()) == []


def test_generator_without_count_is_unbounded_and_interleaves_subtasks():
    source = FaceGenerator(str)
    assert source is not None and not source.bounded and DataGeneratorSource(str, count=1).bounded
    readers = [source.open_split(split, None, ManualClock()) for split in splits(source, 3)]
    assert [reader.poll(2).rows for reader in readers] == [["0", "3"], ["1", "4"], ["2", "5"]]
    assert all(reader.next_poll_ms() is None for reader in readers)


def test_generator_returns_what_is_due_and_says_when_to_come_again():
    clock = ManualClock(1000)
    source = DataGeneratorSource(lambda i: i, rate_per_second=1000)
    reader = source.open_split(splits(source, 1)[0], None, clock)
    assert reader.poll(100).rows == [0]
    assert reader.poll(100) is None
    assert reader.next_poll_ms() == 1001
    clock.advance(1)
    assert reader.poll(100).rows == [1]
    clock.advance(5)
    assert reader.next_poll_ms() is None
    assert reader.poll(3).rows == [2, 3, 4]
    assert reader.poll(100).rows == [5, 6]


def test_generator_shares_the_rate_among_subtasks():
    clock = ManualClock()
    source = DataGeneratorSource(lambda i: i, rate_per_second=100)
    readers = [source.open_split(split, None, clock) for split in splits(source, 4)]
    made = []
    for _ in range(100):
        for reader in readers:
            batch = reader.poll(100)
            made += batch.rows if batch else []
        clock.advance(10)
    assert made == list(range(100))


def test_slow_generator_waits_for_its_turn_and_resumes_without_delay():
    clock = ManualClock()
    source = DataGeneratorSource(lambda i: i, count=4, rate_per_second=0.5)
    split = splits(source, 1)[0]
    reader = source.open_split(split, None, clock)
    assert reader.poll(10).rows == [0] and reader.next_poll_ms() == 2000
    clock.advance(2000)
    assert reader.poll(10).rows == [1]
    restored = source.open_split(split, pickle.loads(pickle.dumps(reader.position())), clock)
    assert restored.poll(10).rows == [2] and restored.next_poll_ms() == 4000
    clock.advance(2000)
    assert restored.poll(10).rows == [3]
    with pytest.raises(EndOfSplit):
        restored.poll(10)


def test_columnar_generator_gets_arrays_and_must_return_a_record_batch():
    source = DataGeneratorSource(lambda i: pa.record_batch({"i": i}), count=10, columns=True)
    batch = source.open_split(splits(source, 2)[1], None, ManualClock()).poll(3)
    assert batch.columns.column("i").to_pylist() == [1, 3, 5]
    wrong = DataGeneratorSource(lambda i: i.tolist(), columns=True)
    with pytest.raises(ConnectorError, match="RecordBatch, not list"):
        wrong.open_split(splits(wrong, 1)[0], None, ManualClock()).poll(1)


@pytest.mark.parametrize("settings", [{"count": -1}, {"rate_per_second": 0}])
def test_generator_refuses_senseless_settings(settings):
    with pytest.raises(ConfigError):
        DataGeneratorSource(str, **settings)


@pytest.mark.parametrize(
    ("identifier", "parallelism", "prefix"),
    [(None, 1, ""), (None, 2, "2> "), ("id", 1, "id> "), ("id", 2, "id:2> ")],
)
def test_print_prefix(identifier, parallelism, prefix, capsys):
    sink = PrintSink(identifier)
    messages: list = []
    writer = sink.create_writer(
        context(subtask=parallelism - 1, parallelism=parallelism, to_driver=messages.append)
    )
    writer.write(Batch.of_rows([1, "zwei"]))
    writer.write(Batch.of_rows([]))
    assert len(messages) == 1
    sink.on_driver_message(messages[0])
    assert capsys.readouterr().out == f"{prefix}1\n{prefix}zwei\n"


def test_print_renders_typed_rows_as_flink_does(capsys):
    sink = PrintSink(type_info=Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()]))
    sink.create_writer(context(to_driver=sink.on_driver_message)).write(
        Batch.of_columns(pa.record_batch({"a": ["x"], "b": [1]}))
    )
    assert capsys.readouterr().out == "+I[x,1]\n"


def test_collect_without_checkpointing_sends_at_once_and_the_queue_stays_on_the_driver():
    received: queue.SimpleQueue = queue.SimpleQueue()
    sink = CollectSink(received)
    shipped = pickle.loads(cloudpickle.dumps(sink))
    writer = shipped.create_writer(context(checkpointing=False, to_driver=sink.on_driver_message))
    writer.write(Batch.of_rows([1, 2]))
    assert [received.get(), received.get()] == [1, 2] and received.empty()
    assert writer.prepare_commit(Epoch(1)) == []


def test_collect_recommit_adds_nothing_and_columns_arrive_as_rows():
    received: queue.SimpleQueue = queue.SimpleQueue()
    sink = CollectSink(received)
    writer = sink.create_writer(context())
    writer.write(Batch.of_columns(pa.record_batch({"n": [7]})))
    prepared = writer.prepare_commit(Epoch(4))
    assert received.empty()
    assert sink.create_committer().commit(prepared) == [CommitOutcome.COMMITTED]
    assert sink.create_committer().commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]
    assert received.get() == Row(n=7) and received.empty()


def test_discarding_sink_counts():
    writer = DiscardingSink().create_writer(context())
    writer.write(Batch.of_rows([1, 2, 3]))
    writer.write(Batch.of_columns(pa.record_batch({"n": np.arange(4)})))
    assert writer.rows == 7


def test_delivery_guarantees():
    assert [g.name for g in DeliveryGuarantee] == ["EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"]
