"""The committer of the file sink: a pending file gets its final name.

For each committable the two names say what happened before:

=========  =======  ==========================================================
pending    final    meaning
=========  =======  ==========================================================
there      gone     the normal case: rename
there      there    a store without rename died between copy and delete: again
gone       there    committed earlier: success
gone       gone     somebody took it away, or the driver looks at another disk
=========  =======  ==========================================================

In the last case it matters whose the file is.  One of an attempt that runs under this driver must be there.
One that was committed before, or comes out of a snapshot, may have been read and removed meanwhile: drop
folders are used that way, and a job must be able to start again all the same.

Directories are synced before ``commit`` returns, also for files found committed, since the crash may
have come between the rename and its sync.

With a manifest, files that have their final names are then listed in one entry, see ``manifest.py``;
repeating finds them listed, or lists them.  Only after that may the parts of merged files go.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from penstock.connectors.files.manifest import Manifest, ManifestPlace, has_log
from penstock.connectors.files.naming import generation_of, is_hidden_of, tag_of
from penstock.connectors.sink import CommitOutcome, Committer
from penstock.core.errors import ConnectorError
from penstock.storage.local import LocalStorage
from penstock.storage.places import is_url, storage_of

_log = logging.getLogger("penstock")

_REMEMBERED = 20
"""Commits: an attempt that starts again under this driver repeats no older ones."""


class FileCommittable(NamedTuple):
    """A complete hidden file and the name it is to get."""

    pending: str
    final: str
    replaced: tuple[str, ...] = ()
    """Hidden files whose records are in this one: removed when it is visible."""
    manifest: ManifestPlace | None = None
    """Where it is to be listed."""


class FileCommitter(Committer):
    """Renames pending files. Runs on the driver, which must see the same storage as the slots.

    Restored committables may be of a sink that had another base path, so each says itself where it is.
    """

    def __init__(
        self, base: str, running: Collection[int] = (), manifest: ManifestPlace | None = None
    ) -> None:
        self._running = running
        """Attempts whose writers were started by this driver."""
        self._base = base
        self._inside = f"{base.rstrip('/')}/"
        self._manifest = manifest
        """Where files below ``base`` are listed, whatever was so when they were prepared."""
        self._manifests: dict[ManifestPlace, Manifest] = {}
        self._done: deque[frozenset[str]] = deque(maxlen=_REMEMBERED)

    def commit(self, committables: Sequence[Any]) -> Sequence[CommitOutcome]:
        to_list = self._to_list(committables)
        outcomes = [self._commit_one(item.pending, item.final) for item in committables]
        # Remote names are durable when they were moved.
        local, names = LocalStorage(), [item.final for item in committables if not is_url(item.final)]
        local.sync_directories(name for name in names if local.exists(name))
        if not all(manifest.add(names) for manifest, names in to_list):
            return [CommitOutcome.RETRY] * len(committables)
        for item in committables:
            for path in item.replaced:
                storage_of(path).remove(path)
        self._done.append(frozenset(item.final for item in committables))
        return outcomes

    def withdraw(self, job_name: str, sink_id: str, generation: int) -> None:
        storage, tag = storage_of(self._base), tag_of(job_name, sink_id)
        found = storage.list_files(self._base) if storage.exists(self._base) else []
        for path in found:
            if is_hidden_of(path.rpartition("/")[2], tag, generation):
                storage.remove(path)

    def _to_list(self, committables: Sequence[FileCommittable]) -> list[tuple[Manifest, list[str]]]:
        """The manifests that are concerned, and the files each is to list."""
        names: dict[ManifestPlace, list[str]] = {}
        for item in committables:
            place = self._manifest if item.final.startswith(self._inside) else item.manifest
            if place is not None:
                names.setdefault(place, []).append(item.final)
        for place in names:
            self._manifests.setdefault(place, Manifest(place))
        # No job of ours begins the log of an old base path again, if somebody has removed it.
        listed = (place for place in names if place == self._manifest or has_log(place.base))
        return [(self._manifests[place], names[place]) for place in listed]

    def _commit_one(self, pending: str, final: str) -> CommitOutcome:
        storage = storage_of(final)
        if storage.exists(pending):
            storage.move(pending, final)
            return CommitOutcome.COMMITTED
        if storage.exists(final):
            return CommitOutcome.ALREADY_COMMITTED
        if any(final in names for names in self._done):
            return CommitOutcome.ALREADY_COMMITTED
        if generation_of(pending) in self._running:
            raise ConnectorError(
                f"cannot commit {final!r}: neither it nor its pending file {pending!r} exists. Either it was "
                "deleted, or the driver does not see the storage that the executors write to; the sink's "
                "base path must be on shared storage."
            )
        _log.warning(
            "neither %r of the snapshot nor its pending file exists. That is right if somebody has taken the "
            "file away since it was committed; if not, its records are lost",
            final,
        )
        return CommitOutcome.ALREADY_COMMITTED
