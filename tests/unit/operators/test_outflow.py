"""Results that are cut into pieces: none is lost, each keeps its time, and failures name their record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from process_harness import opened

from penstock.core.batch import Batch
from penstock.core.errors import TypeMismatchError
from penstock.operators.functions import ProcessFunction
from penstock.operators.process import ProcessOperator
from penstock.operators.stateless import FlatMapOperator

SHAPES: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda items: (item for item in items),
    "dict": dict.fromkeys,
}
CASES = st.lists(st.none() | st.tuples(st.sampled_from(sorted(SHAPES)), st.integers(0, 7)), max_size=20)


def results(record: tuple[int, Any]) -> Any:
    place, case = record
    return None if case is None else SHAPES[case[0]]([(place, n) for n in range(case[1])])


class Spread(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return results(value)


def operators() -> list[Any]:
    return [FlatMapOperator(results), ProcessOperator(Spread())]


@given(CASES, st.integers(1, 12), st.booleans())
def test_all_results_come_in_order_with_their_times(cases: list[Any], most: int, timed: bool) -> None:
    records = list(enumerate(cases))
    expected = [(row, 100 + row[0] if timed else None) for each in records for row in results(each) or ()]
    for made in operators():
        operator, ctx, out = opened(made)
        ctx.piece_bytes = 1
        operator._outflow.rows = most
        operator.process(Batch.of_rows(records, [100 + place for place, _ in records] if timed else None))
        times = [time if timed else None for _, time in out.log]
        assert list(zip(out.rows, times, strict=True)) == expected
        assert all(len(batch) <= most for batch in out.batches)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize("bad", [0, 4, 9])
def test_a_failure_in_the_middle_of_results_names_their_record(bad: int, most: int, timed: bool) -> None:
    def fails(value: int) -> Any:
        yield value
        yield value if value != bad else 1 // 0

    operator, ctx, _ = opened(FlatMapOperator(fails))
    ctx.piece_bytes = 1
    operator._outflow.rows = most
    with pytest.raises(ZeroDivisionError):
        operator.process(Batch.of_rows(list(range(10)), list(range(10)) if timed else None))
    assert operator._record == bad


def test_what_is_not_a_number_of_results_is_refused_with_its_record() -> None:
    operator, _, _ = opened(FlatMapOperator(lambda value: [value] if value < 5 else value))
    with pytest.raises(TypeMismatchError, match="returned one int"):
        operator.process(Batch.of_rows(list(range(10))))
    assert operator._record == 5
