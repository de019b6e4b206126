"""``map_batches`` in its four formats."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from process_harness import batch, opened

from penstock.core.batch import Batch
from penstock.core.errors import ConfigError, TimestampError
from penstock.core.row import Row
from penstock.operators.map_batches import MapBatchesOperator

COLUMNS = pa.RecordBatch.from_pydict({"k": ["a", "b", "c"], "v": [1, 2, 3]})
TIMES = np.array([10, 20, 30])


def run(fn, source=None, **options):
    op, _, out = opened(MapBatchesOperator(fn, **options))
    op.process(source or Batch.of_columns(COLUMNS, TIMES, key_columns=("k",)))
    return out


def doubled_arrow(columns):
    return columns.set_column(1, "v", pc.multiply(columns.column("v"), 2))


@pytest.mark.parametrize(
    ("format", "fn"),
    [
        ("arrow", doubled_arrow),
        ("arrow", lambda c: pa.Table.from_batches([doubled_arrow(c)])),
        ("pandas", lambda df: df.assign(v=df.v * 2)),
        ("polars", lambda df: df.with_columns(pl.col("v") * 2)),
        ("rows", lambda rows: [Row(k=r.k, v=r.v * 2) for r in rows]),
    ],
)
def test_same_number_of_rows_keeps_times(format, fn):
    out = run(fn, format=format)
    assert [row.as_dict() for row, _ in out.log] == [
        {"k": "a", "v": 2},
        {"k": "b", "v": 4},
        {"k": "c", "v": 6},
    ]
    assert [time for _, time in out.log] == [10, 20, 30]
    assert out.batches[0].key_columns == ()


def test_other_number_of_rows_takes_the_latest_time():
    out = run(lambda c: c.slice(0, 2))
    assert out.batches[0].times.tolist() == [30, 30]


def test_iterators_and_none_and_empty_results():
    out = run(lambda c: (part for part in (None, c.slice(0, 1), c.slice(1, 0), c)))
    assert [len(b) for b in out.batches] == [1, 3]
    assert out.batches[1].times.tolist() == [30, 30, 30]
    assert run(lambda c: None).batches == []


def test_times_from_a_column():
    def stamped(columns):
        times = pa.array([1, 4], pa.int64())
        return pa.RecordBatch.from_arrays([times], names=["ts"])

    assert run(stamped, timestamp_column="ts").batches[0].times.tolist() == [1, 4]
    when = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    out = run(lambda df: pd.DataFrame({"ts": [when]}), format="pandas", timestamp_column="ts")
    assert out.batches[0].times.tolist() == [1_704_067_200_000]
    with pytest.raises(TimestampError, match="'ts'.*k, v"):
        run(lambda c: c, timestamp_column="ts")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, "a"), (2, "b")], {"f0": [1, 2], "f1": ["a", "b"]}),
        ([Row(x=1), Row(x=2)], {"x": [1, 2]}),
        ([{"x": 1}, {"x": 2}], {"x": [1, 2]}),
        ([1, 2], {"f0": [1, 2]}),
    ],
)
def test_rows_become_columns(rows, expected):
    out = run(lambda c: c, source=batch(rows, [1, 2]))
    assert out.batches[0].columns.to_pydict() == expected
    assert out.batches[0].times.tolist() == [1, 2]


def test_clear_errors():
    with pytest.raises(ConfigError, match="got a int"):
        run(lambda c: 5)
    with pytest.raises(ConfigError, match="cannot be turned into columns"):
        run(lambda c: c, source=batch([(1, 2), (1,)]))
    with pytest.raises(ConfigError, match="formats"):
        MapBatchesOperator(lambda c: c, format="csv")
    with pytest.raises(ConfigError, match="timestamp_column"):
        MapBatchesOperator(lambda c: c, format="rows", timestamp_column="ts")


@pytest.mark.parametrize("change", [list.clear, list.reverse, lambda rows: rows.append(4)])
def test_a_function_may_change_the_list_it_gets(change):
    def changing(rows):
        change(rows)
        return rows

    source = batch([1, 2, 3], [10, 20, 30])
    out = run(changing, source, format="rows")
    assert source.to_rows() == [1, 2, 3], "another branch may have the batch, too"
    assert all(len(b) == len(b.times) for b in out.batches)


def test_a_function_may_fill_one_list_again_and_again():
    kept = []

    def refilling(rows):
        for row in rows:
            kept[:] = [row]
            yield kept

    out = run(refilling, batch([1, 2, 3]), format="rows")
    kept.clear()
    assert [b.rows for b in out.batches] == [[1], [2], [3]]
