"""The committer of the Delta sink: one transaction of the table per epoch, known again by its writers.

Beside the files, a transaction notes in the log, for every subtask that contributed, the epoch up to
which that subtask's output is in the table (Delta's ``txn`` action).  Files and notes are one log entry,
so they are there together or not at all: a committable whose epoch is noted is committed, and every
other one is not.  Two drivers that try the same epoch at the same time meet at the log: the second entry
would carry the same note, which Delta refuses as a conflict, and looking again shows that it is done.

Other people's commits are conflicts only if they change what an append depends on; then too the answer
is to look again and repeat.
"""

from __future__ import annotations

from typing import Any

from penstock.connectors.lake.delta.table import TableAddress, arrow_schema, check_writable
from penstock.connectors.lake.delta.writer import DeltaCommittable
from penstock.connectors.lake.table_commit import TableCommitter, TableConflict
from penstock.connectors.lake.table_files import DataStorage
from penstock.core.errors import ConnectorError
from penstock.core.optional import require


class DeltaCommitter(TableCommitter[TableAddress]):
    """Appends to the table's log."""

    def is_noted(self, table: Any, item: DeltaCommittable) -> bool:
        noted = table.transaction_version(item.app_id)
        return noted is not None and noted >= item.epoch

    def append(self, table: Any, items: list[DeltaCommittable]) -> None:
        deltalake = require("deltalake", "delta")
        transaction = require("deltalake.transaction", "delta")
        self._check(table, items)
        actions = [
            transaction.AddAction(path, size, partition, modified_ms, True, stats)
            for item in items
            for path, size, partition, modified_ms, stats in item.files
        ]
        notes = [deltalake.Transaction(item.app_id, item.epoch) for item in items]
        properties = deltalake.CommitProperties(
            custom_metadata={"penstock.epoch": str(items[0].epoch)}, app_transactions=notes
        )
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), list(self._partition_by), commit_properties=properties
            )
        except deltalake.exceptions.CommitFailedError as e:
            raise TableConflict from e

    def place(self) -> tuple[DataStorage, str]:
        return self._address.storage(), self._address.uri

    def make_durable(self, since: Any) -> None:
        first = 0 if since is None else since.version() + 1
        self._address.sync_log(first)

    def _check(self, table: Any, items: list[DeltaCommittable]) -> None:
        """The table may have changed since the job started, and somebody may have cleaned up."""
        uri = self._address.uri
        check_writable(uri, table)
        partition_by = table.metadata().partition_columns
        self.check_layout(f"the Delta table {uri!r}", arrow_schema(table), partition_by)
        storage = self._address.storage()
        paths = [added.path for item in items for added in item.files]
        gone = [path for path in paths if not storage.exists(f"{uri}/{path}")]
        if gone:
            raise ConnectorError(
                f"cannot commit to the Delta table {uri!r}: its data file {gone[0]!r} does not exist. Either "
                "VACUUM removed it before it was committed (keep its retention longer than a job may stand "
                "still), or the driver does not see the storage that the executors write to, or the snapshot "
                "is of a sink that wrote to another table: then give this one another uid()."
            )
