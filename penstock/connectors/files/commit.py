"""The committer of the file sink: a pending file gets its final name.

For each committable the two names say what happened before:

=========  =======  ==========================================================
pending    final    meaning
=========  =======  ==========================================================
there      gone     the normal case: rename
there      there    a store without rename died between copy and delete: again
gone       there    committed earlier: success
gone       gone     somebody deleted it, or the driver looks at another disk
=========  =======  ==========================================================

Directories are synced before ``commit`` returns, also for files found committed, since the crash may
have come between the rename and its sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.connectors.files.storage import Storage, storage_of
from penstock.connectors.sink import CommitOutcome, Committer
from penstock.core.errors import ConnectorError


class FileCommittable(NamedTuple):
    """A complete hidden file and the name it is to get."""

    pending: str
    final: str
    replaced: tuple[str, ...] = ()
    """Hidden files whose records are in this one: removed when it is visible."""


class FileCommitter(Committer):
    """Renames pending files. Runs on the driver, which must see the same storage as the slots."""

    def __init__(self, base_path: str) -> None:
        self._storage: Storage = storage_of(base_path)

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        outcomes = [self._commit_one(item.pending, item.final) for item in committables]
        self._storage.sync_directories(item.final for item in committables)
        for item in committables:
            for path in item.replaced:
                self._storage.remove(path)
        return outcomes

    def _commit_one(self, pending: str, final: str) -> CommitOutcome:
        if self._storage.exists(pending):
            self._storage.move(pending, final)
            return CommitOutcome.COMMITTED
        if self._storage.exists(final):
            return CommitOutcome.ALREADY_COMMITTED
        raise ConnectorError(
            f"cannot commit {final!r}: neither it nor its pending file {pending!r} exists. Either it was "
            "deleted or moved away after it was committed, or the driver does not see the storage that the "
            "executors write to; the sink's base path must be on shared storage."
        )
