"""PyFlink's ``table.table_environment``: statements, tables and streams, over a session of SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from sqlglot import exp

from penstock.common import Configuration
from penstock.core.errors import ConfigError
from penstock.dataframe import from_arrow, from_pandas, from_records
from penstock.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.sql import dialect
from penstock.sql.errors import Text
from penstock.sql.explaining import explained
from penstock.sql.relations import Relation
from penstock.sql.session import Outcome, session_of
from penstock.sql.writing import insert
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.schema import Schema
from penstock.table.statement_set import StatementSet
from penstock.table.streams import frame_of
from penstock.table.table import Table
from penstock.table.table_config import TableConfig
from penstock.table.table_descriptor import TableDescriptor
from penstock.table.table_result import TableResult
from penstock.table.types import DataType

__all__ = ["StreamTableEnvironment", "TableEnvironment"]


class TableEnvironment:
    """Runs statements and makes tables.

    >>> t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    >>> t_env.sql_query("SELECT n + 1 AS m FROM (VALUES (1)) AS t(n)").execute().print()
    +--------------+
    |            m |
    +--------------+
    |            2 |
    +--------------+
    1 row
    """

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self._env = env
        self._session = session_of(env)
        self._made = 0

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """An environment of its own."""
        return TableEnvironment(_environment(environment_settings))

    def get_config(self) -> TableConfig:
        """Settings."""
        return TableConfig(self._env)

    # --- statements --------------------------------------------------------------------------------

    def execute_sql(self, stmt: str) -> TableResult:
        """One statement.  An INSERT starts a job; ``wait()`` on what it returns to wait for its end."""
        outcome = self._session.perform(dialect.one(stmt), Text(stmt))
        if outcome.frame is not None:
            return TableResult(outcome.frame)
        if outcome.inserts and not self._session.in_set:
            return self._started(f"insert-{outcome.said}")
        return TableResult(rows=None if outcome.rows is None else list(outcome.rows))

    def sql_query(self, query: str) -> Table:
        """A query as a table."""
        node, text = dialect.one(query), Text(query)
        if not isinstance(node, exp.Query | exp.Values):
            raise text.refuse(node, "sql_query takes a query; execute_sql takes every statement")
        return Table(self._session.query(node, text), self)

    def explain_sql(self, stmt: str, *extra_details: Any) -> str:
        """The plan of a statement."""
        return "\n".join(explained(self._session, dialect.one(stmt), Text(stmt)))

    def create_statement_set(self) -> StatementSet:
        """Gathers INSERTs for one job."""
        return StatementSet(self)

    # --- tables ------------------------------------------------------------------------------------

    def from_path(self, path: str) -> Table:
        """A table or view by its name."""
        name = path.rpartition(".")[2].strip("`")
        found = self._session.relation(name)
        if found is None:
            raise ConfigError(f"there is no table {name!r}{self._session.near(name)}")
        return Table(found, self)

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """A table without a name of its own."""
        name = self._new_name()
        self.create_temporary_table(name, descriptor)
        return self.from_path(name)

    def from_elements(self, elements: Any, schema: Any = None, verify_schema: bool = True) -> Table:
        """Rows at hand; ``schema`` is a list of names or a ``DataTypes.ROW``."""
        rows = [tuple(row) for row in elements]
        if isinstance(schema, DataType):
            fields = pa.schema(list(schema.arrow))
            return self._table(from_records(rows, fields))
        names = list(schema) if schema else [f"_{at + 1}" for at in range(len(rows[0]))]
        return self._table(from_records(rows, names))

    def from_pandas(self, pdf: Any, schema: Any = None, splits_num: int = 1) -> Table:
        """The rows of a pandas DataFrame."""
        found = self._table(from_pandas(pdf))
        return found if schema is None or isinstance(schema, DataType) else found.alias(*schema)

    def from_arrow(self, table: pa.Table) -> Table:
        """The rows of an Arrow table; Penstock's own."""
        return self._table(from_arrow(table))

    def create_temporary_table(
        self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False
    ) -> None:
        """A table as ``CREATE TABLE`` makes one."""
        name = path.rpartition(".")[2]
        if self._session.catalog.is_known(name):
            if ignore_if_exists:
                return
            raise ConfigError(f"{name!r} is there already; drop_temporary_table({name!r}) first")
        self._session.define(descriptor.define(name))

    create_table = create_temporary_table

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Any, *fields_or_schema: Any
    ) -> None:
        """Lets statements read a table, or a stream, by a name."""
        table = table_or_data_stream
        if isinstance(table, DataStream):
            table = self._from_stream(table, *fields_or_schema)
        if not isinstance(table, Table):
            raise ConfigError(f"a view is made of a Table or a DataStream, not of {type(table).__name__}")
        relation = table._relation
        self._session.catalog.forget(view_path)
        self._session.catalog.views[view_path] = lambda: relation

    create_view = register_table = create_temporary_view

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Lets statements call a ``udf``."""
        self._session.register_function(path, function)

    create_temporary_system_function = register_function = create_temporary_function

    def drop_temporary_table(self, table_path: str) -> bool:
        """Forget a table; whether there was one."""
        known = self._session.catalog.is_known(table_path)
        self._session.catalog.forget(table_path)
        return known

    drop_temporary_view = drop_table = drop_temporary_table

    def drop_temporary_function(self, path: str) -> bool:
        """Forget a function; whether there was one."""
        return self._session.catalog.functions.pop(path, None) is not None

    def list_tables(self) -> list[str]:
        """The names of tables and views."""
        return self._session.catalog.names

    def list_views(self) -> list[str]:
        """The names of views."""
        return sorted(self._session.catalog.views)

    def list_user_defined_functions(self) -> list[str]:
        """The names of functions."""
        return sorted(self._session.catalog.functions)

    # --- within ------------------------------------------------------------------------------------

    def _table(self, frame: Any) -> Table:
        return Table(Relation.of(frame, None, "rows"), self)

    def _from_stream(self, stream: DataStream[Any], schema: Any = None, *more: Any) -> Table:
        if more or (schema is not None and not isinstance(schema, Schema)):
            raise ConfigError("columns of a stream are named by Schema.new_builder().column(...).build()")
        frame, times = frame_of(stream, schema)
        return Table(Relation.of(frame, None, "stream", times), self)

    def _new_name(self) -> str:
        self._made += 1
        return f"unnamed_table_{self._made}"

    def _name_of(self, table: Table) -> str:
        """A name under which statements find a table, as in ``f"SELECT * FROM {table}"``."""
        name = self._new_name()
        self.create_temporary_view(name, table)
        return name

    def _target(self, path: Any) -> str:
        if isinstance(path, TableDescriptor):
            name = self._new_name()
            self.create_temporary_table(name, path)
            return name
        return str(path).rpartition(".")[2]

    def _insert_all(self, inserts: Sequence[str | tuple[str, Table]]) -> list[str]:
        """Add the sinks of all, or of none if one is refused; the names of their tables."""
        session, targets = self._session, []
        with session.a_set():
            for it in inserts:
                if isinstance(it, str):
                    targets.append(self._insert_sql(it).said.removeprefix("into "))
                else:
                    session.in_the_set(self._insert(*it))
                    targets.append(it[0])
        return targets

    def _insert(self, target: str, table: Table) -> Callable[[], None]:
        definition = self._session.catalog.tables.get(target)
        if definition is None:
            raise ConfigError(f"there is no table {target!r} to write to{self._session.near(target)}")
        node = exp.Insert(this=exp.to_table(target))
        return insert(node, definition, table._relation, Text(""), self._env, target)

    def _insert_sql(self, statement: str) -> Outcome:
        node, text = dialect.one(statement), Text(statement)
        if not isinstance(node, exp.Insert):
            raise text.refuse(node, "a statement set takes INSERT INTO statements")
        return self._session.perform(node, text)

    def _started(self, name: str) -> TableResult:
        return TableResult(client=self._env.execute_async(name))

    def _explained(self, table: Table) -> str:
        name = self._name_of(table)
        try:
            return self.explain_sql(f"SELECT * FROM {name}")
        finally:
            self._session.catalog.forget(name)


def _environment(settings: EnvironmentSettings | Configuration) -> StreamExecutionEnvironment:
    if isinstance(settings, Configuration):
        return StreamExecutionEnvironment.get_execution_environment(settings)
    env = StreamExecutionEnvironment.get_execution_environment(settings.get_configuration())
    if not settings.is_streaming_mode():
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


class StreamTableEnvironment(TableEnvironment):
    """Tables and streams in one program."""

    @staticmethod
    def create(  # type: ignore[override]  # PyFlink's own argument comes first
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Over the environment of a program's streams."""
        if isinstance(stream_execution_environment, EnvironmentSettings):
            environment_settings, stream_execution_environment = stream_execution_environment, None
        env = stream_execution_environment
        if env is None:
            env = _environment(environment_settings or EnvironmentSettings.in_streaming_mode())
        elif environment_settings is not None and not environment_settings.is_streaming_mode():
            env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        return StreamTableEnvironment(env)

    def from_data_stream(self, data_stream: DataStream[Any], *fields_or_schema: Any) -> Table:
        """A stream of rows as a table."""
        return self._from_stream(data_stream, *fields_or_schema)

    def to_data_stream(self, table: Table) -> DataStream[Any]:
        """The rows of a table, none of which changes, as a stream."""
        return table._frame.to_data_stream(self._env)

    def to_append_stream(self, table: Table, type_info: Any = None) -> DataStream[Any]:
        """The older name of :meth:`to_data_stream`."""
        return self.to_data_stream(table)

    def to_changelog_stream(self, table: Table, *_: Any) -> DataStream[Any]:
        """The rows of a table with their kinds: inserted, replaced, deleted."""
        changes: Callable[..., DataStream[Any]] | None = getattr(table._frame, "to_changelog_stream", None)
        return self.to_data_stream(table) if changes is None else changes(self._env)

    def from_changelog_stream(self, *_: Any) -> NoReturn:
        """Refused: rows that change come from queries only."""
        raise ConfigError(
            "from_changelog_stream is not there: from_data_stream, and GROUP BY or ROW_NUMBER()"
        )

    def create_temporary_stream_view(self, path: str, data_stream: DataStream[Any], *schema: Any) -> None:
        """Lets statements read a stream by a name."""
        self.create_temporary_view(path, data_stream, *schema)
