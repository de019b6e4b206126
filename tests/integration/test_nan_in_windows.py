"""NaN is larger than every number: of rows that are grouped at once, in several batches, and one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.common import Configuration, Row
from penstock.dataframe import Cumulate, Session, Slide, Tumble, col
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.operators.columnar.aggregates import Max, Min
from penstock.operators.columnar.row_by_row import RowAggregate
from penstock.testing.local import local_cluster

NAN = float("nan")
WINDOWS = [
    Tumble("1 s"),
    Slide("1 s", "1 s"),
    Session("1 s"),
    Cumulate("1 s", "1 s"),
]
VALUES = {
    "a": [1.5, NAN, -2.0],
    "b": [NAN, None, 0.0],
    "c": [3.0, 4.0, None],
    "d": [NAN, NAN],
    "e": [None],
    "f": [math.inf, NAN],
}


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def shown(value: float | None) -> str:
    return repr(None if value is None else float(value))


WANTED = {
    ("a", "-2.0", "nan"),
    ("b", "0.0", "nan"),
    ("c", "3.0", "4.0"),
    ("d", "nan", "nan"),
    ("e", "None", "None"),
    ("f", "inf", "nan"),
}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("most", [1, 8192])
@pytest.mark.parametrize("window", [*WINDOWS, None], ids=str)
def test_it_is_the_largest(window: Any, most: int, kind: pa.DataType) -> None:
    rows = [(key, value) for key, values in VALUES.items() for value in values] * 12
    table = pa.table(
        {
            "k": [key for key, _ in rows],
            "x": pa.array([value for _, value in rows], kind),
            "ts": pa.array(range(len(rows)), pa.timestamp("ms")),
        }
    )
    settings = Configuration()
    settings.set_integer("penstock.batch.max-rows", most)
    frame = pf.from_arrow(table, time="ts", env=Env.get_execution_environment(settings))
    groups = (frame if window is None else frame.window(window)).group_by("k")
    found = groups.agg(col("x").min.alias("least"), col("x").max.alias("most")).to_pylist()
    assert {(row["k"], shown(row["least"]), shown(row["most"])) for row in found} == WANTED


def of_rows(values: Iterable[float | None]) -> tuple[str, ...]:
    """The least and the most, folded one by one."""
    folding = RowAggregate([Min("x"), Max("x")])
    found = folding.create_accumulator()
    for value in values:
        found = folding.add(Row(x=value), found)
    return tuple(map(shown, folding.get_result(found)))


@pytest.mark.parametrize(("key", "least", "most"), sorted(WANTED))
def test_it_is_the_largest_of_rows(key: str, least: str, most: str) -> None:
    assert set(map(of_rows, itertools.permutations(VALUES[key]))) == {(least, most)}
