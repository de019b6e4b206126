"""Sessions a batch at a time and one record after the other: same results, same state, same timers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import operator_harness
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import OperatorHarness
from window_samples import Average, Listing, PlainEventTimeTrigger, Show, ShowProcess, Sum, dropped

from penstock.core.ids import MAX_TIME
from penstock.operators.window.assigners import TumblingEventTimeWindows
from penstock.operators.window.operator import MERGING_TABLE, WindowOperator
from penstock.operators.window.session_path import session_assigner
from penstock.operators.window.sessions import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from penstock.operators.window.triggers import CountTrigger, EventTimeTrigger
from penstock.operators.window.window_state import AggregateContents, ListContents, ReduceContents
from penstock.operators.window.windows import TimeWindow
from penstock.state.keyed import KeyedState
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings


class GapOf(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return element[1] + 1


ASSIGNERS: list[Any] = [
    EventTimeSessionWindows(1),
    EventTimeSessionWindows(6),
    DynamicEventTimeSessionWindows(GapOf()),
]
KINDS: list[Any] = [
    lambda: (ListContents(), Show()),
    lambda: (ListContents(), ShowProcess()),
    lambda: (ReduceContents(Sum()), None),
    lambda: (AggregateContents(Average()), None),
    lambda: (AggregateContents(Listing()), None),
]

element = st.tuples(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), st.integers(-30, 40))
steps = st.lists(
    st.one_of(
        st.lists(element, min_size=1, max_size=10),
        st.integers(0, 12),
        st.sampled_from(["snapshot", "swap", "freeze"]),
    ),
    max_size=20,
)


def build(assigner: Any, kind: Any, trigger: Any, lateness: int, late_tag: str | None) -> WindowOperator:
    contents, function = kind()
    options = {"trigger": trigger, "allowed_lateness_ms": lateness, "late_tag": late_tag}
    return WindowOperator(assigner, contents, function, **options)


def play(
    script: list[Any],
    assigner: Any,
    kind: Any,
    lateness: int,
    late_tag: str | None,
    fast: bool,
    swap: bool = False,
    looking: bool = True,
) -> Any:
    """All that comes out and all that is kept, step by step; ``swap`` changes paths at some snapshots.

    To look at what is kept has it stored, so that is not always done.
    """
    triggers = [EventTimeTrigger(), PlainEventTimeTrigger()]
    at = 0 if fast else 1
    harness = OperatorHarness(build(assigner, kind, triggers[at], lateness, late_tag))
    watermark = -35
    log: list[Any] = []
    for step in [*script, MAX_TIME + 50]:
        if isinstance(step, list):
            harness.send(*step)
        elif isinstance(step, int):
            watermark = min(watermark + step, MAX_TIME)
            harness.watermark(watermark)
        elif step == "freeze":
            harness.keyed.freeze()
        else:
            at = 1 - at if step == "swap" and swap else at
            log.append(dropped(harness))
            operator = build(assigner, kind, triggers[at], lateness, late_tag)
            harness = OperatorHarness(operator, restored=harness.snapshot())
            harness.watermark(watermark)
        # Ties between keys have no order.
        results = sorted(harness.take(), key=lambda result: (result[1], repr(result)))
        state = kept(harness) if looking else None
        log.append((results, harness.take_side("late"), dropped(harness), state))
    assert harness.table_sizes() == {}
    return log


def kept(harness: OperatorHarness) -> Any:
    return {name: dict(items) for name, _, items in pickle.loads(harness.snapshot()) if items}


@settings(max_examples=200, deadline=None)
@given(
    script=steps,
    assigner=st.sampled_from(ASSIGNERS),
    kind=st.sampled_from(KINDS),
    lateness=st.sampled_from([0, 0, 3, 12]),
    late_tag=st.sampled_from([None, "late"]),
)
def test_both_paths_agree_step_by_step(
    script: Any, assigner: Any, kind: Any, lateness: int, late_tag: Any
) -> None:
    general = play(script, assigner, kind, lateness, late_tag, fast=False)
    assert play(script, assigner, kind, lateness, late_tag, fast=True) == general
    assert play(script, assigner, kind, lateness, late_tag, fast=True, swap=True) == general
    unseen = play(script, assigner, kind, lateness, late_tag, fast=True, swap=True, looking=False)
    assert [entry[:3] if isinstance(entry, tuple) else entry for entry in unseen] == [
        entry[:3] if isinstance(entry, tuple) else entry for entry in general
    ]


def test_both_paths_agree_on_rocksdb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a cache so small that what was read is forgotten at the next call."""

    def rocks() -> KeyedState:
        return KeyedState(RocksBackend(RocksSettings(localdir=str(tmp_path), cache_entries=4), 128))

    def run(trigger: Any, kind: Any) -> Any:
        harness = OperatorHarness(build(EventTimeSessionWindows(6), kind, trigger, 0, "late"))
        log = []
        for turn in range(12):
            batch = [
                ((key, turn + n), 7 * turn % 11 + 3 * turn + 4 * n) for n in range(4) for key in "abcdefg"
            ]
            harness.send(*batch)
            harness.watermark(3 * turn - 4)
            log.append((sorted(harness.take(), key=repr), harness.take_side("late"), kept(harness)))
        harness.watermark(MAX_TIME)
        log.append(sorted(harness.take(), key=repr))
        harness.keyed.close()
        return log

    for kind in KINDS:
        wanted = run(PlainEventTimeTrigger(), kind)
        with monkeypatch.context() as patched:
            patched.setattr(operator_harness, "heap_state", rocks)
            assert run(EventTimeTrigger(), kind) == run(PlainEventTimeTrigger(), kind) == wanted


@pytest.mark.parametrize("rocks", [False, True])
def test_every_kind_of_snapshot_has_windows_as_they_are(
    rocks: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if rocks:
        backend = RocksBackend(RocksSettings(localdir=str(tmp_path)), 128)
        monkeypatch.setattr(operator_harness, "heap_state", lambda: KeyedState(backend))
    harness = OperatorHarness(build(EventTimeSessionWindows(6), KINDS[0], EventTimeTrigger(), 0, None))
    stored = harness.keyed.table(MERGING_TABLE)
    for turn, take in enumerate([harness.keyed.freeze, harness.keyed.checkpoint], 1):
        harness.send((("a", turn), 10 * turn))
        harness.send((("a", turn), 10 * turn + 3))
        for part in take():
            part.release()
        windows = {TimeWindow(10 * n, 10 * n + 9): TimeWindow(10 * n, 10 * n + 6) for n in range(1, turn + 1)}
        assert stored.peek("a") == windows
        assert len(harness.keyed.timers.event.table) == turn
    harness.keyed.close()


def test_contents_are_in_order_of_arrival_and_those_of_an_earlier_session_come_first() -> None:
    harness = OperatorHarness(WindowOperator(EventTimeSessionWindows(5), ListContents(), Show()))
    harness.send((("a", 1), 20), (("a", 2), 10), (("a", 3), 21), (("a", 4), 11), (("a", 5), 15))
    harness.watermark(MAX_TIME)
    assert harness.take_values() == [("a", (10, 26), [2, 4, 1, 3, 5])]


def test_a_batch_stores_a_session_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = OperatorHarness(WindowOperator(EventTimeSessionWindows(5), AggregateContents(Average())))
    added: list[int] = []
    plain = AggregateContents.add_all

    def counting(self: Any, entry: Any, values: list[Any]) -> None:
        added.append(len(values))
        plain(self, entry, values)

    monkeypatch.setattr(AggregateContents, "add_all", counting)
    harness.send(*((("ab"[at % 2], at), at) for at in range(40)))
    assert added == [20, 20]


def test_the_record_that_a_function_fails_on_is_known() -> None:
    class Fails(Average):
        def add(self, value: Any, accumulator: Any) -> Any:
            if value[1] == 3:
                raise ValueError("no threes")
            return super().add(value, accumulator)

    harness = OperatorHarness(WindowOperator(EventTimeSessionWindows(5), AggregateContents(Fails())))
    with pytest.raises(ValueError, match="no threes"):
        harness.send(*((("a", at), at) for at in range(6)))
    assert harness.operator.current_record() == ("a", 3)


def test_a_snapshot_taken_with_more_lateness_goes_on_as_on_the_general_path() -> None:
    def run(trigger: Any) -> Any:
        sessions = EventTimeSessionWindows(5)
        before = OperatorHarness(build(sessions, KINDS[2], trigger, 100, "late"))
        before.send((("a", 1), 5), (("b", 2), 30))
        before.watermark(20)
        after = OperatorHarness(build(sessions, KINDS[2], trigger, 0, "late"), restored=before.snapshot())
        after.watermark(20)
        after.send((("a", 7), 12), (("b", 4), 31), (("a", 6), 40))
        log = [after.take(), after.take_side("late")]
        after.watermark(MAX_TIME)
        return [*log, sorted(after.take()), kept(after)]

    assert run(EventTimeTrigger()) == run(PlainEventTimeTrigger())


def test_anything_uncommon_takes_the_general_path() -> None:
    class Mine(EventTimeSessionWindows[Any]):
        pass

    served = EventTimeSessionWindows(5)
    assert session_assigner(served, EventTimeTrigger()) is served
    assert session_assigner(served, PlainEventTimeTrigger()) is None
    assert session_assigner(served, CountTrigger.of(2)) is None
    assert session_assigner(Mine(5), EventTimeTrigger()) is None
    assert session_assigner(ProcessingTimeSessionWindows(5), EventTimeTrigger()) is None
    assert session_assigner(TumblingEventTimeWindows(5, 0), EventTimeTrigger()) is None
