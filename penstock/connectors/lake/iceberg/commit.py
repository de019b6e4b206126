"""The committer of the Iceberg sink: one transaction of the table per epoch, known again by a property.

Beside the files, a transaction sets a property of the table: for every subtask of this start of the job,
the epoch up to which its output is in the table.  Files and property are one change of the table's
metadata, so they are there together or not at all.  A property stays when old snapshots are expired,
which is why the note is not only in the snapshot's summary.

Whoever else commits in between, also another driver with the same epoch, moves the table's head, and our
change is refused: then we look again.  pyiceberg would repeat the append by itself, without looking;
that is turned off for our own copy of the table's metadata.
"""

from __future__ import annotations

import json
from typing import Any

from penstock.connectors.lake.iceberg.table import IcebergAddress, arrow_schema, data_storage, partition_names
from penstock.connectors.lake.iceberg.writer import IcebergCommittable
from penstock.connectors.lake.table_commit import TableCommitter, TableConflict
from penstock.connectors.lake.table_files import DataStorage
from penstock.core.errors import ConnectorError
from penstock.core.optional import require

_NO_RETRIES = {"commit.retry.num-retries": "0"}


class IcebergCommitter(TableCommitter[IcebergAddress]):
    """Appends to the table."""

    def is_noted(self, table: Any, item: IcebergCommittable) -> bool:
        return _notes(table, item).get(str(item.subtask), -1) >= item.epoch

    def append(self, table: Any, items: list[IcebergCommittable]) -> None:
        self._check(table)
        notes: dict[str, dict[str, int]] = {}
        for item in items:
            noted = notes.setdefault(_key(item), _notes(table, item))
            noted[str(item.subtask)] = item.epoch
        properties = {**table.metadata.properties, **_NO_RETRIES}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        transaction = table.transaction()
        try:
            transaction.add_files(
                [path for item in items for path in item.paths],
                snapshot_properties={
                    "penstock.app-id": items[0].app_id,
                    "penstock.epoch": str(items[0].epoch),
                },
                check_duplicate_files=False,
            )
        except FileNotFoundError as e:
            raise ConnectorError(
                f"cannot commit to {self._address.describe()}: {e}. Either orphan files were removed before "
                "they were committed, or the driver does not see the storage that the executors write to, or "
                "the snapshot is of a sink that wrote to another table: then give this one another uid()."
            ) from None
        transaction.set_properties({key: json.dumps(noted) for key, noted in notes.items()})
        try:
            transaction.commit_transaction()
        except require("pyiceberg.exceptions", "iceberg").CommitFailedException as e:
            raise TableConflict from e

    def place(self) -> tuple[DataStorage, str]:
        table = self._address.open()
        return data_storage(table.io, table.location())

    def _check(self, table: Any) -> None:
        """The table may have changed since the job started."""
        partition_by = partition_names(self._address, table)
        self.check_layout(self._address.describe(), arrow_schema(table), partition_by)


def _key(item: IcebergCommittable) -> str:
    return f"penstock.committed.{item.app_id}"


def _notes(table: Any, item: IcebergCommittable) -> dict[str, int]:
    found: dict[str, int] = json.loads(table.properties.get(_key(item), "{}"))
    return found
