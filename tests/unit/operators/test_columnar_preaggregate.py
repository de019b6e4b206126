"""Pre-aggregation: what it folds, when it stops folding, and that nothing is lost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, TimestampError
from penstock.operators.columnar.aggregates import Count, Sum
from penstock.operators.columnar.fold import Folder, PreAggregateOperator
from penstock.operators.columnar.panes import Panes
from penstock.operators.columnar.plan import AggregatePlan

PLAN = AggregatePlan(["k"], [Count("c"), Sum("v", "s")])
PANES = Panes.tumbling(10)


def batch(keys, first_time=0, spread=1):
    count = len(keys)
    times = first_time + np.arange(count, dtype=np.int64) * spread
    return pa.RecordBatch.from_pydict({"k": keys, "v": np.ones(count)}), times


def test_records_of_one_pane_fold_to_one_row_a_key():
    columns, _ = batch([1, 2] * 50)
    folded, times = Folder(PLAN, PANES).fold(columns, np.arange(100) % 7 + 10)
    assert folded.to_pylist() == [
        {"k": 1, "__rows": 50, "__sum:v": 50.0, "__pane": 10},
        {"k": 2, "__rows": 50, "__sum:v": 50.0, "__pane": 10},
    ]
    assert times.tolist() == [16, 16]


def test_panes_stay_apart_and_keep_their_latest_time():
    columns, times = batch([7] * 100, first_time=-5)
    folded, latest = Folder(PLAN, PANES).fold(columns, times)
    by_pane = dict(zip(folded.column("__pane").to_pylist(), latest.tolist(), strict=True))
    assert by_pane[-10] == -1 and by_pane[0] == 9 and by_pane[90] == 94
    assert sum(folded.column("__rows").to_pylist()) == 100


def test_folding_stops_when_keys_hardly_repeat_and_is_tried_again():
    folder = Folder(PLAN, PANES)
    distinct, repeated = list(range(100)), [1] * 100

    def rows(keys):
        return folder.fold(batch(keys)[0], np.zeros(100, np.int64))[0].num_rows

    assert rows(repeated) == 1
    assert rows(distinct) == 100
    folded = [rows(repeated) for _ in range(34)]
    assert folded[:32] == [100] * 32
    assert folded[32:] == [1, 1]


def test_a_small_batch_of_many_keys_does_not_speak_for_large_ones_behind_it():
    folder, keys = Folder(PLAN, PANES), 50

    def rows(count):
        times = np.zeros(count, np.int64)
        return folder.fold(batch([n % keys for n in range(count)])[0], times)[0].num_rows

    assert rows(80) == keys  # more than half of them: it is hardly worth it
    assert rows(2_560) == 2_560
    assert rows(10_000) == keys


def test_small_batches_pass_through_with_their_own_times():
    columns, times = batch([1] * 5, first_time=8)
    folded, latest = Folder(PLAN, PANES).fold(columns, times)
    assert folded.column("__pane").to_pylist() == [0, 0, 10, 10, 10]
    assert folded.column("__rows").to_pylist() == [1] * 5
    assert latest.tolist() == times.tolist()


@pytest.mark.parametrize("count", [3, 100])
def test_folded_and_unfolded_partials_merge_to_the_same(count):
    columns, times = batch([n % 3 for n in range(count)], spread=0)
    folded, _ = Folder(PLAN, PANES).fold(columns, times)
    raw = pa.table(PLAN.raw_partials(columns))
    rows = PLAN.merge([folded.select(PLAN.columns)]).sort_by("k")
    assert rows.equals(PLAN.merge([raw]).sort_by("k"))


def test_refuses_objects_and_records_without_time():
    operator = PreAggregateOperator(["k"], PANES, [Count("c")])
    with pytest.raises(ConfigError, match="give the records names"):
        operator.process(Batch.of_rows([1], [1]))
    with pytest.raises(TimestampError):
        operator.process(Batch.of_columns(batch([1])[0]))
    operator.process(Batch.of_rows([]))
