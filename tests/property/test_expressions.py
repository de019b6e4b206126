"""Random expressions over random rows are worth what DuckDB says, wherever batches begin and end."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from expressions_in_duckdb import (
    BOOLS,
    FLOATS,
    INTS,
    SCHEMA,
    TEXTS,
    TIMES,
    RandomExpressions,
    random_batch,
    same,
    sql,
)

from penstock.expressions.program import Predicate, Projection

duckdb = pytest.importorskip("duckdb")
SEEDS = 400


@pytest.mark.parametrize("part", range(4))
def test_expressions_are_worth_what_duckdb_says(part: int) -> None:
    connection = duckdb.connect()
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        rng = random.Random(seed)
        batch = random_batch(rng, rng.choice([0, 1, 7, 40]))
        kind = rng.choice([INTS, FLOATS, TEXTS, BOOLS, TIMES])
        node = RandomExpressions(rng).make(kind, rng.randint(1, 4)).node
        projection = Projection(SCHEMA, {"r": node})
        cut = rng.randint(0, batch.num_rows)
        found = [
            *projection.apply(batch.slice(0, cut)).column(0).to_pylist(),
            *projection.apply(batch.slice(cut)).column(0).to_pylist(),
        ]
        rows = pa.Table.from_batches([batch])  # noqa: F841  # DuckDB finds it by its name
        said = connection.sql(f"SELECT {sql(node)} AS r FROM rows").to_arrow_table().column(0).to_pylist()
        assert same(found, said), f"seed {seed}: {node}"


def test_conditions_keep_the_rows_that_duckdb_keeps() -> None:
    connection = duckdb.connect()
    for seed in range(150):
        rng = random.Random(f"where {seed}")
        batch = random_batch(rng, 30)
        node = RandomExpressions(rng).make(BOOLS, 3).node
        kept = batch.filter(Predicate(SCHEMA, node).mask(batch))
        rows = pa.Table.from_batches([batch])  # noqa: F841
        said = connection.sql(f"SELECT i, s FROM rows WHERE {sql(node)}").to_arrow_table()
        assert kept.column("i").to_pylist() == said.column("i").to_pylist(), f"seed {seed}: {node}"
        assert kept.column("s").to_pylist() == said.column("s").to_pylist(), f"seed {seed}: {node}"
