"""``DataFrame.join_lookup``: rows beside a table that is read once, when the step is written."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.dataframe.changing import only_appends
from penstock.dataframe.join_sides import On, Sides, key_pairs
from penstock.expressions.program import Projection
from penstock.operators.columnar.lookup import LookupOperator

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

MAX_ROWS = 1_000_000
"""What every slot can hold."""


def as_table(table: Any) -> pa.Table:
    """An Arrow table of Arrow, pandas, polars, Spark, a bounded DataFrame, a dict or a list."""
    if hasattr(table, "sparkSession"):
        table = table.limit(MAX_ROWS + 1).toArrow()
    elif hasattr(table, "to_arrow"):
        table = table.to_arrow()
    elif hasattr(table, "iloc"):
        table = pa.Table.from_pandas(table, preserve_index=False)
    elif isinstance(table, dict):
        table = pa.table(table)
    elif isinstance(table, list):
        table = pa.Table.from_pylist(table)
    elif isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise ConfigError(
            f"cannot look rows up in {type(table).__name__}; give a bounded DataFrame, an Arrow "
            "table, or a data frame of pandas, polars or Spark"
        )
    if table.num_rows > MAX_ROWS:
        raise ConfigError(
            f"the table has more than {MAX_ROWS} rows, too many to hold in every slot; read it as a "
            "stream of versions and use join_temporal"
        )
    return table


def join_lookup(left: DataFrame, table: Any, on: On, how: str = "inner", suffix: str = "_right") -> DataFrame:
    """See ``DataFrame.join_lookup``."""
    if how not in ("inner", "left"):
        raise ConfigError(
            f"a lookup join is inner or left, not {how!r}: the table has no rows of its own to show"
        )
    only_appends(left, "join_lookup")
    found = as_table(table)
    described = type(left)(_never_built, found.schema, False, None)
    sides = Sides(left, described, key_pairs(left, described, on), suffix)
    results = sides.results()
    projection = Projection(found.schema, sides.named(1))
    pieces = [projection.apply(batch) for batch in found.to_batches()]
    inside = pa.Table.from_batches(pieces, projection.schema)
    prepared = left._calc("Join Side", None, sides.named(0))
    factory = partial(LookupOperator, prepared.schema, inside, sides.keys, how == "left")
    schema = sides.schema_inside(prepared.schema, inside.schema)
    looked = prepared._then(lambda stream: stream._add("Lookup Join", factory, in_columns=True), schema)
    finished = looked._calc("Joined", None, results)
    finished._bounds, finished._time = left._bounds, left._time
    return finished


def _never_built(env: Any) -> Any:
    raise AssertionError("a table that is looked up is no stream")
