"""Built-in aggregates over named columns against the model: vectorised, and row by row where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from test_windows_model import SOME, STEPS, check
from window_cases import AGGREGATES, Case, cases, fixed, sessions

from penstock.core.batch import Batch
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.session_agg import ColumnarSessionOperator
from penstock.operators.columnar.window_agg import ColumnarWindowOperator


def vectorised(case: Case) -> Any:
    windows = case.windows.model
    panes = Panes(windows.size, windows.slide, windows.offset)
    return lambda: ColumnarWindowOperator(
        ["k"], panes, AGGREGATES, allowed_lateness=case.lateness, late_tag="late"
    )


def one_row_of_columns(key: str, number: int, time: int) -> Batch:
    columns = pa.record_batch({"k": pa.array([key]), "n": pa.array([number])})
    return Batch.of_columns(columns, np.array([time], np.int64), ("k",))


BUILT_IN = "built-in aggregates"
BY_EVENT_TIME = fixed().filter(lambda pair: not pair.model.by_clock)


def without_evictor(case: Case) -> Case:
    case.evictor = None
    return case


VECTORISED = cases(windows=BY_EVENT_TIME, triggers=st.none(), function=BUILT_IN).map(without_evictor)


@SOME
@given(VECTORISED, STEPS)
def test_vectorised_aggregates(case: Case, steps: list[Any]) -> None:
    check(case, steps, vectorised(case), one_row_of_columns)


@settings(SOME, max_examples=50)
@given(VECTORISED, STEPS)
def test_vectorised_aggregates_of_rows(case: Case, steps: list[Any]) -> None:
    check(case, steps, vectorised(case))


SESSIONS = cases(
    windows=sessions().filter(lambda pair: not pair.model.by_clock and pair.model.gap is not None),
    triggers=st.none(),
    function=BUILT_IN,
).map(without_evictor)


def vectorised_sessions(case: Case) -> Any:
    return lambda: ColumnarSessionOperator(
        ["k"], case.windows.model.gap, AGGREGATES, allowed_lateness=case.lateness, late_tag="late"
    )


@settings(SOME, max_examples=150)
@given(SESSIONS, STEPS)
def test_vectorised_sessions(case: Case, steps: list[Any]) -> None:
    check(case, steps, vectorised_sessions(case), one_row_of_columns)


@settings(SOME, max_examples=50)
@given(SESSIONS, STEPS)
def test_vectorised_sessions_of_rows(case: Case, steps: list[Any]) -> None:
    check(case, steps, vectorised_sessions(case))


@SOME
@given(cases(function=BUILT_IN), STEPS)
def test_row_by_row_aggregates_with_every_window_and_trigger(case: Case, steps: list[Any]) -> None:
    check(case, steps)
