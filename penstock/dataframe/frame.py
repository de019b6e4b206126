"""A DataFrame: a stream whose columns are known.  Every method gives a new one and checks what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from penstock.connectors.sink import Sink
from penstock.core.changes import CHANGE, ChangeMode
from penstock.core.codes import KEY_HASH
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe import changing, emitting, ranking, window_rows
from penstock.dataframe.ends import Ends
from penstock.dataframe.grouping import RunningGroups
from penstock.dataframe.join_sides import On
from penstock.dataframe.joining import join
from penstock.dataframe.lookup import join_lookup
from penstock.dataframe.over import OverDataFrame, over
from penstock.dataframe.timed_joins import join_temporal
from penstock.dataframe.window_bounds import Bounds, common_bounds, kept_bounds, kept_time
from penstock.dataframe.window_groups import WindowGroups, has_window, window_groups
from penstock.dataframe.windowed import WindowedDataFrame, windowed
from penstock.dataframe.windows import Size, Window
from penstock.datastream import DataStream, DataStreamSink
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.expressions.face import Expression, col, names_of
from penstock.expressions.nodes import Column, Node
from penstock.operators.columnar.calc import CalcOperator

ColumnLike = str | Expression
Build = Callable[[Env], DataStream[Any]]
"""Makes the stream in an environment."""


class DataFrame(Ends):
    """A stream of named columns.  Made by :func:`~penstock.dataframe.from_arrow` and its siblings.

    >>> numbers = from_dict({"n": [1, 2, 3]})
    >>> halves = numbers.with_column("half", col("n") / 2.0).filter(col("n") != 2)
    >>> sorted(row["half"] for row in halves.to_pylist())
    [0.5, 1.5]
    """

    __iter__ = None
    """Rows come by running it; without this, Python would try columns 0, 1, 2."""

    def __init__(
        self,
        build: Build,
        schema: pa.Schema,
        has_event_time: bool,
        env: Env | None,
        changes: ChangeMode = ChangeMode.APPEND,
        key: tuple[str, ...] = (),
    ) -> None:
        doubled = [name for name in set(schema.names) if schema.names.count(name) > 1]
        if doubled:
            raise ConfigError(f"two columns are called {min(doubled)!r}; rename one", code=Code.COLUMN_TWICE)
        for name in (CHANGE, KEY_HASH):
            if name in schema.names:
                raise ConfigError(f"the column name {name!r} is taken by the engine; rename the column")
        self._build = build
        self._env = env
        self._made: WeakKeyDictionary[Env, DataStream[Any]] = WeakKeyDictionary()
        self.schema: pa.Schema = schema
        """Names and Arrow types of the columns."""
        self.has_event_time = has_event_time
        """Whether rows have event times.  They keep them through every step, whatever columns are left."""
        self._bounds: Bounds | None = None
        """The columns with the bounds of windows, if rows have the last moment of theirs as time."""
        self._time: str | None = None
        """The column with the event times, if it is known and still there."""
        self.changes = changes
        """Whether rows are added only, replaced by their key, or taken back."""
        self.key = key
        """The columns that tell the rows of an upsert apart."""
        self._retracting: Callable[[], DataFrame] | None = None
        """Makes the same as a frame that takes old rows back; for upserts."""
        self._with_old_rows: DataFrame | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def __getitem__(self, name: str) -> Expression:
        """A column, as an expression."""
        if name not in self.schema.names:
            raise ConfigError(
                f"there is no column {name!r}; there are {', '.join(self.columns)}", code=Code.UNKNOWN_COLUMN
            )
        return col(name)

    def __repr__(self) -> str:
        return f"DataFrame[{', '.join(f'{field.name}: {field.type}' for field in self.schema)}]"

    # --- row by row --------------------------------------------------------------------------------

    def select(self, *columns: ColumnLike) -> DataFrame:
        """These columns and expressions; an expression is called by its alias, or by its text."""
        if not columns:
            raise ConfigError("select needs at least one column")
        chosen = [self._as_expression(column) for column in columns]
        names = names_of(chosen)
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ConfigError(
                f"select has two columns {sorted(doubled)[0]!r}; name one with .alias(...)",
                code=Code.COLUMN_TWICE,
            )
        return self._calc("Select", None, dict(zip(names, (it.node for it in chosen), strict=True)))

    def filter(self, condition: Expression) -> DataFrame:
        """The rows for which the condition is true, and not those for which it is unknown."""
        if not isinstance(condition, Expression):
            raise ConfigError(f"filter takes an expression such as col('price') > 3, not {condition!r}")
        return self._calc("Filter", condition.node, None)

    where = filter

    def with_column(self, name: str, value: Expression) -> DataFrame:
        """With one more column, or one that takes the place of another of that name."""
        return self.with_columns({name: value})

    def with_columns(self, columns: Mapping[str, Expression]) -> DataFrame:
        """With more columns; all are computed of the columns there were before."""
        named: dict[str, Node] = {name: Column(name) for name in self.columns}
        named |= {name: self._as_expression(value).node for name, value in columns.items()}
        return self._calc("With Columns", None, named)

    def drop(self, *names: str) -> DataFrame:
        """Without these columns."""
        for name in names:
            self[name]
        left = [name for name in self.columns if name not in names]
        if not left:
            raise ConfigError("drop leaves no column")
        return self.select(*left)

    def rename(self, names: Mapping[str, str]) -> DataFrame:
        """With other names for some columns, as ``{"old": "new"}``."""
        for name in names:
            self[name]
        return self.select(*(col(name).alias(names.get(name, name)) for name in self.columns))

    def fill_null(self, value: Any, *names: str) -> DataFrame:
        """With a value in place of nulls, in these columns or in all."""
        return self.with_columns({name: self[name].if_null(value) for name in names or self.columns})

    def drop_null(self, *names: str) -> DataFrame:
        """Without the rows that have a null in these columns, or in any."""
        condition, *more = (self[name].is_not_null for name in names or self.columns)
        for other in more:
            condition = condition & other
        return self.filter(condition)

    def union(self, *others: DataFrame) -> DataFrame:
        """All rows of all of them, which must have the same columns."""
        for other in others:
            if not other.schema.equals(self.schema):
                raise ConfigError(f"union needs the same columns: {self!r} is not {other!r}")
        timed = self.has_event_time and all(other.has_event_time for other in others)
        first, *more = changing.united(self, others)

        def build(env: Env) -> DataStream[Any]:
            return first._in(env).union(*(other._in(env) for other in more))

        found = DataFrame(build, self.schema, timed, one_environment(self, *others), first.changes)
        found._bounds = common_bounds((self, *others))
        found._time = self._time if all(other._time == self._time for other in others) else None
        return found

    def map_batches(
        self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
    ) -> DataFrame:
        """Whole batches through a function, which must give as many rows as it gets, of ``schema``."""
        changing.only_appends(self, "map_batches")
        named: dict[str, Node] = {name: Column(name) for name in schema.names}
        mapped = self._then(lambda stream: stream.map_batches(function), schema)
        return mapped._calc("Check", None, named)

    # --- windows -----------------------------------------------------------------------------------

    def window(self, window: Window, allowed_lateness: Size = 0) -> WindowedDataFrame:
        """Cut into windows; behind it comes ``group_by(...).agg(...)``, or ``agg(...)`` over all rows."""
        return windowed(self, window, allowed_lateness)

    def group_by(self, *columns: ColumnLike) -> WindowGroups | RunningGroups:
        """By these columns or expressions; ``agg`` makes one row of each group.

        By ``window_start`` and ``window_end`` of windowed results, and perhaps more: rows that come when the
        window has ended.  By anything else: over all rows there are, with results that change.
        """
        keys = [self._as_expression(column) for column in columns]
        return window_groups(self, keys) if has_window(self, keys) else RunningGroups(self, columns)

    def agg(self, *aggregates: Expression) -> DataFrame:
        """One row of all rows, which changes; as ``group_by().agg(...)``."""
        return self.group_by().agg(*aggregates)

    # --- joins -------------------------------------------------------------------------------------

    def join(
        self,
        other: DataFrame,
        on: On,
        how: str = "inner",
        between: tuple[Size, Size] | None = None,
        ttl: Size | None = None,
        suffix: str = "_right",
    ) -> DataFrame:
        """Rows of both with equal columns ``on``: a name, several, or ``{"left": "right"}``.

        ``how``: inner, left, right, full, semi or anti.  ``between=("-5 s", "1 min")`` says how far after the
        left row, in event time, the right one may be.  Windowed results joined on ``window_start`` and
        ``window_end`` meet within their windows.  Key columns have their left names; another column that
        both have gets the ``suffix`` on the right.  A null equals nothing.

        >>> orders = from_dict({"id": [1, 2], "ts": [1_000, 2_000]}, time="ts")
        >>> paid = from_dict({"id": [1, 2], "ts": [4_000, 99_000]}, time="ts")
        >>> orders.join(paid, on="id", between=(0, "5 s")).to_pylist()
        [{'id': 1, 'ts': 1000, 'ts_right': 4000}]
        """
        return join(self, other, on, how, between, ttl, suffix)

    def join_temporal(
        self, versions: DataFrame, on: On, how: str = "inner", suffix: str = "_right"
    ) -> DataFrame:
        """Each row with the version of its key that was valid at its event time: the last one until then.

        ``how`` is inner or left.  Rows wait until the watermark of both has come to their time.
        """
        return join_temporal(self, versions, on, how, suffix)

    def join_lookup(self, table: Any, on: On, how: str = "inner", suffix: str = "_right") -> DataFrame:
        """Each row with the rows of a table that have equal columns ``on``; rows keep their event time.

        ``table``: a bounded DataFrame, an Arrow table, or a data frame of pandas, polars or Spark, of at most
        a million rows.  It is read here, once, and travels with the job.  ``how`` is inner or left.

        >>> names = {"id": [1, 2], "name": ["ann", "bob"]}
        >>> from_dict({"id": [2, 3]}).join_lookup(names, on="id", how="left").to_pylist()
        [{'id': 2, 'name': 'bob'}, {'id': 3, 'name': None}]
        """
        return join_lookup(self, table, on, how, suffix)

    # --- rows beside others ------------------------------------------------------------------------

    def over(
        self,
        partition_by: Any = (),
        order_by: str | None = None,
        rows: int | str | None = None,
        range: Size | None = None,
    ) -> OverDataFrame:
        """Aggregates beside each row, over the rows of its group up to it, in order of event time.

        ``rows=10``: the ten before it, and itself; ``range="1 min"``: those of the last minute and of its own
        time; neither: all so far.  Behind it comes ``agg(...)``.
        """
        return over(self, partition_by, order_by, rows, range)

    def top_n(
        self, n: int, by: Any, partition_by: str | Sequence[str] = (), rank: str | None = None
    ) -> DataFrame:
        """The first ``n`` rows of each partition by columns: ``top_n(3, col("price").desc(), "auction")``.

        ``rank`` names a column with their numbers, from one; then rows replace each other by number.  With
        ``window_start`` and ``window_end`` of windowed results in the partition, rows come when it has ended.
        """
        if window_rows.by_windows(self, partition_by):
            return window_rows.top_n(self, n, by, partition_by, rank)
        return ranking.topped(self, n, by, partition_by, rank)

    def drop_duplicates(self, *columns: str, keep: str = "first", order_by: Any = None) -> DataFrame:
        """One row of all that are equal in these columns, or in all: the ``"first"`` or ``"last"`` one.

        By their arrival, or by a column.  The first to arrive stays; all others are replaced by better ones.
        With ``window_start`` and ``window_end`` of windowed results among the columns, rows come when the
        window has ended.
        """
        if window_rows.by_windows(self, columns or self.columns):
            return window_rows.drop_duplicates(self, columns, keep, order_by)
        return ranking.deduplicated(self, columns, keep, order_by)

    # --- results -----------------------------------------------------------------------------------

    def to_data_stream(self, env: Env | None = None) -> DataStream[Any]:
        """The stream of columns, for everything that the DataStream API has, such as ``sink_to``.

        In ``env``, which then runs it, unless the DataFrame was made in an environment.
        """
        changing.only_appends(self, "to_data_stream")
        return self._stream(env)

    def to_changelog_stream(self, env: Env | None = None, upsert: bool = False) -> DataStream[Any]:
        """The stream of changes: rows with their kinds, old rows (-U) among them.

        ``upsert``: without old rows, of a DataFrame with a key; for sinks that replace rows by their key.
        """
        return emitting.changelog(self, env, upsert)

    def sink_to(self, sink: Sink, env: Env | None = None) -> DataStreamSink:
        """Write to a sink: rows that stay to any, rows that change to one that replaces rows by their key."""
        return emitting.sunk(self, sink, env)

    def _stream(self, env: Env | None = None) -> DataStream[Any]:
        """The stream as it is, of changes if it has any."""
        if env is not None and self._env not in (None, env):
            raise ConfigError("the DataFrame was made in another environment; leave env out")
        return self._in(self._env or env or Env.get_execution_environment())

    def execute_and_collect(self, job_name: str | None = None) -> Iterator[Any]:
        """Run the program and get the rows here, as they come."""
        return self.to_data_stream().execute_and_collect(job_name)

    def iter_rows(self, include_row_kind: bool = False) -> Iterator[Any]:
        """Run the program and get the rows as dicts, as they come; or pairs of ``RowKind`` and row."""
        return emitting.rows_of(self, include_row_kind)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Run the program and get all rows, as dicts, all changes made.  The DataFrame must end."""
        with self._stream().execute_and_collect() as rows:
            return emitting.applied_rows(self, rows)

    collect = to_pylist

    def take(self, n: int = 10, timeout: float | str = 30.0) -> list[dict[str, Any]]:
        """Run the program until there are ``n`` rows or the time is up (seconds, or ``"2 min"``); end it.

        If rows change: until there were ``n`` changes; what is there then.
        """
        return emitting.applied_rows(self, self._stream().take(n, timeout))

    def _in(self, env: Env) -> DataStream[Any]:
        """Its stream in an environment, the same at each call."""
        stream = self._made.get(env)
        if stream is None:
            stream = self._made[env] = self._build(env)
        return stream

    def _then(self, step: Callable[[DataStream[Any]], DataStream[Any]], schema: pa.Schema) -> DataFrame:
        return DataFrame(lambda env: step(self._in(env)), schema, self.has_event_time, self._env)

    def _as_expression(self, column: ColumnLike) -> Expression:
        if isinstance(column, Expression):
            return column
        if isinstance(column, str):
            return self[column]
        raise ConfigError(
            f"a column is a name or an expression, not {column!r}; a constant is lit({column!r})"
        )

    def _calc(self, name: str, condition: Node | None, named: dict[str, Node] | None) -> DataFrame:
        if self.changes is not ChangeMode.APPEND:
            return changing.calculated(self, name, condition, named)
        factory = partial(CalcOperator, self.schema, condition, named)
        found = self._then(lambda stream: stream._add(name, factory, in_columns=True), factory().schema)
        found._bounds, found._time = kept_bounds(self._bounds, named), kept_time(self._time, named)
        return found

    def _together(self, build: Build, schema: pa.Schema, *others: DataFrame) -> DataFrame:
        """Of several frames with event time."""
        return DataFrame(build, schema, True, one_environment(self, *others))

    def _changed(
        self,
        step: Callable[[DataStream[Any]], DataStream[Any]],
        schema: pa.Schema,
        changes: ChangeMode,
        key: tuple[str, ...] = (),
    ) -> DataFrame:
        """Behind a step whose results change; they have no event time."""
        return DataFrame(lambda env: step(self._in(env)), schema, False, self._env, changes, key)

    def _with(self, other: DataFrame, build: Build, schema: pa.Schema, changes: ChangeMode) -> DataFrame:
        """What is made of two of them; it has no event time."""
        return DataFrame(build, schema, False, one_environment(self, other), changes)

    def _as_retract(self) -> DataFrame:
        """The same, with old rows if they change."""
        if self.changes is not ChangeMode.UPSERT:
            return self
        assert self._retracting is not None
        if self._with_old_rows is None:
            self._with_old_rows = self._retracting()
        return self._with_old_rows


def one_environment(*frames: DataFrame) -> Env | None:
    """The one in which some of them were made; none if they can be made in any."""
    found = {id(frame._env): frame._env for frame in frames if frame._env is not None}
    if len(found) > 1:
        raise ConfigError("these DataFrames were made in different environments, which are different jobs")
    return next(iter(found.values()), None)
