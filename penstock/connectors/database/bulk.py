"""Bulk load: an epoch's rows in a table of their own, merged into the user's behind its checkpoint.

Rows are loaded (``LOAD DATA LOCAL INFILE``, ``COPY``) into a staging table of this subtask and epoch,
which the commit merges into the target with one statement or two, together with a row in
``penstock_commits``.  No lock on the target is held before the commit, no prepared transaction is needed,
and nothing has to fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.connectors.database import commit_log as ledger
from penstock.connectors.database.committer import CommitLogCommitter
from penstock.connectors.database.connection import Link
from penstock.connectors.database.dialect import Dialect, Fault, Target, names
from penstock.connectors.database.names import Maker
from penstock.connectors.database.rows import Changed, Changes
from penstock.connectors.database.write_target import first_refused, refused, show, to_table
from penstock.connectors.sink import CommitOutcome, SinkWriter
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.errors import ConnectorError
from penstock.core.ids import Epoch

_log = log_of(__name__)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Committable: a staging table. Its name is also its name in the ledger."""

    name: str
    rows: int


class BulkWriter(SinkWriter):
    """Loads one staging table per epoch that has rows."""

    def __init__(self, link: Link, target: Target, changes: Changes, buffer_rows: int, maker: Maker) -> None:
        self._link = link
        self._target = target
        self._changes = changes
        self._buffer_rows = buffer_rows
        self._maker = maker
        self._number = 0
        self._loaded = 0
        self._again = False
        """Whether a load was begun and not seen to end."""
        if maker.subtask == 0:
            link.run(
                lambda c: _drop_leftovers(link.dialect, c, maker), "dropping what earlier attempts loaded"
            )

    def write(self, batch: Batch) -> None:
        self._changes.add(batch)
        if len(self._changes) >= self._buffer_rows:
            self._load()

    def prepare_commit(self, epoch: Epoch) -> list[Any]:
        self._load()
        if not self._loaded:
            return []
        staged = StagedRows(self._staging, self._loaded)
        self._number += 1
        self._loaded = 0
        return [staged]

    def close(self) -> None:
        self._link.close()

    @property
    def _staging(self) -> str:
        return self._maker.name(self._number)

    def _load(self) -> None:
        changed = self._changes.take()
        if not len(changed):
            return
        try:
            self._link.run(lambda c: self._load_once(c, changed), f"loading rows for {self._target.table!r}")
        except Exception as e:
            if self._link.dialect.fault(e) is not Fault.DATA:
                raise
            raise refused(to_table(self._link.dialect, self._target), changed, e) from e
        self._loaded += len(changed)

    def _load_once(self, connection: Any, changed: Changed) -> None:
        """Safe to repeat: what an earlier try loaded after all is removed first."""
        loader = self._link.dialect.loader
        staging = self._link.dialect.quote(self._staging)
        if not self._loaded:
            loader.create_staging(connection, self._staging, self._target)
        if self._again:
            with connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM {staging} WHERE penstock_seq >= {self._loaded}")
        self._again = True
        loader.load(connection, self._staging, self._target, self._loaded, changed.rows, changed.gone)
        self._again = False


class BulkCommitter(CommitLogCommitter):
    """Merges staging tables."""

    def __init__(self, link: Link, target: Target, database: str, clock: Clock | None = None) -> None:
        super().__init__(link, clock)
        self._target = target
        self._database = database

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        maker = Maker.after(job_name, sink_id, self._database, generation)
        self._link.run(
            lambda connection: _drop_leftovers(self._link.dialect, connection, maker), "dropping a failed run"
        )

    def commit_one(self, connection: Any, item: Any) -> CommitOutcome:
        """One staging table."""
        with connection.cursor() as cursor:
            outcome = self.once(connection, item, lambda: self._merge(connection, cursor, item))
        _drop(self._link.dialect, connection, item.name)
        return outcome

    def _merge(self, connection: Any, cursor: Any, item: StagedRows) -> None:
        dialect = self._link.dialect
        if dialect.describe(connection, item.name) is None:
            raise ledger.lost(dialect, item.name, item.rows, "the staging table")
        try:
            self._merge_some(cursor, item, item.rows)
        except Exception as e:
            if dialect.fault(e) is not Fault.DATA:
                raise
            cursor.execute("ROLLBACK")
            raise self._refused(cursor, item, e) from e

    def _merge_some(self, cursor: Any, item: StagedRows, count: int) -> None:
        for statement in self._link.dialect.loader.merge(item.name, self._target, f"penstock_seq < {count}"):
            cursor.execute(statement)

    def _refused(self, cursor: Any, item: StagedRows, error: BaseException) -> ConnectorError:
        """The error for rows that could be loaded but not merged, with the first of them."""
        dialect = self._link.dialect

        def attempt(count: int) -> BaseException | None:
            try:
                cursor.execute("BEGIN")
                self._merge_some(cursor, item, count)
            except Exception as e:
                return e
            finally:
                cursor.execute("ROLLBACK")
            return None

        number, reason = first_refused(item.rows, attempt) or (1, error)
        columns = names(dialect.quote, self._target.columns)
        cursor.execute(f"SELECT {columns} FROM {dialect.quote(item.name)} WHERE penstock_seq = {number - 1}")
        row = cursor.fetchone() or ()
        return ConnectorError(
            f"table {self._target.table!r} of {dialect.address} refuses a row that was loaded for it: "
            f"{dialect.sentence(reason)}. The row: {show(self._target.columns, row)}. It is in table "
            f"{item.name!r} with penstock_seq = {number - 1}: mend or delete it there, or change the target; "
            "then start the job again, which merges the rest."
        )


def _drop_leftovers(dialect: Dialect, connection: Any, maker: Maker) -> None:
    for name in dialect.loader.tables(connection, maker.prefix):
        if maker.is_leftover(name):
            _drop(dialect, connection, name)


def _drop(dialect: Dialect, connection: Any, name: str) -> None:
    """Drop a staging table, unless somebody looks at it, such as a backup: nothing depends on it any more."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {dialect.quote(name)}")
    except Exception as e:
        if dialect.fault(e) is not Fault.BUSY:
            raise
        _log.warning("table %s stays until the next attempt: %s", name, dialect.sentence(e))
