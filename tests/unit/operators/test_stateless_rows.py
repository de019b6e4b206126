"""Map, filter, flat map and project on rows and columns."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_harness import batch, copy_of, opened

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.operators.functions import FilterFunction, FlatMapFunction, MapFunction
from penstock.operators.stateless import FilterOperator, FlatMapOperator, MapOperator, ProjectOperator
from penstock.state.descriptors import ValueStateDescriptor


class RunningCount(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("n"))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


class Once(FilterFunction):
    """Lets the first record of each key through."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def filter(self, value):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


def test_map_keeps_times_drops_keys_and_emits_none():
    op, _, out = opened(MapOperator(lambda v: None if v == 2 else v * 10))
    op.process(batch([1, 2, 3], [5, 6, 7], keys=["a", "b", "c"]))
    assert out.log == [(10, 5), (None, 6), (30, 7)]
    assert out.batches[0].keys is None


def test_map_accepts_any_callable():
    op, _, out = opened(MapOperator(str))
    op.process(batch([1]))
    assert out.rows == ["1"]


@pytest.mark.parametrize("wrong", [RunningCount, 5, None])
def test_what_is_not_a_function_is_refused(wrong):
    with pytest.raises(ConfigError):
        MapOperator(wrong)


def test_rich_map_behind_key_by_has_state():
    op, ctx, out = opened(MapOperator(RunningCount(), keyed=True))
    op.process(batch([1, 2, 3], keys=["a", "b", "a"]))
    assert out.rows == [(1, 1), (2, 1), (3, 2)]
    again, _, out = opened(MapOperator(RunningCount(), keyed=True), keyed=copy_of(ctx.keyed))
    again.process(batch([4], keys=["a"]))
    assert out.rows == [(4, 3)]


@pytest.mark.parametrize("keyed", [False, True])
def test_map_names_the_failing_record(keyed):
    class Inverse(MapFunction):
        def map(self, value):
            return 1 / value

    op, _, out = opened(MapOperator(Inverse(), keyed=keyed))
    with pytest.raises(ZeroDivisionError):
        op.process(batch([4, 2, 0, 1], keys=[1, 2, 3, 4]))
    assert op.current_record() == 0 and out.batches == []


@pytest.mark.parametrize("keyed", [False, True])
def test_stop_iteration_does_not_swallow_records(keyed):
    class Leaky(MapFunction):
        def map(self, value):
            return next(iter(value))

    op, _, _ = opened(MapOperator(Leaky(), keyed=keyed))
    with pytest.raises(RuntimeError, match="StopIteration"):
        op.process(batch([[1], [], [3]], keys=[1, 2, 3]))
    assert op.current_record() == []


def test_filter_keeps_times_and_keys():
    op, _, out = opened(FilterOperator(lambda v: v % 2))
    op.process(batch([1, 2, 3], [5, 6, 7], keys=["a", "b", "c"]))
    assert out.log == [(1, 5), (3, 7)]
    assert out.batches[0].keys == ["a", "c"]
    op.process(batch([2, 4]))
    assert len(out.batches) == 1


def test_filter_leaves_columns_as_columns():
    op, _, out = opened(FilterOperator(lambda row: row.v > 1))
    columns = pa.RecordBatch.from_pydict({"k": ["a", "b", "c"], "v": [1, 2, 3]})
    op.process(Batch.of_columns(columns, np.array([7, 8, 9]), key_columns=("k",)))
    (result,) = out.batches
    assert result.columns.to_pydict() == {"k": ["b", "c"], "v": [2, 3]}
    assert result.key_columns == ("k",) and result.times.tolist() == [8, 9]


def test_filter_passes_whole_batches_untouched():
    op, _, out = opened(FilterOperator(lambda v: True))
    source = batch([1, 2])
    op.process(source)
    assert out.batches == [source]


def test_rich_filter_behind_key_by_has_state():
    op, _, out = opened(FilterOperator(Once(), keyed=True))
    op.process(batch([1, 2, 3], keys=["a", "a", "b"]))
    assert out.rows == [1, 3]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=20))
def test_flat_map_repeats_times(values):
    op, _, out = opened(FlatMapOperator(lambda v: [v] * v if v else None))
    op.process(batch(values, list(range(len(values)))))
    assert out.log == [(v, t) for t, v in enumerate(values) for _ in range(v)]


def test_flat_map_names_the_failing_record_and_has_keyed_state():
    class Words(FlatMapFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("n"))

        def flat_map(self, value):
            self.count.update((self.count.value() or 0) + 1)
            for word in value.split():
                yield word, self.count.value()

    op, _, out = opened(FlatMapOperator(Words(), keyed=True))
    op.process(batch(["x y", "z"], keys=["a", "a"]))
    assert out.rows == [("x", 1), ("y", 1), ("z", 2)]
    with pytest.raises(AttributeError):
        op.process(batch(["x", 3], keys=["a", "a"]))
    assert op.current_record() == 3


def test_project_rows_and_columns():
    op, _, out = opened(ProjectOperator(2, 0))
    op.process(batch([(1, 2, 3), [4, 5, 6], Row(a=7, b=8, c=9), Row(1, 2, 3)], [1, 2, 3, 4]))
    assert out.log == [((3, 1), 1), ([6, 4], 2), (Row(c=9, a=7), 3), (Row(3, 1), 4)]
    columns = pa.RecordBatch.from_pydict({"a": [1], "b": [2], "c": [3]})
    op.process(Batch.of_columns(columns, np.array([5])))
    assert out.batches[1].columns.to_pydict() == {"c": [3], "a": [1]}
    with pytest.raises(ConfigError, match="positions"):
        ProjectOperator()
