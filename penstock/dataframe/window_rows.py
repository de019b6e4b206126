"""Top-N and de-duplication within windows: rows that come once, when their window has ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.aggregating import ALL_ROWS, WINDOW_END, WINDOW_START
from penstock.dataframe.ordering import sort_nodes
from penstock.dataframe.window_bounds import refuse_engine_names
from penstock.dataframe.windows import Session, Tumble, Window, needs_event_time
from penstock.datastream import DataStream
from penstock.datastream._keyed import KeyedStream
from penstock.exchange.partition import Hash
from penstock.expressions.face import lit
from penstock.expressions.nodes import Cast, Column, Node
from penstock.operators.columnar.window_ranks import TIME, Ranking, WindowRanksOperator

if TYPE_CHECKING:
    from penstock.dataframe.frame import DataFrame

_MS = pa.timestamp("ms")
_MOMENT = Tumble(1)
"""Rows that have windows already have the last moment of theirs as their event time."""


def _names(frame: DataFrame, columns: Any) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(f"partition_by takes names of columns, not {name!r}; add it with with_column")
        frame[name]
    return names


def checked_number(n: Any) -> int:
    """How many rows of each group."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ConfigError(f"top_n takes a number of rows from 1 on, not {n!r}")
    return n


def window_top_n(
    frame: DataFrame, window: Window, n: int, by: Any, partition_by: Any = (), rank: str | None = None
) -> DataFrame:
    """The first rows of each window, or of each group in it."""
    return _ranked(frame, window, _names(frame, partition_by), sort_nodes(frame, by), checked_number(n), rank)


def window_drop_duplicates(
    frame: DataFrame, window: Window, columns: tuple[str, ...], keep: str = "first", order_by: Any = None
) -> DataFrame:
    """One row of each distinct value of the columns, or of all columns, in each window."""
    if keep not in ("first", "last"):
        raise ConfigError(f"keep is 'first' or 'last', not {keep!r}")
    names = _names(frame, columns) or tuple(frame.columns)
    if order_by is not None:
        order = [(node, down != (keep == "last")) for node, down in sort_nodes(frame, order_by)]
    elif frame._bounds is None or window is not _MOMENT:
        order = [(Column(TIME), keep == "last")]
    elif keep == "first":
        order = []
    else:
        raise ConfigError(
            "all rows of a window have the same event time, so the last is not known; say order_by="
        )
    return _ranked(frame, window, names, order, 1, None)


def by_windows(frame: DataFrame, names: Any) -> bool:
    """Whether groups are within the windows that a frame's rows have already."""
    given = (names,) if isinstance(names, str) else tuple(names)
    return frame._bounds is not None and set(frame._bounds) <= set(given)


def top_n(frame: DataFrame, n: int, by: Any, partition_by: Any, rank: str | None) -> DataFrame:
    """The first rows of groups within the windows that rows have already."""
    return window_top_n(frame, _MOMENT, n, by, partition_by, rank)


def drop_duplicates(frame: DataFrame, columns: tuple[str, ...], keep: str, order_by: Any) -> DataFrame:
    """One row of each distinct value within the windows that rows have already."""
    return window_drop_duplicates(frame, _MOMENT, columns, keep, order_by)


def _ranked(
    frame: DataFrame,
    window: Window,
    by: tuple[str, ...],
    order: list[tuple[Node, bool]],
    most: int,
    rank: str | None,
) -> DataFrame:
    if isinstance(window, Session) or not needs_event_time(window):
        raise ConfigError(
            f"rows are ranked in Tumble, Slide and Cumulate windows of event time, not {window!r}"
        )
    refuse_engine_names(frame)
    has_bounds = window is _MOMENT
    taken = [*frame.columns, *(() if has_bounds else (WINDOW_START, WINDOW_END))]
    if len(set(taken)) < len(taken) or (rank is not None and rank in taken):
        raise ConfigError(
            "the ranked rows would have two columns of one name; rename one before", code=Code.COLUMN_TWICE
        )
    inputs: dict[str, Node] = {name: Column(name) for name in frame.columns}
    hashed = _hashed(frame, by, inputs)
    sorts: list[tuple[str, bool]] = []
    for number, (node, downwards) in enumerate(order):
        name = node.name if isinstance(node, Column) else f"$o{number}"
        if name != TIME:
            inputs[name] = node
        sorts.append((name, downwards))
    prepared = frame._calc("Prepare", None, inputs)
    ranking = Ranking(by, tuple(sorts), most, rank)
    factory = partial(WindowRanksOperator, prepared.schema, hashed, window.panes(), ranking)
    factory()

    def ranks(stream: DataStream[Any]) -> DataStream[Any]:
        links = KeyedStream(stream, Hash(columns=hashed, nulls=True))._links
        return stream._add("Window Ranks", factory, links=links, keyed=True, stateful=True, in_columns=True)

    more = [] if rank is None else [pa.field(rank, pa.int64())]
    more += [] if has_bounds else [pa.field(name, pa.int64()) for name in (WINDOW_START, WINDOW_END)]
    found = prepared._then(ranks, pa.schema([*prepared.schema, *more]))
    shown: dict[str, Node] = {
        name: Column(name) for name in [*frame.columns, *([] if rank is None else [rank])]
    }
    if not has_bounds:
        shown |= {name: Cast(Column(name), _MS) for name in (WINDOW_START, WINDOW_END)}
    finished = found._calc("Finish", None, shown)
    finished._bounds = frame._bounds if has_bounds else (WINDOW_START, WINDOW_END)
    return finished


def _hashed(frame: DataFrame, by: tuple[str, ...], inputs: dict[str, Node]) -> tuple[str, ...]:
    """The columns that rows of one group meet by; moments as numbers, which are hashed all at once."""
    keys = []
    for name in by:
        if pa.types.is_timestamp(frame.schema.field(name).type):
            inputs[f"$k{name}"] = Cast(Column(name), pa.int64())
            name = f"$k{name}"
        keys.append(name)
    if not keys:
        inputs[ALL_ROWS] = lit(0).node
        keys.append(ALL_ROWS)
    return tuple(keys)
