"""The columnar window operator against a brute-force model that works record by record."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from columnar_rig import LATE, Job, Model, columns, opened, random_records, results
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, KeyError_, TimestampError
from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.operators.columnar.aggregates import Count, Sum
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.window_agg import ColumnarInput, ColumnarWindowOperator
from penstock.state.heap.backend import heap_state


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 20),
    slide=st.one_of(st.none(), st.integers(1, 20)),
    offset=st.integers(-19, 19),
    lateness=st.sampled_from([0, 0, 3, 12]),
    two_keys=st.booleans(),
    mode=st.sampled_from(["preaggregated", "raw", "side"]),
    steps=st.integers(1, 40),
)
def test_equals_the_model(seed, size, slide, offset, lateness, two_keys, mode, steps):
    rng = random.Random(seed)
    slide = size if slide is None else slide
    panes = Panes(size, slide, offset % slide if offset > 0 else -(-offset % slide))
    keys = [("k", pa.string())] + ([("n", pa.int64())] if two_keys else [])
    job = Job(keys, panes, lateness, mode == "preaggregated", mode == "side")
    model = Model(keys, panes, lateness)
    around = rng.randint(-60, 20)
    for _ in range(steps):
        action = rng.choice("bbbwwr")
        if action == "b":
            records = random_records(rng, rng.choice([1, 3, 20, 150]), around, two_keys)
            job.batch(records)
            model.batch(records)
            around += rng.randint(0, 8)
        elif action == "w":
            time = around - rng.randint(0, 20)
            subtasks = [n for n in range(job.parallelism) if model.times[n] < time and rng.random() < 0.8]
            job.watermark(time, subtasks)
            model.watermark(time, subtasks)
        else:
            parallelism = rng.choice([1, 2, 3])
            job.rescale(parallelism)
            model.rescale(parallelism)
        assert job.output() == model.output()
    everyone = range(job.parallelism)
    job.watermark(MAX_TIME, everyone)
    model.watermark(MAX_TIME, everyone)
    assert job.output() == model.output()
    assert all(window._store.panes() == [] for window in job.windows)
    job.gather_late()
    if mode == "side":
        assert job.dropped == 0 and job.late == model.late
    else:
        assert job.dropped == model.late.total()


KEYS = [("k", pa.string())]


def window(panes, lateness=0, **kwargs):
    return opened(ColumnarWindowOperator(["k"], panes, [Count("c")], allowed_lateness=lateness, **kwargs))


def feed(operator, *pairs):
    operator.process(columns([((key,), time, 0, 0.0) for key, time in pairs], KEYS))


def counts(operator):
    return [(row[0][0], row[1], row[3]) for row in results(operator.ctx.out.take(), 1)]


def restored(operator, panes, lateness=0):
    keyed = heap_state()
    for part in operator.ctx.keyed.freeze():
        keyed.restore_chunks(part.name, list(part.record_batches()))
        part.release()
    again = ColumnarWindowOperator(["k"], panes, [Count("c")], allowed_lateness=lateness)
    return opened(again, keyed=keyed)


def test_a_window_fires_once_and_its_batch_is_typed():
    operator = window(Panes.tumbling(10))
    feed(operator, ("a", 3), ("b", 9), ("a", 10))
    operator.on_watermark(8)
    assert operator.ctx.out.take() == []
    operator.on_watermark(9)
    (batch,) = operator.ctx.out.take()
    assert batch.columns.schema == pa.schema(
        [("k", pa.string()), ("window_start", pa.int64()), ("window_end", pa.int64()), ("c", pa.int64())]
    )
    assert batch.times.tolist() == [9, 9]
    operator.on_watermark(15)
    assert operator.ctx.out.take() == []


def test_late_but_allowed_fires_only_the_touched_key_again_with_full_contents():
    operator = window(Panes.tumbling(10), lateness=5)
    feed(operator, ("a", 1), ("b", 2))
    operator.on_watermark(10)
    assert sorted(counts(operator)) == [("a", 0, 1), ("b", 0, 1)]
    feed(operator, ("a", 3), ("a", 4))
    assert counts(operator) == [("a", 0, 3)]
    operator.on_watermark(14)
    feed(operator, ("a", 3))
    assert counts(operator) == []
    assert operator.ctx.metrics.counter("numLateRecordsDropped").count == 1


def test_a_restored_window_does_not_fire_again_for_untouched_keys():
    panes = Panes.tumbling(10)
    operator = window(panes, lateness=50)
    feed(operator, ("a", 1), ("b", 2))
    operator.on_watermark(20)
    operator.ctx.out.take()
    operator = restored(operator, panes, lateness=50)
    feed(operator, ("a", 3))
    assert counts(operator) == []
    operator = restored(operator, panes, lateness=50)
    operator.on_watermark(9)
    assert counts(operator) == [("a", 0, 2)]
    operator.on_watermark(30)
    assert counts(operator) == []
    feed(operator, ("b", 4))
    assert counts(operator) == [("b", 0, 2)]


def test_a_restored_pane_does_not_return_to_a_sliding_window_that_was_cleaned_up():
    panes = Panes(20, 10)
    operator = window(panes)
    feed(operator, ("a", 1))
    operator.on_watermark(9)
    assert counts(operator) == [("a", -10, 1)]
    operator = restored(operator, panes)
    feed(operator, ("a", 2))
    operator.on_watermark(9)
    assert counts(operator) == [("a", -10, 1)]
    operator.on_watermark(19)
    assert counts(operator) == [("a", 0, 2)]


def test_a_record_between_windows_is_late_only_once_its_own_time_is_over():
    operator = window(Panes(10, 30), lateness=4)
    feed(operator, ("a", 5), ("a", 15), ("a", 25))
    operator.on_watermark(21)
    feed(operator, ("a", 18), ("a", 17), ("a", 15))
    assert counts(operator) == [("a", 0, 1)]
    assert operator.ctx.metrics.counter("numLateRecordsDropped").count == 2


def test_a_large_window_comes_in_batches_of_bounded_size():
    operator = opened(ColumnarWindowOperator(["n"], Panes.tumbling(10), [Count("c")]))
    many = pa.RecordBatch.from_pydict({"n": np.arange(70_000)})
    operator.process(Batch.of_columns(many, np.zeros(70_000, np.int64)))
    operator.on_watermark(MAX_TIME)
    assert [len(batch) for batch in operator.ctx.out.take()] == [65536, 4464]


def test_far_apart_times_cost_nothing_between():
    operator = window(Panes(10, 1))
    feed(operator, ("a", -(10**15)), ("a", 10**15))
    operator.on_watermark(MAX_TIME)
    assert len(counts(operator)) == 20


def test_a_column_that_changes_type_is_cast_or_refused():
    operator = opened(ColumnarWindowOperator(["k"], Panes.tumbling(10), [Sum("v", "s")]))

    def send(values, key_type=pa.string()):
        batch = pa.RecordBatch.from_pydict({"k": pa.array(["a"], key_type), "v": values})
        operator.process(Batch.of_columns(batch, np.zeros(1, np.int64)))

    send(pa.array([1], pa.int16()))
    send(pa.array([2], pa.int64()), pa.dictionary(pa.int8(), pa.large_string()))
    with pytest.raises(ConfigError, match=r"changed its type.*__sum:v.*int64 to double"):
        send(pa.array([0.5]))
    operator.on_watermark(9)
    (batch,) = operator.ctx.out.take()
    assert batch.columns.to_pylist() == [{"k": "a", "window_start": 0, "window_end": 10, "s": 3}]


def test_errors_name_the_thing():
    operator = window(Panes.tumbling(10))
    with pytest.raises(TimestampError):
        feed(operator, ("a", 1), ("a", MIN_TIME))
    with pytest.raises(TimestampError):
        operator.process(Batch.of_columns(pa.RecordBatch.from_pydict({"k": ["a"]})))
    with pytest.raises(KeyError_, match="'k'"):
        feed(operator, ("a", 1), (None, 1))
    with pytest.raises(ConfigError, match=r"no column 'k'.*x, y"):
        bare = pa.RecordBatch.from_pydict({"x": [1], "y": [1]})
        operator.process(Batch.of_columns(bare, np.zeros(1, np.int64)))
    with pytest.raises(ConfigError, match="give the records names"):
        operator.process(Batch.of_rows([1], [1]))
    with pytest.raises(ConfigError, match="negative"):
        window(Panes.tumbling(10), lateness=-1)
    with pytest.raises(ConfigError, match="pre-aggregation"):
        window(Panes.tumbling(10), late_tag=LATE, accepts=ColumnarInput.PARTIALS)
    with pytest.raises(ConfigError, match="__rows"):
        feed(window(Panes.tumbling(10), accepts=ColumnarInput.PARTIALS), ("a", 1))
