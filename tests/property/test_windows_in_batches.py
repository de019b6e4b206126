"""Batches of many records against the same records one by one: the same results, a key's in the same order.

Every window, trigger, evictor and function, with rows and with columns.  Functions change what they are
given, and snapshots that wait to be written meanwhile must hold what was there when they were taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from window_cases import (
    FUNCTIONS,
    Case,
    Pair,
    cases,
    counting,
    early_and_late,
    overlapping,
    short,
    simple_triggers,
)
from window_model import Fixed, Session

from penstock.core.batch import Batch
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.core.row import Row
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.functions import ReduceFunction
from penstock.operators.window import column_windows
from penstock.operators.window.functions import ProcessWindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.window_state import ListContents, ReduceContents
from penstock.state.keyed import KeyedState
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import RocksSettings
from penstock.testing import operator_run
from penstock.testing.operator_run import KEY_GROUPS, OperatorRun, write_frozen

SOME = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


class Careless(ProcessWindowFunction[Any, Any, Any, Any]):
    """Changes the elements that it has shown."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        yield key, str(context.window()), [element["n"] for element in elements]
        for element in elements:
            element["n"] = -1


class Joined(ReduceFunction):
    """Numbers in order, added to the first element as it is."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        value1["n"] = value1["n"] * 10 + value2["n"]
        return value1


CHANGING: dict[str, Any] = {
    "changed list": lambda: (ListContents(), Careless()),
    "changed reduce": lambda: (ReduceContents(Joined()), None),
}
FUNCTION = st.sampled_from([*FUNCTIONS, *CHANGING, *CHANGING])
RECORD = st.tuples(st.sampled_from("aaabc"), st.integers(0, 9), st.sampled_from([*range(-9, 10), -25, 15]))
RECORDS = st.tuples(st.just("records"), st.lists(RECORD, min_size=1, max_size=9))
STEP = st.one_of(
    RECORDS,
    RECORDS,
    st.tuples(st.just("watermark"), st.sampled_from([1, 1, 2, 3, 5, 14])),
    st.tuples(st.just("clock"), st.integers(1, 9)),
    st.tuples(st.sampled_from(["restore", "freeze"]), st.integers(1, 3)),
)
STEPS = st.lists(STEP, min_size=1, max_size=16)


def operator(case: Case, function: str) -> WindowOperator:
    if function not in CHANGING:
        case.function = function
        return case.operator()
    contents, body = CHANGING[function]()
    return WindowOperator(
        case.windows.real(),
        contents,
        body,
        trigger=None if case.trigger is None else case.trigger.real(),
        allowed_lateness_ms=case.lateness,
        late_tag="late",
        evictor=None if case.evictor is None else case.evictor.real(),
    )


def of_rows(records: list[Any]) -> Batch:
    keys = [key for key, _, _ in records]
    return Batch.of_rows([Row(k=k, n=n) for k, n, _ in records], [time for _, _, time in records], keys)


def of_columns(records: list[Any]) -> Batch:
    keys, numbers, times = zip(*records, strict=True)
    columns = pa.record_batch({"k": pa.array(keys), "n": pa.array(numbers)})
    return Batch.of_columns(columns, np.array(times, np.int64), ("k",))


def played(make: Any, steps: list[Any], batches: Any, is_quiet: bool = False) -> list[Any]:
    """All results: those of one batch by key and in order, those of a point in time sorted.

    If it ``is_quiet`` behind a restore, nobody tells the operator what the watermark was.
    """
    run, watermark, clock, found = OperatorRun(make), 0, 0, []
    waiting: list[tuple[Any, bytes]] = []
    for kind, what in [*steps, ("watermark", MAX_TIME)]:
        if kind == "records":
            for batch in batches([(key, number, watermark + far) for key, number, far in what]):
                run.process(batch)
        elif kind == "watermark":
            watermark = min(watermark + what, MAX_TIME)
            run.watermark(watermark)
        elif kind == "clock":
            clock += what
            run.clock_to(clock)
        elif kind == "restore":
            snapshot = run.snapshot()
            run.load(dataclasses.replace(snapshot, watermark=MIN_TIME) if is_quiet else snapshot, what)
        else:
            frozen = [each.ctx.keyed.freeze() for each in run.operators]
            waiting += [(parts, write_frozen(parts)) for parts in frozen]
        results = [
            (r.side or "", str(_plain(r.value)[0]), r.time, repr(_plain(r.value))) for r in run.results
        ]
        found.append(sorted(results, key=lambda r: r[:2] if kind == "records" else r))
        run.results.clear()
    for parts, data in waiting:
        assert write_frozen(parts) == data
    return found


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, Row) else value


def one_by_one(records: list[Any]) -> Iterator[Batch]:
    return (of_rows([record]) for record in records)


def as_rows(records: list[Any]) -> Iterator[Batch]:
    yield of_rows(records)


def as_columns(records: list[Any]) -> Iterator[Batch]:
    yield of_columns(records)


def check(case: Case, function: str, steps: list[Any], worth: int) -> None:
    def make() -> WindowOperator:
        return operator(case, function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_windows, "WORTH_ROWS", worth)
        wanted = played(make, steps, one_by_one)
        assert played(make, steps, as_rows) == wanted
        assert played(make, steps, as_columns) == wanted


WORTH = st.sampled_from([1, 1, 3])
LATENESS = st.sampled_from([0, 3, 12, 30])


@SOME
@given(cases(), FUNCTION, STEPS, WORTH)
def test_every_window_and_trigger(case: Case, function: str, steps: list[Any], worth: int) -> None:
    check(case, function, steps, worth)


ASKED_ONCE = st.sampled_from(
    [
        None,
        Pair(lambda: PurgingTrigger(EventTimeTrigger()), "purging"),
        Pair(lambda: ContinuousEventTimeTrigger(4), "continuous"),
        Pair(lambda: PurgingTrigger(ContinuousEventTimeTrigger(3)), "purging, continuous"),
    ]
)
IN_ORDER = st.sampled_from(["list", *CHANGING])


@st.composite
def dividing(draw: Any) -> Pair:
    """Windows of event time, of which each record is in as many as the others."""
    slide, most = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    offset = draw(st.integers(1 - slide, slide - 1))
    if most == 1:
        return Pair(lambda: TumblingEventTimeWindows(slide, offset), Fixed(slide, slide, offset))
    size = slide * most
    return Pair(lambda: SlidingEventTimeWindows(size, slide, offset), Fixed(size, slide, offset))


@SOME
@given(cases(windows=dividing(), triggers=ASKED_ONCE), IN_ORDER, LATENESS, STEPS, WORTH)
def test_windows_of_fixed_size(
    case: Case, function: str, lateness: int, steps: list[Any], worth: int
) -> None:
    case.lateness = lateness
    check(case, function, steps, worth)


@SOME
@given(cases(windows=short(), triggers=st.one_of(simple_triggers(), early_and_late())), FUNCTION, STEPS)
def test_short_windows(case: Case, function: str, steps: list[Any]) -> None:
    check(case, function, steps, 1)


@settings(SOME, max_examples=25)
@given(cases(windows=st.one_of(dividing(), counting()), triggers=ASKED_ONCE), FUNCTION, STEPS)
def test_windows_whose_state_is_on_disk(case: Case, function: str, steps: list[Any]) -> None:
    opened: list[KeyedState] = []

    def on_disk() -> KeyedState:
        opened.append(KeyedState(RocksBackend(RocksSettings(), KEY_GROUPS)))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator_run, "heap_state", on_disk)
        try:
            check(case, function, steps, 1)
        finally:
            for keyed in opened:
                keyed.close()
    assert opened


# --- before the first watermark --------------------------------------------------------------------------


class Plain(EventTimeTrigger[Any]):
    """The default trigger in all but name: each element goes through assigner, trigger and timers."""


PLAIN = Pair(Plain, "plain")
SESSIONS = st.integers(1, 8).map(lambda gap: Pair(lambda: EventTimeSessionWindows(gap), Session(gap)))


@SOME
@given(cases(windows=st.one_of(dividing(), SESSIONS), triggers=st.none()), FUNCTION, LATENESS, STEPS)
def test_records_that_come_before_the_first_watermark(
    case: Case, function: str, lateness: int, steps: list[Any]
) -> None:
    """Behind a restore nothing is late, and windows that have fired fire again for new records."""
    case.lateness, case.evictor = lateness, None
    plain = dataclasses.replace(case, trigger=PLAIN)
    wanted = played(lambda: operator(plain, function), steps, one_by_one, is_quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_windows, "WORTH_ROWS", 1)
        assert played(lambda: operator(case, function), steps, as_rows, is_quiet=True) == wanted
        assert played(lambda: operator(case, function), steps, as_columns, is_quiet=True) == wanted


@SOME
@given(overlapping(), STEPS)
def test_shared_panes_before_the_first_watermark(case: Case, steps: list[Any]) -> None:
    case.lateness = 500
    plain = dataclasses.replace(case, trigger=PLAIN)
    assert case.operator().shares_panes and not plain.operator().shares_panes
    wanted = played(plain.operator, steps, one_by_one, is_quiet=True)
    assert played(case.operator, steps, one_by_one, is_quiet=True) == wanted
    assert played(case.operator, steps, as_rows, is_quiet=True) == wanted
