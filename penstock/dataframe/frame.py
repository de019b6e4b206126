"""A DataFrame: a stream whose columns are known.  Every method gives a new one and checks what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.dataframe.aggregating import Aggregates, window_columns
from penstock.dataframe.windows import Session, Size, Slide, Tumble, Window
from penstock.datastream import DataStream
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.expressions.face import Expression, col, names_of
from penstock.expressions.nodes import Column, Node
from penstock.operators.columnar.calc import CalcOperator

ColumnLike = str | Expression
Build = Callable[[Env], DataStream[Any]]
"""Makes the stream in an environment."""


class DataFrame:
    """A stream of named columns.  Made by :func:`~penstock.dataframe.from_arrow` and its siblings.

    >>> numbers = from_dict({"n": [1, 2, 3]})
    >>> halves = numbers.with_column("half", col("n") / 2.0).filter(col("n") != 2)
    >>> sorted(row["half"] for row in halves.to_pylist())
    [0.5, 1.5]
    """

    __iter__ = None
    """Rows come by running it; without this, Python would try columns 0, 1, 2."""

    def __init__(self, build: Build, schema: pa.Schema, has_event_time: bool, env: Env | None) -> None:
        doubled = [name for name in set(schema.names) if schema.names.count(name) > 1]
        if doubled:
            raise ConfigError(f"two columns are called {sorted(doubled)[0]!r}; rename one")
        self._build = build
        self._env = env
        self._made: WeakKeyDictionary[Env, DataStream[Any]] = WeakKeyDictionary()
        self.schema: pa.Schema = schema
        """Names and Arrow types of the columns."""
        self.has_event_time = has_event_time
        """Whether rows have event times.  They keep them through every step, whatever columns are left."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def __getitem__(self, name: str) -> Expression:
        """A column, as an expression."""
        if name not in self.schema.names:
            raise ConfigError(f"there is no column {name!r}; there are {', '.join(self.columns)}")
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
            raise ConfigError(f"select has two columns {sorted(doubled)[0]!r}; name one with .alias(...)")
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

        def build(env: Env) -> DataStream[Any]:
            return self._in(env).union(*(other._in(env) for other in others))

        return DataFrame(build, self.schema, timed, one_environment(self, *others))

    def map_batches(
        self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
    ) -> DataFrame:
        """Whole batches through a function, which must give as many rows as it gets, of ``schema``."""
        named: dict[str, Node] = {name: Column(name) for name in schema.names}
        mapped = self._then(lambda stream: stream.map_batches(function), schema)
        return mapped._calc("Check", None, named)

    # --- windows -----------------------------------------------------------------------------------

    def window(self, window: Window, allowed_lateness: Size = 0) -> WindowedDataFrame:
        """Cut into windows of event time; behind it comes ``group_by(...).agg(...)``."""
        if not isinstance(window, Tumble | Slide | Session):
            raise ConfigError(f"window takes Tumble, Slide or Session, not {window!r}")
        if not self.has_event_time:
            raise ConfigError("windows need event time: name its column with time='ts' at the source")
        return WindowedDataFrame(self, window, allowed_lateness)

    def group_by(self, *columns: ColumnLike) -> GroupedDataFrame:
        """Refused without a window so far: results would change with every row."""
        raise ConfigError(
            "group_by needs windows so far, as in df.window(Tumble('1 min')).group_by('country'): without "
            "them every row changes a result, and changes are not there yet"
        )

    # --- results -----------------------------------------------------------------------------------

    def to_data_stream(self, env: Env | None = None) -> DataStream[Any]:
        """The stream of columns, for everything that the DataStream API has, such as ``sink_to``.

        In ``env``, which then runs it, unless the DataFrame was made in an environment.
        """
        if env is not None and self._env not in (None, env):
            raise ConfigError("the DataFrame was made in another environment; leave env out")
        return self._in(self._env or env or Env.get_execution_environment())

    def execute_and_collect(self, job_name: str | None = None) -> Iterator[Any]:
        """Run the program and get the rows here, as they come."""
        return self.to_data_stream().execute_and_collect(job_name)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Run the program and get all rows, as dicts.  The DataFrame must end."""
        with self.to_data_stream().execute_and_collect() as rows:
            return [row.as_dict() for row in rows]

    collect = to_pylist

    def to_arrow(self) -> pa.Table:
        """Run the program and get all rows, as a table."""
        return pa.Table.from_pylist(self.to_pylist(), schema=self.schema)

    def to_pandas(self) -> Any:
        """Run the program and get all rows, as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def take(self, n: int = 10, timeout: float | str = 30.0) -> list[dict[str, Any]]:
        """Run the program until there are ``n`` rows or the time is up (seconds, or ``"2 min"``); end it."""
        return [row.as_dict() for row in self.to_data_stream().take(n, timeout)]

    def show(self, n: int = 10, timeout: float | str = 30.0) -> None:
        """Print some rows, as a table; see :meth:`take`."""
        found = pa.Table.from_pylist(self.take(n, timeout), schema=self.schema)
        print(found.to_pandas().to_string(index=False))

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
        factory = partial(CalcOperator, self.schema, condition, named)
        return self._then(lambda stream: stream._add(name, factory, in_columns=True), factory().schema)


def one_environment(*frames: DataFrame) -> Env | None:
    """The one in which some of them were made; none if they can be made in any."""
    found = {id(frame._env): frame._env for frame in frames if frame._env is not None}
    if len(found) > 1:
        raise ConfigError("these DataFrames were made in different environments, which are different jobs")
    return next(iter(found.values()), None)


class WindowedDataFrame:
    """A DataFrame cut into windows."""

    def __init__(self, frame: DataFrame, window: Window, allowed_lateness: Size) -> None:
        self._frame = frame
        self._window = window
        self._lateness = allowed_lateness

    def group_by(self, *columns: ColumnLike) -> GroupedDataFrame:
        """By these columns or expressions, within each window."""
        if not columns:
            raise ConfigError("group_by needs at least one column")
        return GroupedDataFrame(self._frame, self._window, self._lateness, columns)


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
        prepared = self._frame._calc("Prepare", None, plan.inputs)
        assigner, lateness = self._window.assigner(), self._lateness

        def folded(stream: DataStream[Any]) -> DataStream[Any]:
            windows = stream.key_by(*plan.key_names).window(assigner).allowed_lateness(lateness)
            return windows.agg(*plan.folds)

        found = prepared._then(folded, plan.result_schema)
        return found._calc("Finish", None, {**window_columns(plan.key_names), **plan.results})
