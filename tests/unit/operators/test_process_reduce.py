"""Running reductions per key."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_harness import batch, copy_of, opened

from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.operators.aggregate import AccumulateType, KeyedReduceOperator, field_reducer
from penstock.operators.functions import ReduceFunction


class Point(NamedTuple):
    name: str
    x: int


def reduced(kind, field, rows):
    op, _, out = opened(KeyedReduceOperator(field_reducer(kind, field)))
    op.process(batch(rows, keys=["k"] * len(rows)))
    return out.rows


def test_reduce_emits_the_running_result_at_the_record_time():
    class Add(ReduceFunction):
        def reduce(self, value1, value2):
            return value1 + value2

    op, _, out = opened(KeyedReduceOperator(Add()))
    op.process(batch([1, 10, 2], [5, 6, 7], keys=["a", "b", "a"]))
    assert out.log == [(1, 5), (10, 6), (3, 7)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-5, 5)), max_size=20), st.integers(0, 20))
def test_running_results_survive_restore(records, cut):
    keys, values = [k for k, _ in records], [v for _, v in records]
    join = field_reducer(AccumulateType.SUM, 0)
    through, _, expected = opened(KeyedReduceOperator(join))
    through.process(batch(values, keys=keys))
    first, ctx, out1 = opened(KeyedReduceOperator(join))
    first.process(batch(values[:cut], keys=keys[:cut]))
    second, _, out2 = opened(KeyedReduceOperator(join), keyed=copy_of(ctx.keyed))
    second.process(batch(values[cut:], keys=keys[cut:]))
    assert out1.rows + out2.rows == expected.rows


def test_sum_min_max_change_only_their_field():
    rows = [("a", 3), ("b", 1), ("c", 5)]
    assert reduced(AccumulateType.SUM, 1, rows) == [("a", 3), ("a", 4), ("a", 9)]
    assert reduced(AccumulateType.MIN, 1, rows) == [("a", 3), ("a", 1), ("a", 1)]
    assert reduced(AccumulateType.MAX, 1, rows) == [("a", 3), ("a", 3), ("a", 5)]


def test_by_variants_keep_whole_records_and_the_first_on_ties():
    rows = [("a", 3), ("b", 1), ("c", 5), ("d", 5), ("e", 1)]
    assert reduced(AccumulateType.MAX_BY, 1, rows)[-1] == ("c", 5)
    assert reduced(AccumulateType.MIN_BY, 1, rows)[-1] == ("b", 1)


def test_shapes_of_records():
    assert reduced(AccumulateType.SUM, 0, [1.5, 2]) == [1.5, 3.5]
    assert reduced(AccumulateType.SUM, 1, [["a", 1], ["b", 2]]) == [["a", 1], ["a", 3]]
    assert reduced(AccumulateType.MAX, "n", [Row(k="a", n=1), Row(k="b", n=2)]) == [
        Row(k="a", n=1),
        Row(k="a", n=2),
    ]
    assert reduced(AccumulateType.SUM, 1, [Row("a", 1), Row("b", 2)]) == [Row("a", 1), Row("a", 3)]
    assert reduced(AccumulateType.SUM, "x", [Point("p", 1), Point("q", 2)])[-1] == Point("p", 3)
    assert type(reduced(AccumulateType.SUM, "x", [Point("p", 1), Point("q", 2)])[-1]) is Point


def test_clear_errors_name_the_field_and_the_record():
    op, _, _ = opened(KeyedReduceOperator(field_reducer(AccumulateType.SUM, 1)))
    with pytest.raises(ConfigError, match="plain int"):
        op.process(batch([1, 2], keys=["k", "k"]))
    assert op.current_record() == 2
    with pytest.raises(ConfigError, match="by name"):
        reduced(AccumulateType.MIN, "x", [(1, 2), (3, 4)])
    with pytest.raises(ConfigError, match="position or its name"):
        field_reducer(AccumulateType.SUM, 1.5)
