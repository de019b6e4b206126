"""Watermarks: how they are made, combined over splits and inputs, and held back or left to idle ones."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "operators"))

from process_harness import opened
from test_source_op_reading import ListSource, drain, splits

from penstock.common import WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator, WatermarkOutput
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.core.ids import MAX_TIME, MIN_TIME, EventTime
from penstock.event_time.watermark_tracker import IdlenessTimer, WatermarkTracker
from penstock.event_time.watermark_valve import NOTHING, ValveResult, WatermarkValve
from penstock.operators.source_operator import SourceOperator
from penstock.operators.timestamps import AssignTimestampsOperator
from penstock.state.operator_state import ListMode, OperatorStateStore

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


def batch(*times: int) -> Batch:
    return Batch.of_rows(list(times), list(times))


class Punctuated(WatermarkGenerator):
    """A watermark right behind every record whose value is even."""

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        if value % 2 == 0:
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def assigner(strategy: WatermarkStrategy, **kwargs: Any) -> tuple[Any, Any, ManualClock]:
    clock = ManualClock(0)
    op, _, out = opened(AssignTimestampsOperator(strategy), clock=clock, **kwargs)
    return op, out, clock


def probe(op: Any, clock: ManualClock, ms: int = 200) -> None:
    clock.advance(ms)
    op.on_processing_time(clock.now_ms())


@pytest.mark.parametrize(("bound", "expected"), [(0, 99), (10, 89)])
def test_bounded_is_the_largest_timestamp_less_bound_less_one(bound: int, expected: int) -> None:
    tracker = WatermarkTracker(WatermarkStrategy.for_bounded_out_of_orderness(bound))
    tracker.on_batch(batch(100, 40))
    assert tracker.probe(0).watermark == expected


def test_nothing_is_emitted_before_the_first_record() -> None:
    assert WatermarkTracker(MONOTONOUS).probe(0) is NOTHING


def test_emission_is_periodic_and_only_of_larger_values() -> None:
    op, out, clock = assigner(MONOTONOUS)
    op.process(batch(5, 6))
    assert out.log == [(5, 5), (6, 6)], "not per record"
    probe(op, clock, 199)
    assert len(out.log) == 2
    probe(op, clock, 1)
    op.process(batch(3))
    probe(op, clock)
    assert out.log[2:] == [("WM", 5), (3, 3)]


def test_interval_zero_disables_emission() -> None:
    op, _, _ = assigner(MONOTONOUS, auto_watermark_interval_ms=0)
    assert op.next_processing_time() is None


def test_upstream_watermarks_and_idleness_end_at_an_assigner_except_the_last() -> None:
    op, out, _ = assigner(MONOTONOUS)
    op.on_watermark(EventTime(500))
    op.on_idle(True)
    assert out.log == []
    op.on_watermark(MAX_TIME)
    assert out.log == [("WM", MAX_TIME)]


def test_a_per_record_watermark_follows_its_own_record() -> None:
    op, out, _ = assigner(WatermarkStrategy.for_generator(Punctuated))
    op.process(batch(1, 2, 3, 4))
    assert out.log == [(1, 1), (2, 2), ("WM", 2), (3, 3), (4, 4), ("WM", 4)]


def test_watermarks_are_not_in_snapshots() -> None:
    clock = ManualClock(0)
    op, _, out = opened(SourceOperator(ListSource(endless=True), MONOTONOUS), clock=clock)
    op.add_splits(splits(a=[100, 50]))
    op.poll(1)
    probe(op, clock)
    assert out.log[-1] == ("WM", 99)
    op.prepare_barrier(1)
    store = OperatorStateStore()
    store.list_state("splits", ListMode.UNION).update(pickle.loads(pickle.dumps(op._state.get())))
    again, _, out = opened(SourceOperator(ListSource(endless=True), MONOTONOUS), store=store, clock=clock)
    drain(again)
    probe(again, clock)
    assert out.log == [(50, 50), ("WM", 49)], "nothing is late until the first new watermark"


def test_the_minimum_over_active_channels_and_only_when_it_grows() -> None:
    valve = WatermarkValve(2)
    assert valve.on_watermark(0, EventTime(10)) is None
    assert valve.on_watermark(1, EventTime(5)) == 5
    assert valve.on_watermark(1, EventTime(12)) == 10
    assert valve.on_watermark(1, EventTime(13)) is None


def test_an_idle_channel_is_left_out() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, EventTime(10))
    assert valve.on_idle(1) == ValveResult(EventTime(10))


def test_the_last_to_go_idle_flushes_the_maximum_if_it_held_the_minimum() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, EventTime(10)), valve.on_watermark(1, EventTime(5))
    assert valve.on_idle(0) is NOTHING
    assert valve.on_idle(1) == ValveResult(EventTime(10), True)
    held = WatermarkValve(2)
    held.on_watermark(0, EventTime(5)), held.on_watermark(1, EventTime(10))
    held.on_idle(0)
    assert held.watermark == 10
    assert held.on_idle(1) == ValveResult(None, True)


def test_a_channel_that_wakes_up_behind_rejoins_when_it_has_caught_up() -> None:
    valve = WatermarkValve(2)
    valve.on_watermark(0, EventTime(5))
    valve.on_watermark(1, EventTime(3))
    valve.on_idle(1)
    valve.on_watermark(0, EventTime(50))
    valve.on_active(1)
    assert not valve.is_aligned(1)
    assert valve.on_watermark(0, EventTime(60)) == 60, "time does not stop for it"
    assert valve.on_watermark(1, EventTime(59)) is None and valve.watermark == 60
    valve.on_watermark(1, EventTime(60))
    assert valve.is_aligned(1)
    assert valve.on_watermark(0, EventTime(70)) is None, "now it counts"


def test_idle_time_counts_from_the_first_quiet_probe_and_must_be_exceeded() -> None:
    timer = IdlenessTimer(1000)
    timer.activity()
    assert not timer.check(0)
    assert not timer.check(200), "the first quiet probe starts the clock"
    assert not timer.check(1200), "not more than the timeout"
    assert timer.check(1201)


def test_the_idle_timeout_must_be_positive() -> None:
    with pytest.raises(ConfigError):
        MONOTONOUS.with_idleness(0)


def test_a_watermark_clears_the_idle_flag() -> None:
    output = WatermarkOutput()
    output.mark_idle()
    output.emit_watermark(5)
    assert not output.idle


def source(strategy: WatermarkStrategy, **lists: list[int]) -> tuple[Any, Any, Any, ManualClock]:
    clock = ManualClock(0)
    op, ctx, out = opened(SourceOperator(ListSource(endless=True), strategy), clock=clock)
    op.add_splits(splits(**lists))
    return op, ctx, out, clock


def test_the_idle_clock_is_paused_under_backpressure() -> None:
    op, ctx, out, clock = source(MONOTONOUS.with_idleness(1000), a=[5])
    drain(op)
    ctx.blocked_ms = clock.now_ms
    for _ in range(30):
        probe(op, clock)
    assert ("IDLE", True) not in out.log
    blocked = clock.now_ms()
    ctx.blocked_ms = lambda: blocked
    for _ in range(8):
        probe(op, clock)
    assert out.log[-1] == ("IDLE", True)


def test_idleness_of_all_does_not_invent_watermarks() -> None:
    op, _, out, clock = source(MONOTONOUS.with_idleness(1000), a=[5], b=[7])
    drain(op)
    for _ in range(30):
        probe(op, clock)
    assert [each for each in out.log if each[0] == "WM"] == [("WM", 4), ("WM", 6)]
    assert out.log[-1] == ("IDLE", True)


def test_a_source_has_a_generator_per_split() -> None:
    op, _, out, clock = source(MONOTONOUS, a=[5, 90], b=[100])
    drain(op, 1)
    probe(op, clock)
    assert out.log[-1] == ("WM", 89), "the slower split decides"


def test_an_assigner_has_one_per_subtask() -> None:
    op, out, clock = assigner(MONOTONOUS)
    op.process(batch(100))
    op.process(batch(5))
    probe(op, clock)
    assert out.log[-1] == ("WM", 99)


def test_aligned_splits_wait_beyond_group_minimum_plus_drift_and_others_read_on() -> None:
    op, _, out, clock = source(MONOTONOUS.with_watermark_alignment("g", 50), a=[100, 101], b=[200, 201])
    op.poll(1), op.poll(1)
    probe(op, clock)
    op.align("g", EventTime(100))
    drain(op)
    assert out.rows == [100, 200, 101]
    op.align("g", EventTime(149))
    drain(op)
    assert out.rows == [100, 200, 101, 201], "199 is not above 149 + 50"


def test_the_default_update_interval_of_alignment_is_a_second() -> None:
    alignment = MONOTONOUS.with_watermark_alignment("g", 50).alignment
    assert alignment is not None and alignment.update_ms == 1000


def test_without_any_watermark_event_time_does_not_move() -> None:
    op, _, out, clock = source(WatermarkStrategy.no_watermarks(), a=[5])
    drain(op)
    probe(op, clock)
    assert op._watermarks.watermark == MIN_TIME and out.log == [(5, 5)]
