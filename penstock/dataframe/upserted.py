"""Frames of sources that say what a key has now, or that it is gone: changelogs without old rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.core.changes import ChangeMode, with_change
from penstock.dataframe.frame import Build, DataFrame
from penstock.dataframe.grouping import comparable, partitioned
from penstock.dataframe.states import name_states, renamed
from penstock.datastream import DataStream
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.operators.changes.key_hash import hashed_schema
from penstock.operators.changes.last_rows import LastRowsOperator


def upserted(build: Build, schema: pa.Schema, key: Sequence[str], env: Env | None, made: str) -> DataFrame:
    """A frame whose rows replace each other by ``key``; ``build`` gives them with ``$change``, +U or -D.

    State is found in savepoints by ``made``.  As it is it keeps nothing.  A step that must take old rows back
    gets them from the last rows of all keys, which are kept then.  These are only known to a job that has had
    them from the first record on, so a source whose rows are kept has another name in savepoints than one
    whose rows are not: neither goes on where the other was.
    """
    alone = f"{made}, of which nothing is kept"
    for name in key:
        comparable(schema.field(name).type, f"the key {name!r}")
    wide = with_change(schema)
    factory = partial(LastRowsOperator, hashed_schema(wide), tuple(key))

    def with_old_rows(stream: DataStream[Any]) -> DataStream[Any]:
        renamed(stream, "source", alone, made)
        keyed = partitioned(wide, key, stream)
        found: DataStream[Any] = keyed._keyed("Last Rows", factory, in_columns=True)
        return found

    frame = DataFrame(build, schema, False, env, ChangeMode.UPSERT, tuple(key))
    name_states(frame, "source", alone)
    frame._retracting = lambda: name_states(
        frame._changed(with_old_rows, schema, ChangeMode.RETRACT), "last-rows", made
    )
    return frame
