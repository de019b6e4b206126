"""Joins that event time bounds: rows that are close, rows of one window, rows and the version of their time.

Each is the vectorised join of the DataStream API between a step that names columns by their place and one
that names them back.  Rows of a result never change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.changing import only_appends
from penstock.dataframe.join_sides import On, Sides, key_pairs
from penstock.dataframe.window_groups import window_groups
from penstock.datastream import DataStream, _joined
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.expressions.face import col, count
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.interval import Interval
from penstock.operators.join.semi import ColumnarSemiIntervalJoinOperator

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

SUFFIXES = ("_l", "_r")
_MOMENT = 1
"""Rows of windowed frames have the last moment of their window as their time: a window of one millisecond."""
Schemas = tuple[pa.Schema, pa.Schema]
Connect = Callable[[Any, Any, Schemas], DataStream[Any]]
"""From two keyed streams and their columns to the stream of the join."""


def interval_join(sides: Sides, how: str, interval: Interval) -> DataFrame:
    """Rows with equal keys whose event times are close."""
    _need_event_time("an interval join", sides)

    def connect(kind: str) -> Connect:
        def connected(left: Any, right: Any, types: Schemas) -> DataStream[Any]:
            asked = left.interval_join(right, kind).between(interval.lower, interval.upper)
            return asked.columns(SUFFIXES, types)  # type: ignore[no-any-return]

        return connected

    def connect_semi(left: Any, right: Any, types: Schemas) -> DataStream[Any]:
        join = ColumnJoin(sides.keys, sides.keys, SUFFIXES, JoinKind.LEFT, types)
        factory = partial(ColumnarSemiIntervalJoinOperator, join, interval)
        return _joined._add(left, right, "Interval Semi Join", factory, None, in_columns=True)

    if how == "semi":
        left, right = sides.prepared(0), sides.prepared(1, only_keys=True)
        found = _connected(sides, left, right, connect_semi)
        return found._calc("Joined", None, sides.results(both=False))
    return _joined_frame(sides, how, connect)


def window_join(sides: Sides, how: str) -> DataFrame:
    """Rows of the same window with equal keys."""

    def connect(kind: str) -> Connect:
        def connected(left: Any, right: Any, types: Schemas) -> DataStream[Any]:
            windows = TumblingEventTimeWindows.of(_MOMENT)
            asked = _joined.WindowJoined(left, right, JoinKind.of(kind), windows)
            return asked.columns(SUFFIXES, types)

        return connected

    if how == "semi":
        once = window_groups(sides.right, [col(pair[1]) for pair in sides.pairs]).agg(count().alias("$rows"))
        left, right = sides.prepared(0), replace(sides, right=once).prepared(1, only_keys=True)
        found = _connected(sides, left, right, connect("inner"))
        found = found._calc("Joined", None, sides.results(both=False))
    else:
        found = _joined_frame(sides, how, connect)
    found._bounds = sides.left._bounds
    return found


def join_temporal(
    left: DataFrame, versions: DataFrame, on: On, how: str = "inner", suffix: str = "_right"
) -> DataFrame:
    """See ``DataFrame.join_temporal``."""
    only_appends(left, "join_temporal")
    only_appends(versions, "join_temporal")
    if how not in ("inner", "left"):
        raise ConfigError(f"a temporal join is inner or left, not {how!r}: versions wait for rows, not they")
    sides = Sides(left, versions, key_pairs(left, versions, on), suffix)
    _need_event_time("a temporal join", sides)

    def connect(kind: str) -> Connect:
        return lambda mine, others, types: mine.temporal_join(others, kind).columns(SUFFIXES, types)

    return _joined_frame(sides, how, connect)


def _joined_frame(sides: Sides, how: str, connect: Callable[[str], Connect]) -> DataFrame:
    """The result of a join of both sides, or of an anti join: what a left join leaves alone."""
    if how == "anti":
        return _anti(sides, connect)
    left, right = sides.prepared(0), sides.prepared(1)
    found = _connected(sides, left, right, connect(how))
    for side, keeps in ((0, ("left", "full")), (1, ("right", "full"))):
        alone = sides.alone(side) if how in keeps else None
        if alone is not None:
            found = _and_also(found, alone)
    return found._calc("Joined", None, sides.results())


def _anti(sides: Sides, connect: Callable[[str], Connect]) -> DataFrame:
    left = sides.prepared(0)
    right = sides.prepared(1, only_keys=True).with_column("r0", col("k0").is_not_null)
    found = _connected(sides, left, right, connect("left"))
    found = found.filter(col("r0").is_null)
    alone = sides.alone(0)
    if alone is not None:
        found = _and_also(found.drop("r0"), alone)
    return found._calc("Joined", None, sides.results(both=False))


def _connected(sides: Sides, left: DataFrame, right: DataFrame, connect: Connect) -> DataFrame:
    def build(env: Env) -> DataStream[Any]:
        mine, others = (frame._in(env).key_by(*sides.keys) for frame in (left, right))
        return connect(mine, others, (left.schema, right.schema))

    return left._together(build, sides.schema_inside(left.schema, right.schema), right)


def _and_also(found: DataFrame, alone: DataFrame) -> DataFrame:
    """Both as one; the names say which columns are the same, whatever else is there."""

    def build(env: Env) -> DataStream[Any]:
        return found._in(env).union(alone._in(env))

    return found._together(build, found.schema, alone)


def _need_event_time(what: str, sides: Sides) -> None:
    for which, frame in (("left", sides.left), ("right", sides.right)):
        if not frame.has_event_time:
            raise ConfigError(
                f"{what} needs event time on both sides, and the {which} one has none: name its column with "
                "time='ts' at the source",
                code=Code.NO_EVENT_TIME,
            )
