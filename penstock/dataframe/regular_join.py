"""``join`` without bounds of time: all rows of both sides are kept, and results come, and go, as these do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.changes import ChangeMode, with_change
from penstock.core.durations import to_millis
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.grouping import comparable, partitioned
from penstock.dataframe.windows import Size
from penstock.operators.changes.key_hash import hashed_schema
from penstock.operators.changes.regular_join import KINDS, RegularJoin, RegularJoinOperator

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame
    from penstock.datastream import DataStream
    from penstock.datastream import StreamExecutionEnvironment as Env

On = str | Sequence[str | tuple[str, str]] | Mapping[str, str]


def regular_join(left: DataFrame, right: DataFrame, on: On, how: str, ttl: Size | None = None) -> DataFrame:
    """Rows of both sides with equal keys.

    ``on`` names columns that both have, pairs of a left and a right column, or both.  A column that both
    sides are joined by under one name is there once.  ``ttl``: rows are forgotten so long after they came.
    An inner or semi join of rows that stay gives rows that stay; all others give rows that are taken back.
    """
    if how not in KINDS:
        raise ConfigError(f"join knows {', '.join(KINDS)}, not {how!r}")
    left, right = left._as_retract(), right._as_retract()
    pairs = _pairs(left, right, on)
    appends = all(frame.changes is ChangeMode.APPEND for frame in (left, right))
    stays = appends and how in ("inner", "semi")
    schemas = (_wire(left), _wire(right))
    names = tuple(mine for mine, _ in pairs), tuple(other for _, other in pairs)
    join = RegularJoin(
        how,
        (hashed_schema(schemas[0]), hashed_schema(schemas[1])),
        names,
        pa.schema([(f"key{place}", _plain(left.schema.field(it).type)) for place, it in enumerate(names[0])]),
        _columns(left, right, pairs, how),
        not stays,
        _millis(ttl, how),
    )

    def build(env: Env) -> DataStream[Any]:
        sides = [
            partitioned(schemas[side], names[side], frame._in(env))
            for side, frame in enumerate((left, right))
        ]
        found: DataStream[Any] = sides[0]._keyed(
            "Join",
            partial(RegularJoinOperator, join),
            links=sides[0].keyed_links(0) + sides[1].keyed_links(1),
            in_columns=True,
        )
        return found

    schema = pa.schema(
        [pa.field(name, join.schemas[max(side, 0)].field(source).type) for name, side, source in join.columns]
    )
    mode = ChangeMode.APPEND if stays else ChangeMode.RETRACT
    return left._with(right, build, schema, mode)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _wire(frame: DataFrame) -> pa.Schema:
    return frame.schema if frame.changes is ChangeMode.APPEND else with_change(frame.schema)


def _pairs(left: DataFrame, right: DataFrame, on: On) -> list[tuple[str, str]]:
    if isinstance(on, str):
        on = [on]
    named = on.items() if isinstance(on, Mapping) else on
    pairs = [(it, it) if isinstance(it, str) else tuple(it) for it in named]
    if not pairs or any(len(it) != 2 or not all(isinstance(part, str) for part in it) for it in pairs):
        raise ConfigError(
            "join needs columns that are equal: on='id', on=['id', 'day'] or on=[('id', 'auction')]"
        )
    for mine, other in pairs:
        left[mine], right[other]
        kinds = left.schema.field(mine).type, right.schema.field(other).type
        if not kinds[0].equals(kinds[1]):
            raise ConfigError(
                f"join compares {mine!r}, a {kinds[0]}, with {other!r}, a {kinds[1]}: cast one of them"
            )
        comparable(kinds[0], f"column {mine!r}")
    return [(mine, other) for mine, other in pairs]


def _columns(
    left: DataFrame, right: DataFrame, pairs: Sequence[tuple[str, str]], how: str
) -> tuple[tuple[str, int, str], ...]:
    shared = {mine for mine, other in pairs if mine == other}
    found = [(name, -1 if name in shared else 0, name) for name in left.columns]
    if how not in ("semi", "anti"):
        found += [(name, 1, name) for name in right.columns if name not in shared]
    names = [name for name, _, _ in found]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError(
            f"both sides of the join have a column {doubled[0]!r}; rename one, as in "
            f"other.rename({{{doubled[0]!r}: 'other_{doubled[0]}'}})",
            code=Code.COLUMN_TWICE,
        )
    return tuple(found)


def _millis(ttl: Size | None, how: str) -> int | None:
    if ttl is None:
        return None
    if how != "inner":
        raise ConfigError(
            f"a {how} join with ttl would show rows without a partner whose partner was only forgotten; "
            "leave ttl out, or give bounds of time"
        )
    try:
        found = to_millis(ttl)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"ttl is {ttl!r}: {error}") from error
    if found <= 0:
        raise ConfigError(f"ttl is {ttl!r}, and must be more than nothing")
    return found
