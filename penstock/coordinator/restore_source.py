"""Where a job begins: with its own newest checkpoint, or with the snapshot that the user requested.

A requested snapshot (``-s``) wins over checkpoints of the job, with one exception: those that descend from
it.  So a driver that crashed and is started again with the same command line goes on where the job was, and
does not silently go back to the savepoint; while naming another snapshot always goes to that one.
Every checkpoint says in its manifest what its lineage began with (:class:`Origin`).  Pure but for reading.

What a driver restores is matched against its program.  That is reading only and comes before the fence, so
that a start which is refused leaves the driver that runs the job alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.coordinator.job_directory import check_owner
from penstock.coordinator.restore import check_restorable
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import PenstockError, SnapshotError
from penstock.core.handles import digest
from penstock.core.signals import SnapshotKind
from penstock.graph.plan import Plan
from penstock.snapshot.decode import from_json
from penstock.snapshot.manifest import Manifest, Origin
from penstock.snapshot.paths import is_manifest
from penstock.snapshot.recovery import Found, read_manifest
from penstock.snapshot.repository import Repository
from penstock.snapshot.signing import UNSIGNED, Signing
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store

_log = log_of(__name__)


@dataclass(frozen=True, slots=True)
class RequestedSnapshot:
    """What the user requested: the snapshot there, or why it cannot be read."""

    path: str
    found: Found | None
    problem: SnapshotError | None = None


def requested_snapshot(path: str | None, signing: Signing = UNSIGNED) -> RequestedSnapshot | None:
    """Read what the user requested.  One that is gone is only a problem if it is needed."""
    if not path:
        return None
    try:
        return RequestedSnapshot(path, read_manifest(path, signing=signing))
    except SnapshotError as error:
        return RequestedSnapshot(path, None, error)


def choose(own: Found | None, start: RequestedSnapshot | None) -> Found | None:
    """What to restore; raises if a requested snapshot is needed and cannot be read."""
    if start is None:
        return own
    if own is not None and descends(own.manifest, start):
        return own
    if start.problem is not None:
        raise start.problem
    return start.found


def descends(manifest: Manifest, start: RequestedSnapshot) -> bool:
    """Whether the checkpoint's lineage began with the requested snapshot, or is just that snapshot."""
    mine = manifest.origin
    if start.found is not None:
        checksum = _checksum(start.found.manifest)
        return _checksum(manifest) == checksum or (mine is not None and mine.checksum == checksum)
    url = open_store(start.path, create=False).url
    return mine is not None and f"{mine.location}/".startswith(f"{url}/")


def lineage_of(chosen: Found, start: RequestedSnapshot | None) -> Origin | None:
    """What checkpoints written from here on say their lineage began with."""
    if start is not None and start.found is not None:
        checksum = _checksum(start.found.manifest)
        if _checksum(chosen.manifest) == checksum:
            return Origin(str(start.found.location), checksum)
    return chosen.manifest.origin


def say_if_passed_over(chosen: Found | None, start: RequestedSnapshot | None) -> None:
    """A requested snapshot that is not the one restored is worth a warning."""
    if chosen is None or start is None or chosen == start.found:
        return
    _log.warning(
        "the job has gone on from %s before, and its own snapshot %s is newer: that one is restored. To go "
        "back to %s all the same, start the job under another --name or with another checkpoint directory",
        start.path,
        chosen.location,
        start.path,
    )


def _checksum(manifest: Manifest) -> str:
    return digest(manifest.to_json())


def dispose(found: Found) -> None:
    """Delete a savepoint, for a user."""
    if found.manifest.kind is not SnapshotKind.SAVEPOINT:
        raise SnapshotError(
            f"{found.location} is a checkpoint, not a savepoint: it belongs to job "
            f"{found.manifest.job_name!r}, which deletes it when it is not needed",
            code=Code.CHECKPOINT_NOT_SAVEPOINT,
        )
    dispose_claimed(found)


def dispose_claimed(found: Found) -> None:
    """Delete a snapshot that this job took over: first its manifest, so that half of it is never found.

    Of a checkpoint, files that another snapshot in the same directory names stay; all do if there is a
    manifest that cannot be read.
    """
    store = open_store(found.location.root, create=False)
    doomed = set(found.manifest.files())
    if found.manifest.kind is SnapshotKind.CHECKPOINT:
        try:
            doomed -= _named_by_others(store, found.location.manifest)
        except SnapshotError as error:
            _log.warning("the files of the claimed checkpoint %s are left: %s", found.location, error)
            doomed = set()
    store.delete(found.location.manifest)
    for path in sorted(doomed):
        store.delete(path)
    if not store.list():
        store.delete_tree()


def _named_by_others(store: SnapshotStore, manifest: str) -> set[str]:
    others = [path for path in store.list() if is_manifest(path) and path != manifest]
    return {name for path in others for name in from_json(store.read(path), path).files()}


class RestorePoint:
    """What one driver restores, looked up each time it starts the job."""

    def __init__(
        self, repository: Repository, plan: Plan, initial: RequestedSnapshot | None, allow_non_restored: bool
    ) -> None:
        self._repository = repository
        self.plan = plan
        self._initial = initial
        self._allow_non_restored = allow_non_restored

    def find(self, checksums: bool, fenced: bool = False) -> Found | None:
        """The snapshot to restore, or ``None``; raises if the program cannot take it.

        With ``fenced``, the driver before has published between the first look and the fence.
        """
        own = self._repository.latest_valid(checksums=checksums)
        check_owner(own, self.plan.job_name)
        found = choose(own, self._initial)
        if found is None:
            return None
        try:
            check_restorable(self.plan, found.manifest, self._allow_non_restored)
        except PenstockError as error:
            if not fenced:
                raise
            raise SnapshotError(
                f"{error}. The job was taken over already, and its last driver stopped: it published this "
                "snapshot after the one that the program was matched with. Start that driver again"
            ) from error
        return found
