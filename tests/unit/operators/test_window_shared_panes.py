"""Overlapping windows of aggregates over shared panes: what the model cannot see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import SnapshotError
from penstock.core.ids import MIN_TIME, EventTime, OperatorId
from penstock.core.metrics import MetricGroup
from penstock.datastream.window import SlidingEventTimeWindows, TimeWindow
from penstock.operators.functions import AggregateFunction
from penstock.operators.operator import OperatorContext, RuntimeInfo
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.running import NOTHING, Running
from penstock.operators.window.triggers import CountTrigger, EventTimeTrigger
from penstock.operators.window.window_state import AggregateContents
from penstock.state.heap.backend import heap_state
from penstock.state.keyed import KeyedState
from penstock.state.operator_state import OperatorStateStore
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings
from penstock.testing import EndOfInput, Harness, Record, WatermarkTo, verify
from penstock.testing.operator_run import Collector, OperatorRun


class Numbers(AggregateFunction):
    """The numbers themselves, in a list that is changed in place; counts how often it is merged."""

    merges = 0

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return sorted(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        Numbers.merges += 1
        acc_a.extend(acc_b)
        return acc_a


class NotQuiteTheSame(EventTimeTrigger[Any]):
    """Takes the general path."""


def sliding(size: int, slide: int, **options: Any) -> Any:
    return lambda: WindowOperator(
        SlidingEventTimeWindows(size, slide, 0), AggregateContents(Numbers()), **options
    )


def key_of(value: Any) -> Any:
    return value[0]


def at(time: int, key: str = "k") -> Record:
    return Record((key, time), time)


def test_a_late_element_reaches_the_windows_that_are_still_open():
    with Harness(sliding(6, 1), keyed_by=key_of) as harness:
        harness.push(at(5), WatermarkTo(6))
        assert harness.take() == [[5], [5]]
        harness.push(at(4), WatermarkTo(7))
        assert harness.take() == [[4, 5]]
        harness.push(EndOfInput())
        assert harness.take() == [[4, 5], [4, 5], [5]]


def test_a_firing_costs_about_two_merges_however_many_panes_a_window_has():
    counted = {}
    for panes in (10, 100):
        with Harness(sliding(panes, 1), keyed_by=key_of) as harness:
            for time in range(panes):
                harness.push(at(time), WatermarkTo(time))
            Numbers.merges = 0
            for time in range(panes, 5 * panes):
                harness.push(at(time), WatermarkTo(time))
            counted[panes] = Numbers.merges / (4 * panes)
            harness.take()
    assert counted[10] < 3.5 and counted[100] < 3.5


def test_an_element_is_stored_once_and_each_key_has_one_timer():
    with Harness(sliding(100, 1), keyed_by=key_of) as harness:
        harness.push(at(500), at(501), at(501), at(300, "other"))
        assert harness.state("k") == {
            "_window/panes": {TimeWindow(500, 501): [500], TimeWindow(501, 502): [501, 501]}
        }
        harness.watermark(500)
        assert len(harness.timers("k")) == 1


def test_nothing_stays_behind():
    with Harness(sliding(10, 3), keyed_by=key_of) as harness:
        harness.push(at(5), at(20), WatermarkTo(60))
        assert harness.state("k") == {} and harness.timers() == []
        (stage,) = harness._stages
        assert stage.trial.operators[0]._fast._running == {}


def test_a_gap_between_elements_does_not_break_the_chain_of_windows():
    items = [at(0), at(9), WatermarkTo(4), at(40), at(41), EndOfInput()]
    for size, slide in ((10, 5), (10, 4), (6, 3)):
        general = Harness(sliding(size, slide, trigger=NotQuiteTheSame()), keyed_by=key_of)
        general.push(*items)
        verify(sliding(size, slide), keyed_by=key_of).input(items).expect(general.take())


def test_a_result_may_be_changed_by_whoever_gets_it():
    class Handed(Numbers):
        def get_result(self, accumulator: Any) -> Any:
            return accumulator

    def made() -> WindowOperator:
        return WindowOperator(SlidingEventTimeWindows(4, 1, 0), AggregateContents(Handed()))

    verify(made, keyed_by=key_of).input([at(1), at(2), WatermarkTo(2), EndOfInput()]).expect(
        [[1], [1, 2], [1, 2], [1, 2], [2]]
    )


def test_windows_in_a_snapshot_of_the_general_path_are_joined_in():
    with Harness(sliding(4, 2, trigger=NotQuiteTheSame()), keyed_by=key_of) as old:
        old.push(at(1), at(2), WatermarkTo(1))
        assert old.take() == [[1]]
        snapshot = old.snapshot()
    with Harness(sliding(4, 2), keyed_by=key_of) as new:
        new.restore(snapshot)
        new.push(at(3), EndOfInput())
        assert new.take() == [[1, 2, 3], [2, 3]]
        assert new.state("k") == {} and new.timers() == []


@pytest.mark.parametrize("other", [sliding(4, 1), sliding(4, 2, trigger=CountTrigger.of(1))])
def test_panes_of_a_snapshot_that_do_not_fit_are_refused(other):
    with Harness(sliding(4, 2), keyed_by=key_of) as old:
        old.push(at(1))
        snapshot = old.snapshot()
    with Harness(other, keyed_by=key_of) as new, pytest.raises(SnapshotError, match="shared panes"):
        new.restore(snapshot)


def test_a_running_merge_of_nothing_is_nothing():
    running = Running(lambda left, right: left + right)
    running.start_over(10, [])
    assert running.total() is NOTHING and not running.reaches(11, 21)
    running.start_over(10, [(8, "b"), (6, "a")])
    assert running.total() == "ab" and running.newest == 8
    running.add(10, "c")
    running.leave(8)
    assert running.total() == "bc"


class Counted(AggregateFunction):
    """Key and number of elements: results that show what they are made of."""

    def create_accumulator(self) -> Any:
        return (None, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (value[0], accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0], acc_a[1] + acc_b[1])


@pytest.mark.parametrize("function", [Counted, Numbers])
def test_state_on_disk_gives_the_same(function: Any, tmp_path: Path) -> None:
    def results(keyed: KeyedState) -> list[Any]:
        assigner = SlidingEventTimeWindows(12, 3, 1)
        operator = WindowOperator(assigner, AggregateContents(function()), allowed_lateness_ms=4)
        out = Collector()
        info = RuntimeInfo("job", "task", "windows", 0, 1, 128, 0)
        operator.open(
            OperatorContext(
                OperatorId("w"), info, out, ManualClock(), keyed, OperatorStateStore(), MetricGroup()
            )
        )
        random = Random(3)
        for watermark in range(0, 200, 2):
            times = [watermark + random.randrange(-9, 12) for _ in range(8)]
            rows = [(random.choice("abcd"), time) for time in times]
            operator.process(Batch.of_rows(rows, times, [key for key, _ in rows]))
            operator.on_watermark(EventTime(watermark))
        return sorted((result.time, repr(result.value)) for result in out.results)

    on_disk = KeyedState(RocksBackend(RocksSettings(str(tmp_path), cache_entries=4), 128))
    found = results(on_disk)
    on_disk.close()
    assert found == results(heap_state()) and len(found) > 200


@pytest.mark.parametrize("between", [None, 9])
@pytest.mark.parametrize("trigger", [EventTimeTrigger, NotQuiteTheSame])
def test_records_that_come_before_event_time_is_back_show_what_had_fired(
    trigger: Any, between: int | None
) -> None:
    """They were added to their pane, and no result had them: nothing is late behind a restore."""
    run = OperatorRun(sliding(12, 4, trigger=trigger(), allowed_lateness_ms=100))
    run.process(Batch.of_rows([("a", 1), ("a", 2), ("b", 3)], [5, 9, 5], ["a", "a", "b"]))
    run.watermark(60)
    run.results.clear()
    run.load(replace(run.snapshot(), watermark=MIN_TIME), 2)
    if between is not None:
        run.watermark(between)
    run.process(Batch.of_rows([("a", 4)], [5], ["a"]))
    run.watermark(61)
    assert sorted((result.time, result.value) for result in run.results) == [
        (7, [1, 4]),
        (11, [1, 2, 4]),
        (15, [1, 2, 4]),
    ]
    run.results.clear()
    run.finish()
    assert run.results == []
    assert not any(list(part.items()) for each in run.operators for part in each.ctx.keyed.freeze()[:1])
