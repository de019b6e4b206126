"""The sending side: when buffers are flushed, what goes behind what, and where the bound is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.batch import Batch
from penstock.core.ids import ChannelId, EdgeId, Epoch, EventTime, SubtaskIndex
from penstock.core.signals import ACTIVE, END_OF_INPUT, IDLE, Barrier, Watermark
from penstock.exchange.channel import InputChannel, LocalSender, element_bytes
from penstock.exchange.outputs import OutputEdge
from penstock.exchange.partition import Broadcast, Global, Partitioning, Rebalance, make_router


def edge(
    receivers: int, spec: Partitioning, enough: int, limit: int = 1 << 20
) -> tuple[OutputEdge, list[InputChannel]]:
    channels = [
        InputChannel(ChannelId(EdgeId(0), SubtaskIndex(0), SubtaskIndex(n))) for n in range(receivers)
    ]
    senders = {n: LocalSender(channel, limit) for n, channel in enumerate(channels)}
    return OutputEdge(make_router(spec, 0, 1, receivers, 128), senders, enough), channels


def drain(channel: InputChannel) -> list[Any]:
    found: list[Any] = []
    while len(channel):
        element = channel.take()
        found.append(element.to_rows() if isinstance(element, Batch) else element)
    return found


def test_a_buffer_goes_out_when_it_is_large_enough() -> None:
    out, (channel,) = edge(1, Global(), 3)
    out.emit(Batch.of_rows([1]))
    out.emit(Batch.of_rows([2]))
    assert drain(channel) == []
    out.emit(Batch.of_rows([3, 4]))
    assert drain(channel) == [[1, 2, 3, 4]]
    out.emit(Batch.of_rows([5]))
    assert drain(channel) == []


def test_a_flush_sends_what_is_there_once() -> None:
    out, (channel,) = edge(1, Global(), 100)
    assert not out.flush()
    out.emit(Batch.of_rows([]))
    assert not out.flush()
    out.emit(Batch.of_rows([1]))
    assert out.flush() and not out.flush()
    assert drain(channel) == [[1]]


def test_a_receiver_that_waits_gets_what_there_is_and_a_busy_one_does_not() -> None:
    out, (busy, waiting) = edge(2, Rebalance(), 100)
    busy.put(Batch.of_rows(["before"]), 1)
    out.emit(Batch.of_rows([1, 2]))
    assert out.flush_waiting() and not out.flush_waiting()
    found = drain(waiting)
    assert found in ([[1]], [[2]]) and len(busy) == 1
    assert busy.take().to_rows() == ["before"]  # type: ignore[union-attr]
    assert out.flush_waiting() and not out.flush_waiting() and not out.flush()
    assert drain(busy) == [[3 - found[0][0]]]


def test_what_is_for_everybody_waits_until_everybody_does() -> None:
    out, (busy, waiting) = edge(2, Broadcast(), 100)
    busy.put(Batch.of_rows(["before"]), 1)
    out.emit(Batch.of_rows([1]))
    assert not out.flush_waiting() and not len(waiting)
    busy.take()
    assert out.flush_waiting()
    assert drain(waiting) == drain(busy) == [[1]]


def test_signals_go_behind_the_data_on_every_channel() -> None:
    out, channels = edge(2, Rebalance(), 100)
    out.emit(Batch.of_rows([1, 2, 3]))
    out.watermark(EventTime(5))
    out.emit(Batch.of_rows([4]))
    out.broadcast(Barrier(Epoch(1)))
    out.idle(True)
    out.idle(False)
    out.broadcast(END_OF_INPUT)
    first, second = map(drain, channels)
    assert first == [[1, 3], Watermark(EventTime(5)), Barrier(Epoch(1)), IDLE, ACTIVE, END_OF_INPUT]
    assert second == [[2], Watermark(EventTime(5)), [4], Barrier(Epoch(1)), IDLE, ACTIVE, END_OF_INPUT]


def test_global_sends_signals_to_those_without_data_too() -> None:
    out, channels = edge(2, Global(), 100)
    out.emit(Batch.of_rows([1]))
    out.broadcast(Barrier(Epoch(1)))
    assert [drain(channel) for channel in channels] == [[[1], Barrier(Epoch(1))], [Barrier(Epoch(1))]]


def test_layouts_are_not_mixed_in_one_buffer() -> None:
    out, (channel,) = edge(1, Global(), 100)
    out.emit(Batch.of_rows(["row"]))
    out.emit(Batch.of_columns(pa.record_batch({"a": [1]})))
    out.emit(Batch.of_columns(pa.record_batch({"a": [2]}), np.array([7])))
    out.emit(Batch.of_columns(pa.record_batch({"b": [3]})))
    out.flush()
    batches = []
    while len(channel):
        batches.append(channel.take())
    assert [batch.is_columnar for batch in batches] == [False, True, True]
    assert batches[1].columns.column("a").to_pylist() == [1, 2] and batches[1].times.tolist()[1] == 7


def test_a_channel_is_writable_below_its_bound_and_signals_always_pass() -> None:
    batch = Batch.of_columns(pa.record_batch({"a": pa.array(range(10), pa.int64())}))
    size = element_bytes(batch)
    assert size >= 80
    out, channels = edge(2, Rebalance(), 1, limit=size)
    assert out.writable()
    out.emit(batch)
    assert out.writable()
    out.emit(batch)
    out.emit(batch)
    assert not out.writable()
    out.broadcast(Barrier(Epoch(1)))
    queued = [channel.queued_bytes for channel in channels]
    assert all(0 < bytes_queued < 2 * size for bytes_queued in queued)
    for channel in channels:
        drain(channel)
        assert channel.queued_bytes == 0
    assert out.writable()


def test_an_empty_batch_and_a_signal_count_what_they_should() -> None:
    assert element_bytes(Batch.of_rows([])) == 1
    assert element_bytes(END_OF_INPUT) == 0


def test_a_channel_tells_when_it_gets_something_and_when_something_is_taken() -> None:
    channel = InputChannel(ChannelId(EdgeId(0), SubtaskIndex(0), SubtaskIndex(0)))
    calls: list[Any] = []
    channel.on_ready(lambda: calls.append("ready"))
    channel.on_consumed(calls.append)
    channel.put(Batch.of_rows([1]), 64)
    channel.put(END_OF_INPUT, 0)
    channel.take()
    channel.take()
    channel.put(END_OF_INPUT, 0)
    assert calls == ["ready", 64, "ready"]


def test_a_record_for_everybody_leaves_all_buffers_at_once() -> None:
    """A receiver in the slot may change it; one elsewhere must not get what is made of it."""
    channels = [InputChannel(ChannelId(EdgeId(0), SubtaskIndex(0), SubtaskIndex(n))) for n in range(2)]
    senders = {0: LocalSender(channels[0], 400_000), 1: LocalSender(channels[1], 300_000)}
    out = OutputEdge(make_router(Broadcast(), 0, 1, 2, 128), senders, 8192)
    for n in range(200):
        out.emit(Batch.of_rows([[n, "x" * 7000]]))
        first, second = (sum(len(batch) for batch in channel) for channel in channels)
        assert first == second
