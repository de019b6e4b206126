"""``JdbcSink`` under PyFlink's names: a statement per record, at least once.

There is no JDBC here.  ``jdbc:mysql:``, ``jdbc:mariadb:`` and ``jdbc:postgresql:`` URLs are spoken to by
Python drivers; driver names are taken and not used.  For exactly once see
:mod:`penstock.datastream.connectors.database`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.connectors.database.address import parse_url
from penstock.connectors.database.statement import StatementSink
from penstock.core.errors import ConfigError
from penstock.core.type_tree import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.datastream._wrappers import SinkFunction

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]


@dataclass(frozen=True)
class JdbcConnectionOptions:
    """Where the database is. Made by ``JdbcConnectionOptions.JdbcConnectionOptionsBuilder()``."""

    _url: str = field(repr=False)
    _driver_name: str | None
    _user_name: str | None
    _password: str | None = field(repr=False)

    def get_db_url(self) -> str:
        """The URL."""
        return self._url

    def get_driver_name(self) -> str | None:
        """The Java driver's name, which is not used."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """The user."""
        return self._user_name

    def get_password(self) -> str | None:
        """The password."""
        return self._password

    class JdbcConnectionOptionsBuilder:
        """Collects the options."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """``jdbc:mysql://host:3306/database`` or ``jdbc:postgresql://host:5432/database``."""
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Taken for PyFlink's sake."""
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """The user."""
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """The password."""
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            """The options."""
            if self._url is None:
                raise ConfigError("JdbcConnectionOptions need with_url()")
            return JdbcConnectionOptions(self._url, self._driver_name, self._user_name, self._password)


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """When rows are sent, and how often again."""

    _batch_interval_ms: int = 0
    _batch_size: int = 5_000
    _max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """After how long a batch is sent; 0: only when it is full, and at checkpoints."""
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        """How many rows make a batch full."""
        return self._batch_size

    def get_max_retries(self) -> int:
        """How often a batch is tried again."""
        return self._max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Batches of 5000, no interval, three retries."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Start from the defaults."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Collects the options."""

        def __init__(self) -> None:
            self._options = JdbcExecutionOptions()

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """How many rows make a batch full."""
            self._options = replace(self._options, _batch_size=size)
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """After how long a batch is sent."""
            self._options = replace(self._options, _batch_interval_ms=interval_ms)
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """How often a batch is tried again."""
            self._options = replace(self._options, _max_retries=max_retries)
            return self

        def build(self) -> JdbcExecutionOptions:
            """The options."""
            return self._options


class JdbcSink(SinkFunction):
    """A statement as a sink, for ``add_sink``. Made by :meth:`sink`."""

    @staticmethod
    def sink(  # type: ignore[override]  # PyFlink's name; instances have the sink under it
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Run ``sql`` for each record; its ``?`` are the fields of ``type_info``, a ROW, in order."""
        if not isinstance(type_info, TupleTypeInfo):
            raise ConfigError(
                f"JdbcSink needs the type of a row, such as Types.ROW([...]), not {type_info!r}"
            )
        names = type_info.field_names if isinstance(type_info, RowTypeInfo) else None
        columns = names or [f"f{i}" for i in range(len(type_info.field_types))]
        at, how = jdbc_connection_options, jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(
            StatementSink(
                parse_url(at.get_db_url(), at.get_user_name(), at.get_password()),
                sql,
                columns,
                how.get_batch_size(),
                how.get_batch_interval_ms(),
                how.get_max_retries(),
            )
        )
