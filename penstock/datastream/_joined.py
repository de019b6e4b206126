"""Two streams together: interval join, window join, co-group and temporal join."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import pyarrow as pa

from penstock.core.durations import DurationLike, to_millis
from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.core.typeinfo import DeclaredType, as_type_info, to_arrow
from penstock.datastream import _keyed, _stream
from penstock.graph.nodes import Link
from penstock.operators.columnar.panes import Panes
from penstock.operators.join.cogroup import co_group, window_join
from penstock.operators.join.columnar import ColumnarIntervalJoinOperator, ColumnarWindowJoinOperator
from penstock.operators.join.columnar_temporal import ColumnarTemporalJoinOperator
from penstock.operators.join.columns import ColumnJoin
from penstock.operators.join.functions import JoinKind
from penstock.operators.join.interval import Interval, IntervalJoinOperator
from penstock.operators.join.temporal import TemporalJoinOperator
from penstock.operators.output_tag import OutputTag
from penstock.operators.window.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from penstock.operators.window.evictors import Evictor
from penstock.operators.window.triggers import Trigger

ColumnTypes = tuple[DeclaredType | pa.Schema, DeclaredType | pa.Schema]
"""What the columns of the left and of the right stream are; ``None`` if their own types say it."""


def _checked(stream: Any, call: str) -> _keyed.KeyedStream:
    if not isinstance(stream, _keyed.KeyedStream):
        raise GraphError(
            f"{call} needs keyed streams on both sides: call key_by() on each first", code=Code.NOT_KEYED
        )
    return stream


def _signed_millis(length: DurationLike) -> int:
    """Milliseconds of a length of time that may be negative, also as text: ``"-5 min"``."""
    if isinstance(length, str) and length.strip().startswith("-"):
        return -to_millis(length.strip()[1:])
    return to_millis(length)


def _links(left: _keyed.KeyedStream, right: _keyed.KeyedStream) -> tuple[Link, ...]:
    _stream.together(left, right)
    return left.keyed_links(0) + right.keyed_links(1)


class IntervalJoin:
    """Two keyed streams to be joined within an interval of event time; say which with ``between``."""

    def __init__(self, left: Any, right: Any, how: str) -> None:
        self._left = _checked(left, "interval_join()")
        self._right = _checked(right, "interval_join()")
        self._how = JoinKind.of(how)

    def between(self, lower_bound: DurationLike, upper_bound: DurationLike) -> IntervalJoined:
        """Right records from ``lower_bound`` before or after a left one up to ``upper_bound``, inclusive."""
        return IntervalJoined(
            self._left, self._right, self._how, _signed_millis(lower_bound), _signed_millis(upper_bound)
        )


class _Joined:
    """Two keyed streams, and where what comes too late on either goes."""

    def __init__(self, left: _keyed.KeyedStream, right: _keyed.KeyedStream, how: JoinKind | None) -> None:
        self._left = left
        self._right = right
        self._how = how
        self._late: tuple[str | None, str | None] = (None, None)

    def side_output_left_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Where records of the first stream go that come too late: the watermark or all windows are past."""
        self._late = (output_tag.tag_id, self._late[1])
        return self

    def side_output_right_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Where records of the second stream go that come too late: the watermark or all windows are past."""
        self._late = (self._late[0], output_tag.tag_id)
        return self


class IntervalJoined(_Joined):
    """An interval join that wants a function."""

    def __init__(
        self, left: _keyed.KeyedStream, right: _keyed.KeyedStream, how: JoinKind, lower: int, upper: int
    ) -> None:
        super().__init__(left, right, how)
        self._lower = lower
        self._upper = upper

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave the lower bound itself out."""
        self._lower += 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave the upper bound itself out."""
        self._upper -= 1
        return self

    def process(self, process_join_function: Any, output_type: DeclaredType = None) -> _stream.DataStream:
        """A ``ProcessJoinFunction``, a join function, or a function of two records, for each pair."""
        interval = Interval(self._lower, self._upper)
        factory = _stream.made(IntervalJoinOperator, process_join_function, interval, self._how, self._late)
        return _add(self._left, self._right, "Interval Join", factory, output_type)

    def columns(
        self, suffixes: tuple[str, str] = ("_left", "_right"), types: ColumnTypes = (None, None)
    ) -> _stream.DataStream:
        """All columns of each pair, vectorised; for columnar streams keyed by field names.

        The key columns have their left names; other names that both sides have get the suffix of their side.
        Outer joins, where a side may be null, need the columns of both: ``types`` (row types or Arrow
        schemas, left and right), unless the streams have declared types.
        """
        join = _column_join(self._left, self._right, self._how, suffixes, types)
        interval = Interval(self._lower, self._upper)
        factory = partial(ColumnarIntervalJoinOperator, join, interval, self._late)
        return _add(self._left, self._right, "Interval Join of Columns", factory, None, in_columns=True)


class _TwoStreams:
    """Both sides of a window join or co-group, on the way to their keys."""

    def __init__(self, left: _stream.DataStream, right: _stream.DataStream, how: JoinKind | None) -> None:
        self._left = left._origin if isinstance(left, _keyed.KeyedStream) else left
        self._right = right._origin if isinstance(right, _keyed.KeyedStream) else right
        self._how = how

    def where(self, key_selector: Any) -> _Where:
        """The key of the first stream: a function or the name of a field."""
        return _Where(self, key_selector)


class JoinedStreams(_TwoStreams):
    """Two streams to be joined by key and window: ``where``, ``equal_to``, ``window``, ``apply``."""


class CoGroupedStreams(_TwoStreams):
    """Two streams to be grouped by key and window: ``where``, ``equal_to``, ``window``, ``apply``."""


class _Where:
    def __init__(self, streams: _TwoStreams, first: Any) -> None:
        self._streams = streams
        self._first = first

    def equal_to(self, key_selector: Any) -> _EqualTo:
        """The key of the second stream."""
        left = self._streams._left.key_by(self._first)
        return _EqualTo(left, self._streams._right.key_by(key_selector), self._streams._how)


class _EqualTo:
    def __init__(self, left: _keyed.KeyedStream, right: _keyed.KeyedStream, how: JoinKind | None) -> None:
        self._left = left
        self._right = right
        self._how = how

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowJoined:
        """The windows in which records meet."""
        return WindowJoined(self._left, self._right, self._how, window_assigner)


class WindowJoined(_Joined):
    """A window join or co-group that wants a function."""

    def __init__(
        self, left: _keyed.KeyedStream, right: _keyed.KeyedStream, how: JoinKind | None, assigner: Any
    ) -> None:
        super().__init__(left, right, how)
        self._assigner = assigner
        self._options: dict[str, Any] = {}

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowJoined:
        """When a window emits, if not at its end."""
        self._options["trigger"] = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowJoined:
        """Drop records around each evaluation; the evictor sees pairs of side (0 or 1) and record."""
        self._options["evictor"] = evictor
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> WindowJoined:
        """How long a window is kept, and emits again for late records, after its end."""
        self._options["allowed_lateness_ms"] = to_millis(time_ms)
        return self

    def apply(self, function: Any, output_type: DeclaredType = None) -> _stream.DataStream:
        """A function for each pair of a window, or for a co-group the two lists of its records."""
        options = {**self._options, "late_tags": self._late}
        if self._how is None:
            name, factory = "Co-Group", partial(co_group, self._assigner, function, **options)
        else:
            name, factory = (
                "Window Join",
                partial(window_join, self._assigner, function, self._how, **options),
            )
        factory()
        return _add(self._left, self._right, name, factory, output_type)

    def columns(
        self, suffixes: tuple[str, str] = ("_left", "_right"), types: ColumnTypes = (None, None)
    ) -> _stream.DataStream:
        """All columns of each pair and the window's bounds, vectorised.

        For joins of columnar streams keyed by field names, in tumbling or sliding event-time windows
        without trigger and lateness.  Names and ``types`` as in an interval join, then window_start and
        window_end.
        """
        join = _column_join(self._left, self._right, self._how, suffixes, types)
        assigner = self._assigner
        if type(assigner) not in (TumblingEventTimeWindows, SlidingEventTimeWindows) or self._options:
            raise GraphError(
                "columns() joins in tumbling or sliding event-time windows without trigger and lateness; for "
                "others use apply() with a function of two rows"
            )
        panes = Panes(assigner.size, assigner.slide, assigner.offset)
        factory = partial(ColumnarWindowJoinOperator, join, panes, self._late)
        return _add(self._left, self._right, "Window Join of Columns", factory, None, in_columns=True)


class TemporalJoin:
    """A stream to be joined with the versions of a table; say how with ``process``."""

    def __init__(self, left: Any, versions: Any, how: str) -> None:
        self._left = _checked(left, "temporal_join()")
        self._versions = _checked(versions, "temporal_join()")
        self._how = JoinKind.of(how, JoinKind.INNER, JoinKind.LEFT)
        self._late: str | None = None

    def side_output_late_data(self, output_tag: OutputTag[Any]) -> TemporalJoin:
        """Where records go whose time the watermark has passed."""
        self._late = output_tag.tag_id
        return self

    def process(self, join_function: Any, output_type: DeclaredType = None) -> _stream.DataStream:
        """A join function, or a function of two records, for each record and its version."""
        factory = _stream.made(TemporalJoinOperator, join_function, self._how, self._late)
        return _add(self._left, self._versions, "Temporal Join", factory, output_type)

    def columns(
        self, suffixes: tuple[str, str] = ("_left", "_right"), types: ColumnTypes = (None, None)
    ) -> _stream.DataStream:
        """All columns of each record and its version, vectorised; for columnar streams keyed by field names.

        Names and ``types`` as in an interval join.  A version ends where the next one of its key begins.
        """
        join = _column_join(self._left, self._versions, self._how, suffixes, types)
        factory = partial(ColumnarTemporalJoinOperator, join, self._late)
        return _add(self._left, self._versions, "Temporal Join of Columns", factory, None, in_columns=True)


def _add(
    left: _keyed.KeyedStream,
    right: _keyed.KeyedStream,
    name: str,
    factory: Any,
    output_type: DeclaredType,
    in_columns: bool = False,
) -> _stream.DataStream:
    links = _links(left, right)
    properties = {"keyed": True, "stateful": True, "in_columns": in_columns}
    return left._add(name, factory, links=links, output_type=output_type, **properties)


def _column_join(
    left: _keyed.KeyedStream,
    right: _keyed.KeyedStream,
    how: JoinKind | None,
    suffixes: tuple[str, str],
    types: ColumnTypes,
) -> ColumnJoin:
    if how is None:
        raise GraphError("columns() joins; for co-groups give a function of two lists of rows")
    if not left.keys.columns or not right.keys.columns:
        raise GraphError('columns() needs both streams keyed by field names, as in key_by("user")')
    schemas = (
        (_schema(left, types[0]), _schema(right, types[1])) if how is not JoinKind.INNER else (None, None)
    )
    return ColumnJoin(left.keys.columns, right.keys.columns, suffixes, how, schemas)


def _schema(stream: _keyed.KeyedStream, declared: DeclaredType | pa.Schema) -> pa.Schema | None:
    """The columns of a stream, as far as somebody declared them."""
    if isinstance(declared, pa.Schema):
        return declared
    found = to_arrow(as_type_info(declared) or stream.get_type())
    if found is None or not pa.types.is_struct(found):
        if declared is not None:
            raise GraphError(
                f"{declared!r} does not say what the columns are; give Types.ROW_NAMED or a schema"
            )
        return None
    return pa.schema(list(found))


def no_loops() -> GraphError:
    """The answer to ``iterate()``."""
    return GraphError(
        "iterative streams are not supported: snapshots need a dataflow without loops. Write what goes "
        "around to a topic and read it as a source, or keep it in keyed state with timers"
    )
