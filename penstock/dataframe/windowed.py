"""Rows cut into windows, and groups within them: what stands behind ``DataFrame.window``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe.aggregating import ALL_ROWS, WINDOW_END, WINDOW_START, Aggregates, window_columns
from penstock.dataframe.changing import only_appends
from penstock.dataframe.window_rows import window_drop_duplicates, window_top_n
from penstock.dataframe.window_steps import WindowStep
from penstock.dataframe.windows import Cumulate, Session, Size, Slide, Tumble, Window, needs_event_time
from penstock.expressions.face import Expression, lit

if TYPE_CHECKING:
    from penstock.dataframe.frame import ColumnLike, DataFrame


def windowed(frame: DataFrame, window: Window, allowed_lateness: Size) -> WindowedDataFrame:
    """See ``DataFrame.window``."""
    if not isinstance(window, Tumble | Slide | Session | Cumulate):
        raise ConfigError(f"window takes Tumble, Slide, Session or Cumulate, not {window!r}")
    only_appends(frame, "window")
    if needs_event_time(window) and not frame.has_event_time:
        raise ConfigError(
            "windows need event time: name its column with time='ts' at the source, or take "
            "windows of the clock with processing_time=True",
            code=Code.NO_EVENT_TIME,
        )
    return WindowedDataFrame(frame, window, allowed_lateness)


class WindowedDataFrame:
    """A DataFrame cut into windows."""

    def __init__(self, frame: DataFrame, window: Window, allowed_lateness: Size) -> None:
        self._frame = frame
        self._window = window
        self._lateness = allowed_lateness

    def group_by(self, *columns: ColumnLike) -> GroupedDataFrame:
        """By these columns or expressions, within each window; a null is a group, too."""
        return GroupedDataFrame(self._frame, self._window, self._lateness, columns)

    def agg(self, *aggregates: Expression) -> DataFrame:
        """All rows of each window together: ``window_start``, ``window_end`` and the aggregates."""
        return self.group_by().agg(*aggregates)

    def top_n(self, n: int, by: Any, partition_by: Any = (), rank: str | None = None) -> DataFrame:
        """The first ``n`` rows of each window, or of each group in it, when it has ended; with its bounds."""
        return window_top_n(self._frame, self._window, n, by, partition_by, rank)

    def drop_duplicates(self, *columns: str, keep: str = "first", order_by: Any = None) -> DataFrame:
        """One row of each distinct value in each window, the first or the last in time; with its bounds."""
        return window_drop_duplicates(self._frame, self._window, columns, keep, order_by)


class GroupedDataFrame:
    """Groups within windows; :meth:`agg` makes one row of each."""

    def __init__(
        self, frame: DataFrame, window: Window, lateness: Size, keys: tuple[ColumnLike, ...]
    ) -> None:
        self._frame = frame
        self._window = window
        self._lateness = lateness
        self._keys = [frame._as_expression(key) for key in keys]

    def agg(self, *aggregates: Expression) -> DataFrame:
        """The keys, ``window_start``, ``window_end`` and a column for each aggregate.

        >>> clicks = from_dict({"user": ["a", "b", "a"], "ts": [1, 2, 3]}, time="ts")
        >>> last = clicks.window(Tumble("1 s")).group_by("user").agg(col("ts").max.alias("last"))
        >>> sorted((row["user"], row["last"]) for row in last.to_pylist())
        [('a', 3), ('b', 2)]
        """
        plan = Aggregates(self._frame.schema, self._keys, aggregates)
        inputs, keys = plan.inputs, plan.key_names
        if not keys:
            inputs, keys = {ALL_ROWS: lit(0).node, **inputs}, [ALL_ROWS]
        folded = WindowStep(keys, self._window, self._lateness, plan.folds)
        found = self._frame._calc("Prepare", None, inputs)._then(folded, plan.result_schema)
        found.has_event_time = timed = needs_event_time(self._window)
        finished = found._calc("Finish", None, {**window_columns(plan.key_names), **plan.results})
        finished._bounds = (WINDOW_START, WINDOW_END) if timed else None
        return finished
