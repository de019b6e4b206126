"""A record, a timer or a watermark that makes very many results: they leave as there is room, exactly."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from bounds_rig import LIMIT, Line
from task_rig import OUT, Collect

from penstock.core.batch import Batch
from penstock.core.documents import load
from penstock.core.errors import UserCodeError
from penstock.core.ids import Epoch, EventTime
from penstock.core.messages import AbortSnapshot, SnapshotAck, TaskFinished, TriggerSnapshot
from penstock.core.signals import SnapshotKind
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.exchange.channel_state import decode
from penstock.operators.functions import KeyedProcessFunction
from penstock.operators.process import KeyedProcessOperator
from penstock.operators.stateless import FlatMapOperator, MapOperator
from penstock.state.descriptors import ValueStateDescriptor

MADE: list[Any] = []
"""What generators have yielded so far."""
MANY = 5000
WIDTH = 100
SLACK = 300 * WIDTH
"""A piece while nothing is known of the size of results."""


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    MADE.clear()


def many(row: str) -> Iterator[str]:
    for n in range(MANY):
        MADE.append(n)
        yield f"{row}{n:0{WIDTH}}"


def tidy(row: str) -> Iterator[str]:
    try:
        yield from many(row)
    finally:
        MADE.append("ended")


def all_of(row: str) -> list[str]:
    return [f"{row}{n:0{WIDTH}}" for n in range(MANY)]


def rows() -> list[Any]:
    return [row for row in OUT if row != "finish"]


def test_one_record_makes_no_more_results_than_there_is_room_for() -> None:
    rig = Line(lambda: FlatMapOperator(many))
    rig.give("a", "b")
    rig.work()
    assert 0 < len(MADE) * WIDTH < LIMIT + SLACK, "the generator waits"
    assert rig.slot.held_bytes() < 3 * (LIMIT + SLACK)
    rig.run()
    assert rows() == all_of("a") + all_of("b")


def test_a_list_of_results_leaves_in_pieces_too() -> None:
    rig = Line(lambda: FlatMapOperator(all_of))
    rig.give("a", "b")
    rig.work()
    assert 0 < rig.queued_text() < LIMIT + SLACK
    rig.run()
    assert rows() == all_of("a") + all_of("b")


def test_results_that_the_next_step_makes_large_count_as_large() -> None:
    rig = Line(lambda: FlatMapOperator(lambda row: range(MANY)), lambda: MapOperator(lambda n: "x" * 5000))
    rig.give("a")
    rig.work()
    assert rig.queued_text() < LIMIT + 300 * 5000
    before = rig.queued_text()
    for _ in range(3):
        rig.tasks[-1].step()
        rig.work(5)
    assert rig.queued_text() < before, "by now it is known how large they are"
    rig.run()
    assert len(rows()) == MANY


def test_steps_behind_one_another_that_both_make_many() -> None:
    def some(row: str) -> Iterator[str]:
        for n in range(300):
            yield f"{row}-{n}"

    rig = Line(
        lambda: FlatMapOperator(some),
        lambda: FlatMapOperator(some),
        lambda: FlatMapOperator(lambda r: (r, r)),
    )
    rig.give("a")
    rig.work()
    assert rig.queued_text() < LIMIT + SLACK
    rig.run(10_000)
    wanted = [f"a-{n}-{m}" for n in range(300) for m in range(300) for _ in range(2)]
    assert rows() == wanted


class PerKey(KeyedProcessFunction):
    """Yields lazily, looking at key, time and state each time."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for n in range(MANY):
            count = (self.seen.value() or 0) + 1
            self.seen.update(count)
            yield f"{ctx.get_current_key()} {ctx.timestamp()} {count}".ljust(WIDTH)


def test_key_time_and_state_are_those_of_the_record_when_it_goes_on() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[1])
    rig = Line(lambda: KeyedProcessOperator(PerKey()), key=lambda row: row[0], strategy=strategy)
    rig.give(("a", 1), ("b", 2), ("a", 3))
    rig.work()
    assert rig.queued_text() < LIMIT + SLACK
    rig.run()
    found = [row.split() for row in rows()]
    assert [key for key, _, _ in found] == ["a"] * MANY + ["b"] * MANY + ["a"] * MANY
    assert [time for _, time, _ in found] == ["1"] * MANY + ["2"] * MANY + ["3"] * MANY
    counts = [int(count) for _, _, count in found]
    assert counts == [*range(1, MANY + 1), *range(1, MANY + 1), *range(MANY + 1, 2 * MANY + 1)]


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_barrier_waits_for_the_record_that_is_under_way(unaligned: bool) -> None:
    rig = Line(lambda: FlatMapOperator(many), unaligned=unaligned)
    rig.give("a")
    rig.work()
    rig.slot.handle(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, 0, unaligned=unaligned))
    rig.work()
    source, middle, sink = (task.subtask for task in rig.tasks)
    assert set(rig.acks(1)) == {source}, "the others have not seen it yet"
    rig.give("b")
    rig.run()
    acks = rig.acks(1)
    assert set(acks) == {source, middle, sink}
    stored = [row for item in acks[sink].committables for row in load(item.payload)]
    assert not acks[middle].snapshot.channels
    for handle in acks[sink].snapshot.channels:
        stored += [row for batch in decode(rig.store.read_blob(handle.blob)) for row in batch.to_rows()]
    assert bool(acks[sink].snapshot.channels) is unaligned, "it overtook what was queued"
    assert stored == all_of("a"), "all of the record, and nothing of the next"
    assert rows() == all_of("a") + all_of("b")


def test_a_barrier_that_has_waited_for_too_long_does_not_keep_the_slot_busy() -> None:
    rig = Line(lambda: FlatMapOperator(many), unaligned=True, aligned_timeout_ms=50)
    rig.give("a")
    rig.work()
    rig.slot.handle(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, rig.clock.now_ms()))
    rig.work()
    middle = rig.tasks[1]
    assert not middle.step()
    due = middle.next_deadline_ms()
    assert due is None or due > rig.clock.now_ms(), "there is nothing to do until there is room"
    rig.run()
    assert len(rig.acks(1)) == 3
    assert rows() == all_of("a")


def test_a_source_begins_its_snapshot_when_the_record_is_done() -> None:
    rig = Line(lambda: FlatMapOperator(many), chained=True)
    rig.give("a")
    rig.work()
    assert len(rig.tasks) == 2 and 0 < len(MADE) < MANY
    for epoch in (1, 2, 3):
        rig.slot.handle(TriggerSnapshot(Epoch(epoch), SnapshotKind.CHECKPOINT, 0))
    rig.slot.handle(AbortSnapshot(Epoch(2)))
    assert not rig.of(SnapshotAck)
    rig.run()
    assert {ack.epoch for ack in rig.of(SnapshotAck)} == {1, 3}
    (sink,) = [ack for ack in rig.of(SnapshotAck) if ack.committables and ack.epoch == 1]
    assert load(sink.committables[0].payload) == all_of("a")


def test_a_failure_names_the_record_that_was_under_way() -> None:
    def late_trouble(row: str) -> Iterator[str]:
        yield from many(row)
        if row == "b":
            raise ValueError("too much")

    rig = Line(lambda: FlatMapOperator(late_trouble))
    rig.give("a", "b", "c")
    with pytest.raises(UserCodeError, match=r"(?s)step0.*'b'.*too much"):
        rig.run()


class Watch(Collect):
    """Notes what event time was when."""

    def on_watermark(self, time: EventTime) -> None:
        OUT.append(("watermark", int(time)))
        super().on_watermark(time)


class Alarms(KeyedProcessFunction):
    """One timer per key, and many results when it fires."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(10 + value[2])
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        for n in range(ALARMS):
            MADE.append(n)
            yield f"{timestamp} {ctx.get_current_key()} {ctx.timestamp()} {n}".ljust(WIDTH)


ALARMS = 3


@pytest.mark.parametrize("each", [1, 2000])
def test_one_watermark_fires_as_many_timers_as_there_is_room_for(
    each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ALARMS", each)
    keys = 5000 // each
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[1])
    rig = Line(lambda: KeyedProcessOperator(Alarms()), key=lambda row: row[0], strategy=strategy, sink=Watch)
    rig.give(*[(f"k{n}", 1, n) for n in range(keys)])
    rig.run(10_000)
    rig.give(("last", 1_000_000, 2_000_000))
    rig.work()
    assert 0 < len(MADE) * WIDTH < LIMIT + SLACK
    rig.run()
    fired = [row.split() for row in OUT if isinstance(row, str)]
    assert fired == [[str(10 + k), f"k{k}", str(10 + k), str(n)] for k in range(keys) for n in range(each)]
    assert OUT[-1] == ("watermark", 999_999), "behind the last timer"
    assert not any(isinstance(row, str) for row in OUT[OUT.index(("watermark", 999_999)) :])


class Hoarder(FlatMapOperator):
    """Keeps everything to the end."""

    def __init__(self) -> None:
        super().__init__(many)
        self.kept: list[Any] = []

    def process(self, batch: Batch, input_index: int = 0) -> None:
        self.kept += batch.to_rows()

    def finish(self) -> None:
        super().process(Batch.of_rows(self.kept))


def test_the_end_of_input_waits_for_room_as_well() -> None:
    rig = Line(Hoarder, lambda: FlatMapOperator(lambda row: (row,)))
    rig.give("a", "b", None)
    rig.work()
    assert 0 < len(MADE) * WIDTH < LIMIT + SLACK
    assert [task.subtask for task in rig.tasks[:1]] == [done.subtask for done in rig.of(TaskFinished)]
    rig.slot.handle(TriggerSnapshot(Epoch(1), SnapshotKind.CHECKPOINT, 0))
    rig.run()
    assert OUT == [*all_of("a"), *all_of("b"), "finish"]
    assert len(rig.of(TaskFinished)) == 3
    assert len(rig.acks(1)) == 3


def test_closing_a_task_in_the_middle_of_a_record_lets_the_generator_go() -> None:
    rig = Line(lambda: FlatMapOperator(tidy))
    rig.give("a")
    rig.work()
    assert 0 < len(MADE) < MANY
    rig.slot.leave()
    gc.collect()
    assert MADE[-1] == "ended"
