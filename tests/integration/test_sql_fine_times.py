"""Bounds between event times finer than a millisecond: what SQL says, not what event time tells apart."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.sql import Session
from penstock.testing.local import local_cluster

START = 1_700_000_000_000_000
MS = dt.timedelta(milliseconds=1)
ROWS = 40
BOUNDS: dict[str, Callable[[dt.timedelta], bool]] = {
    "b.ts BETWEEN a.ts AND a.ts + INTERVAL '2' MILLISECOND": lambda d: 0 * MS <= d <= 2 * MS,
    "b.ts > a.ts AND b.ts < a.ts + INTERVAL '2' MILLISECOND": lambda d: 0 * MS < d < 2 * MS,
    "a.ts > b.ts AND a.ts <= b.ts + INTERVAL '1' MILLISECOND": lambda d: -MS <= d < 0 * MS,
    "b.ts BETWEEN a.ts - INTERVAL '1' MILLISECOND AND a.ts": lambda d: -MS <= d <= 0 * MS,
    "b.ts BETWEEN a.ts AND a.ts + INTERVAL '1500' MICROSECOND": lambda d: 0 * MS <= d <= 1.5 * MS,
}


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def times(seed: int, unit: str) -> pa.Array:
    rng = random.Random(seed)
    found = sorted(START + rng.choice([0, 250, 500, 1000, 1250, 2000]) + 1000 * n // 2 for n in range(ROWS))
    return pa.array(found, pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_are_those_of_the_columns(bounds: str, unit: str) -> None:
    sides = [times(seed, unit) for seed in (1, 2)]
    session = Session()
    for name, column in zip("ab", sides, strict=True):
        rows = pa.table({"k": pa.array(["x"] * ROWS), "n": range(ROWS), "ts": column})
        session.register(name, pf.from_arrow(rows, time="ts"), time="ts")
    found = session.sql(f"SELECT a.n AS one, b.n AS two FROM a JOIN b ON a.k = b.k AND {bounds}").to_pylist()
    left, right = (column.cast(pa.timestamp("us")).to_pylist() for column in sides)
    wanted = [
        (one, two)
        for one, at in enumerate(left)
        for two, then in enumerate(right)
        if BOUNDS[bounds](then - at)
    ]
    assert sorted((row["one"], row["two"]) for row in found) == wanted
