"""Windows that keep their records, fed columns, rows and both: the same results, records in the same order.

The simple model is the reference for single records, with every window and lateness.  Batches of many
are held against the same operator that is given nothing but rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_windows_columns import one_row_of_columns
from test_windows_model import SOME, STEPS, check, one_row
from window_cases import Case, cases, fixed

from penstock.common import Time
from penstock.core.batch import Batch
from penstock.core.ids import MAX_TIME
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.datastream.window import EventTimeTrigger, TumblingEventTimeWindows
from penstock.operators.window import column_windows
from penstock.operators.window.functions import ProcessWindowFunction
from penstock.operators.window.operator import WindowOperator
from penstock.operators.window.record_columns import STORE_NAME
from penstock.operators.window.window_state import ListContents
from penstock.testing.operator_run import OperatorRun


@pytest.fixture(autouse=True)
def small_batches_may_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_windows, "WORTH_ROWS", 1)


KEEPING = cases(
    windows=fixed().filter(lambda pair: not pair.model.by_clock), triggers=st.none(), function="list"
)


@SOME
@given(KEEPING, STEPS)
def test_single_records_of_columns(case: Case, steps: list[Any]) -> None:
    case.evictor = None
    check(case, steps, batch=one_row_of_columns)


@SOME
@given(KEEPING, STEPS, st.lists(st.booleans(), min_size=1, max_size=5))
def test_single_records_of_columns_and_of_rows(case: Case, steps: list[Any], layouts: list[bool]) -> None:
    """By the record's number and time, which are the same when it comes again after a crash."""

    def batch(key: str, number: int, time: int) -> Batch:
        is_columnar = layouts[(number + time) % len(layouts)]
        return (one_row_of_columns if is_columnar else one_row)(key, number, time)

    check(case, steps, batch=batch)


# --- batches of many records -----------------------------------------------------------------------------

FEW_MS = StateTtlConfig.new_builder(Time.milliseconds(12)).set_ttl_time_characteristic(
    StateTtlConfig.TtlTimeCharacteristic.EventTime
)
FORGETFUL = ValueStateDescriptor("forgetful")
FORGETFUL.enable_time_to_live(FEW_MS.build())
OF_WINDOW = ValueStateDescriptor("of window")


class Told(ProcessWindowFunction[Any, Any, Any, Any]):
    """All that a function sees: records in order, times, state of the window and, expiring, of the key."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        seen = context.global_state().get_state(FORGETFUL)
        seen.update((seen.value() or 0) + 1)
        context.window_state().get_state(OF_WINDOW).update(1)
        records = [tuple(element) for element in elements]
        yield key, tuple(context.window()), records, seen.value(), context.current_watermark()

    def clear(self, context: Any) -> None:
        assert context.window_state().get_state(OF_WINDOW).value() == 1
        context.window_state().get_state(OF_WINDOW).clear()


class PlainTrigger(EventTimeTrigger[Any]):
    """The default trigger in all but name: the general path."""


RECORD = st.tuples(st.integers(0, 3), st.integers(-14, 25))
"""Key, and how far from the watermark."""
LAYOUTS = st.sampled_from(["columns", "columns", "columns", "rows", "wide"])
STEP = st.one_of(
    st.tuples(LAYOUTS, st.lists(RECORD, min_size=1, max_size=12)),
    st.tuples(LAYOUTS, st.lists(RECORD, min_size=1, max_size=12)),
    st.tuples(st.just("watermark"), st.integers(1, 15)),
    st.tuples(st.just("restore"), st.integers(1, 3)),
    st.tuples(st.just("swap"), st.integers(1, 3)),
)
KEYS = {"number": ("k",), "text": ("t",), "both": ("t", "k")}


def batches(steps: list[Any], keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The steps with batches that are as the layout says; each record has a number of its own."""
    watermark, numbers = 0, count()
    for kind, what in steps:
        if kind == "watermark":
            watermark += what
            yield kind, watermark
        elif kind in ("restore", "swap"):
            yield kind, what
        else:
            named = {"k": [k for k, _ in what], "t": [f"key {k % 2}" for k, _ in what]}
            named["n"] = [next(numbers) for _ in what]
            if kind == "wide":
                named["w"] = [0.5] * len(what)
            times = np.array([watermark + distance for _, distance in what], np.int64)
            batch = Batch.of_columns(pa.record_batch(named), times, keys)
            yield kind, (as_rows(batch) if kind == "rows" else batch)
    yield "watermark", MAX_TIME


def as_rows(batch: Batch) -> Batch:
    return Batch.of_rows(batch.to_rows(), batch.times, batch.key_list())


def play(steps: list[tuple[str, Any]], size: int, lateness: int, only_rows: bool) -> list[Any]:
    triggers = [EventTimeTrigger[Any](), PlainTrigger()]

    def make() -> WindowOperator:
        windows = TumblingEventTimeWindows[Any](size, 0)
        return WindowOperator(
            windows,
            ListContents(),
            Told(),
            trigger=triggers[0],
            allowed_lateness_ms=lateness,
            late_tag="late",
        )

    run = OperatorRun(make)
    for item, (kind, what) in enumerate(steps):
        run.at(item)
        if kind == "watermark":
            run.watermark(what)
        elif kind in ("restore", "swap"):
            if kind == "swap":
                triggers.reverse()
            run.restore(what)
        else:
            run.process(as_rows(what) if only_rows and what.is_columnar else what)
    for operator in run.operators:
        left = {part.name: part for part in operator.ctx.keyed.freeze()}
        assert not list(left.pop(STORE_NAME).record_batches())  # type: ignore[union-attr]
        left.pop("forgetful", None)
        assert not any(list(part.items()) for part in left.values())  # type: ignore[union-attr]
    return sorted((r.item, r.side or "", r.time, repr(r.value)) for r in run.results)


@settings(SOME, max_examples=150)
@given(
    st.lists(STEP, min_size=1, max_size=20),
    st.sampled_from(sorted(KEYS)),
    st.sampled_from([4, 10, 40]),
    st.sampled_from([0, 0, 3, 12]),
    st.sampled_from([1, 1, 3]),
)
def test_batches_give_what_their_rows_give(
    steps: list[Any], keys: str, size: int, lateness: int, worth: int
) -> None:
    made = list(batches(steps, KEYS[keys]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_windows, "WORTH_ROWS", worth)
        found = play(made, size, lateness, only_rows=False)
    assert found == play(made, size, lateness, only_rows=True)
