"""The database sink: one builder for both databases and three ways to be exact.

======================  =========================================  ================================
delivery                exact because                              rows are visible
======================  =========================================  ================================
``Delivery.UPSERT``     writing a row by its key twice is once     at once, before the checkpoint
``Delivery.TWO_PHASE``  a prepared transaction per checkpoint      when the checkpoint is complete
``Delivery.BULK_LOAD``  a staging table per checkpoint, merged     when the checkpoint is complete
======================  =========================================  ================================

The trap: two running jobs of the same name must not write with the same sink into one database, since a
restart clears away what earlier attempts of that job and sink prepared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from penstock.connectors.database import commit_log as ledger
from penstock.connectors.database.address import DatabaseAddress, DatabaseKind, parse_url
from penstock.connectors.database.bulk import BulkCommitter, BulkWriter
from penstock.connectors.database.checks import check_staging, check_table, check_transactional, check_types
from penstock.connectors.database.committer import TwoPhaseCommitter
from penstock.connectors.database.connection import Link, open_dialect
from penstock.connectors.database.dialect import Dialect, TableInfo, Target
from penstock.connectors.database.names import Maker
from penstock.connectors.database.rows import Changes, DeleteWhen, RowReader
from penstock.connectors.database.two_phase import TwoPhaseWriter
from penstock.connectors.database.upsert_writer import EagerWriter
from penstock.connectors.database.write_target import to_table
from penstock.connectors.sink import Committer, SinkWriter, TypedSink, WriterContext
from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.type_tree import RowTypeInfo, TypeInformation


class Delivery(Enum):
    """How rows get into the table. The guarantee is the same with all three: exactly once."""

    UPSERT = "upsert"
    """By key, at once. Needs key columns."""
    TWO_PHASE = "two-phase"
    """In a prepared transaction (XA, ``PREPARE TRANSACTION``). By key, or appended."""
    BULK_LOAD = "bulk load"
    """Through a staging table. By key, or appended."""


@dataclass(frozen=True, slots=True)
class DatabaseSinkSettings:
    """What the builder collects."""

    address: DatabaseAddress
    target: Target
    delivery: Delivery
    delete_when: DeleteWhen
    batch_rows: int
    interval_ms: int
    buffer_rows: int
    retries: int
    type_info: TypeInformation | None = None


class DatabaseSink(TypedSink):
    """Writes to a table. Made by a builder: ``DatabaseSink.builder()...build()``."""

    def __init__(self, settings: DatabaseSinkSettings) -> None:
        self._settings = settings

    @staticmethod
    def builder() -> DatabaseSinkBuilder:
        """Start with nothing set."""
        return DatabaseSinkBuilder()

    def __repr__(self) -> str:
        s = self._settings
        return f"DatabaseSink({s.address}, table={s.target.table!r}, delivery={s.delivery.name})"

    @property
    def upsert_key(self) -> tuple[str, ...]:
        return tuple(self._settings.target.keys)

    def typed(self, type_info: TypeInformation | None) -> DatabaseSink:
        """The same sink for a stream of this type: a ROW's field names are the columns, if none are set."""
        settings = replace(self._settings, type_info=type_info)
        if isinstance(type_info, RowTypeInfo) and not settings.target.columns:
            target = replace(settings.target, columns=tuple(type_info.field_names))
            settings = replace(settings, target=target)
        return DatabaseSink(settings)

    def check(self) -> None:
        """Connect, and look at everything that can be wrong with server, table, columns and keys."""
        settings, target = self._settings, self._target()
        dialect = self._dialect()
        where = f"table {target.table!r} of {settings.address}"
        connection = dialect.open()
        try:
            table = check_table(dialect, connection, target)
            check_types(table, target, settings.type_info, where)
            if settings.delivery is Delivery.UPSERT:
                return
            check_transactional(table, where)
            if settings.delivery is Delivery.TWO_PHASE:
                dialect.transactions.check(connection)
                self._check_key(table, where)
            else:
                dialect.loader.check(connection)
                check_staging(dialect, connection, target)
            ledger.create(dialect, connection)
        finally:
            connection.close()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        settings, target = self._settings, self._target()
        dialect = self._dialect()
        bulk = settings.delivery is Delivery.BULK_LOAD
        link = Link(dialect, settings.retries, local_files=bulk)
        changes = Changes(target, RowReader(target.columns, dialect.adapters, settings.delete_when))
        if settings.delivery is Delivery.UPSERT:
            table = to_table(dialect, target)
            return EagerWriter(link, table, changes, settings.batch_rows, settings.interval_ms, context.clock)
        maker = Maker.of(context, settings.address.database)
        if bulk:
            return BulkWriter(link, target, changes, settings.buffer_rows, maker)
        return TwoPhaseWriter(link, target, changes, settings.buffer_rows, maker)

    def create_committer(self) -> Committer | None:
        settings = self._settings
        link = Link(self._dialect(), settings.retries)
        if settings.delivery is Delivery.TWO_PHASE:
            return TwoPhaseCommitter(link, self._target(), settings.address.database)
        if settings.delivery is Delivery.BULK_LOAD:
            return BulkCommitter(link, self._target(), settings.address.database)
        return None

    def _dialect(self) -> Dialect:
        return open_dialect(self._settings.address)

    def _target(self) -> Target:
        target = self._settings.target
        if not target.columns:
            raise ConfigError(
                f"the sink for table {target.table!r} does not know its columns: name them with "
                "set_columns(), or give the stream a type with field names (Types.ROW_NAMED)"
            )
        for name in (*target.keys, *([target.newer] if target.newer else ())):
            if name not in target.columns:
                raise ConfigError(
                    f"the key or version column {name!r} of table {target.table!r} is not among the columns "
                    f"written: {', '.join(target.columns)}"
                )
        if any("%" in name for name in (target.table, *target.columns)):
            raise ConfigError(
                f"names with % cannot be used: table {target.table!r}, columns {target.columns}"
            )
        return target

    def _check_key(self, table: TableInfo, where: str) -> None:
        """InnoDB locks gaps of a secondary unique index, and keeps them in a prepared transaction."""
        keys = self._settings.target.keys
        if self._settings.address.kind is DatabaseKind.MYSQL and keys and set(keys) != set(table.primary_key):
            raise ConnectorError(
                f"{', '.join(keys)} is not the primary key of {where}: with a secondary unique "
                "index, a prepared transaction of one subtask blocks the others and no checkpoint completes. "
                "Make it the primary key, or use Delivery.UPSERT or Delivery.BULK_LOAD."
            )


class DatabaseSinkBuilder:
    """Settings of a database sink. Needed: a URL and a table; key columns for ``Delivery.UPSERT``."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user: str | None = None
        self._password: str | None = None
        self._target = Target("", ())
        self._delivery: Delivery | None = None
        self._delete_when: DeleteWhen = None
        self._batch_rows = 5_000
        self._interval_ms = 1_000
        self._buffer_rows = 50_000
        self._retries = 5

    def set_url(self, url: str) -> DatabaseSinkBuilder:
        """``mysql://user@host:3306/database`` or ``postgresql://user@host:5432/database``."""
        self._url = url
        return self

    def set_user(self, user: str) -> DatabaseSinkBuilder:
        """The user, if not in the URL."""
        self._user = user
        return self

    def set_password(self, password: str) -> DatabaseSinkBuilder:
        """The password. It is in no message, plan or ``repr``."""
        self._password = password
        return self

    def set_table(self, table: str) -> DatabaseSinkBuilder:
        """The table; it must exist. ``schema.table`` is possible."""
        self._target = replace(self._target, table=table)
        return self

    def set_columns(self, *columns: str) -> DatabaseSinkBuilder:
        """The columns written, in the order of the records' values. Default: the names of the ROW."""
        self._target = replace(self._target, columns=columns)
        return self

    def set_key_columns(self, *columns: str) -> DatabaseSinkBuilder:
        """The columns that identify a row; the table needs a unique key on them. None: rows are appended."""
        self._target = replace(self._target, keys=columns)
        return self

    def set_delivery(self, delivery: Delivery) -> DatabaseSinkBuilder:
        """How rows get into the table. Default: ``UPSERT`` with key columns, ``TWO_PHASE`` without."""
        self._delivery = delivery
        return self

    def bulk_load(self) -> DatabaseSinkBuilder:
        """Short for ``set_delivery(Delivery.BULK_LOAD)``."""
        return self.set_delivery(Delivery.BULK_LOAD)

    def delete_when(self, condition: DeleteWhen) -> DatabaseSinkBuilder:
        """Records that delete their row: those whose field of this name is true, or by a function.

        Without it, rows of kind DELETE do.
        """
        self._delete_when = condition
        return self

    def only_if_newer(self, column: str) -> DatabaseSinkBuilder:
        """Change a row only if this column does not become smaller: a table that never goes back in time."""
        self._target = replace(self._target, newer=column)
        return self

    def set_batch(self, rows: int, interval: DurationLike = 1_000) -> DatabaseSinkBuilder:
        """``UPSERT``: write when this many rows wait, or after this time; 0 waits for size or barrier."""
        self._batch_rows, self._interval_ms = rows, to_millis(interval)
        return self

    def set_buffer_rows(self, rows: int) -> DatabaseSinkBuilder:
        """``TWO_PHASE``, ``BULK_LOAD``: rows kept in memory before some are sent ahead of the barrier."""
        self._buffer_rows = rows
        return self

    def set_max_retries(self, retries: int) -> DatabaseSinkBuilder:
        """How often a writer tries again after faults that may pass, before the attempt fails."""
        self._retries = retries
        return self

    def build(self) -> DatabaseSink:
        """The sink."""
        if self._url is None or not self._target.table:
            raise ConfigError("a database sink needs set_url() and set_table()")
        target = self._target
        delivery = self._delivery or (Delivery.UPSERT if target.keys else Delivery.TWO_PHASE)
        if delivery is Delivery.UPSERT and not target.keys:
            raise ConfigError(
                f"Delivery.UPSERT into table {target.table!r} needs set_key_columns(): without a key a "
                "repeated row is a second row. To append exactly once use Delivery.TWO_PHASE or BULK_LOAD."
            )
        if (self._delete_when is not None or target.newer is not None) and not target.keys:
            raise ConfigError(
                "delete_when() and only_if_newer() find rows by key: set_key_columns() is missing"
            )
        if min(self._batch_rows, self._buffer_rows) < 1 or self._retries < 0:
            raise ConfigError("set_batch() and set_buffer_rows() take at least 1 row, set_max_retries() 0")
        return DatabaseSink(
            DatabaseSinkSettings(
                parse_url(self._url, self._user, self._password),
                target,
                delivery,
                self._delete_when,
                self._batch_rows,
                self._interval_ms,
                self._buffer_rows,
                self._retries,
            )
        )


__all__ = ["DatabaseSink", "DatabaseSinkBuilder", "DatabaseSinkSettings", "Delivery"]
