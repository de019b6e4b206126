"""The snapshots of a job on its checkpoint storage: how a driver takes them over, adds to them, ends them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.coordinator.driver_signature import Signature
from penstock.coordinator.events import Claimed, Publish, PublishDone, SavepointWritten
from penstock.coordinator.ports import Storage, StoreOpener
from penstock.coordinator.restore import restored_job
from penstock.coordinator.restore_source import RequestedSnapshot, RestorePoint, dispose_claimed, lineage_of
from penstock.coordinator.resuming import tell_beginning, tell_resuming
from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError, CorruptSnapshotError, SnapshotError
from penstock.core.ids import Epoch, Generation
from penstock.graph.plan import Plan
from penstock.snapshot.paths import METADATA
from penstock.snapshot.repository import Repository, write_savepoint
from penstock.snapshot.storage import SnapshotStore

_log = log_of(__name__)
_JOB_DIGITS = 6
_RANDOM_BYTES = 6


def random_name() -> str:
    """Tells a savepoint from all others of its job."""
    return secrets.token_hex(_RANDOM_BYTES)


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """How a job's snapshots are kept."""

    retained: int = 1
    allow_non_restored: bool = False
    claim: bool = False
    """Whether the snapshot the job was started from is deleted once its own checkpoints suffice."""
    savepoints: str | None = None
    """The directory of savepoints for which the client names none."""


class JobStorage(Storage):
    """The real thing: a repository, and a store for each savepoint.

    ``name`` is this driver's own, shown to others; ``new_name`` names savepoints.
    """

    def __init__(
        self,
        plan: Plan,
        job_id: str,
        repository: Repository,
        clock: Clock,
        open_store: StoreOpener,
        options: StorageOptions,
        initial: RequestedSnapshot | None = None,
        name: str | None = None,
        new_name: Callable[[], str] = random_name,
    ) -> None:
        self.url = repository.root.url
        self._plan = plan
        self._job_id = job_id
        self._repository = repository
        self._clock = clock
        self._open_store = open_store
        self._options = options
        self._initial = initial
        self._new_name = new_name
        self._restore_point = RestorePoint(repository, plan, initial, options.allow_non_restored)
        self._signature = Signature(plan.job_name, repository, name)
        self._claimable = initial.found if initial is not None and options.claim else None
        self._published = 0
        self._since: Generation | None = None
        """The first generation of this driver."""

    def change_plan(self, plan: Plan) -> None:
        self._plan = self._restore_point.plan = plan

    def claim(self, checksums: bool) -> Claimed:
        repository = self._repository
        found = self._restore_point.find(
            checksums=checksums
        )  # refused here, the driver that runs the job goes on
        generation, _ = repository.claim()
        if self._since is None:
            self._since = generation
            self._signature.sign()
        if repository.moved_on():
            found = self._restore_point.find(checksums=checksums, fenced=True)
        self._sweep()
        last = repository.next_epoch() - 1
        if found is None:
            tell_beginning(self._plan, repository.root)
            return Claimed(generation, Epoch(last), None)
        last = max(last, found.manifest.epoch)
        store: SnapshotStore = repository.root
        if found.location.root != store.url:
            store = self._open_store(found.location.root, create=False)
        permit = repository.permit_restored(found.manifest)
        ours = store is repository.root and found.manifest.generation >= self._since
        allow = self._options.allow_non_restored
        try:
            restored = restored_job(self._plan, found, store, permit, allow, ours)
        except CorruptSnapshotError:
            repository.permit_restored(found.manifest)  # a newer driver's retention is no damage
            if not checksums:
                return self.claim(checksums=True)  # lengths do not show all damage
            raise
        restored = replace(restored, origin=lineage_of(found, self._initial))
        tell_resuming(self._plan, found, restored, self._clock.now_ms())
        return Claimed(generation, Epoch(last), restored)

    def _sweep(self) -> None:
        """No slots run between a claim and its start: what the last ones left half done stays so."""
        try:
            self._repository.sweep_shared()
        except (SnapshotError, OSError) as error:
            _log.warning("shared files that nobody needs could not be removed: %s", error)

    def publish(self, instruction: Publish) -> PublishDone | SavepointWritten:
        manifest, location = instruction.manifest, instruction.location
        place = None if location is None else self._open_store(location, create=False)
        if instruction.standalone:
            assert place is not None
            self._repository.permit_restored(manifest)  # a driver that was fenced makes no savepoints either
            write_savepoint(place, manifest, self._repository.signing)
            return SavepointWritten(manifest.epoch)
        permit = self._repository.publish(manifest, place)
        self._published += 1
        try:
            self._retain()
        except Exception as error:
            _log.warning("old checkpoints could not be removed: %s", error)
        return PublishDone(manifest.epoch, permit)

    def _retain(self) -> None:
        retained = self._options.retained
        self._repository.retain(retained)
        if self._claimable is not None and self._published >= retained:
            claimed, self._claimable = self._claimable, None
            if claimed.location.root != self.url:  # retention sees to the job's own
                dispose_claimed(claimed)

    def new_savepoint(self, directory: str | None) -> str:
        chosen = directory or self._options.savepoints
        if chosen is None:
            raise ConfigError(
                "the savepoint needs a directory: name one, or set execution.checkpointing.savepoint-dir",
                code=Code.SAVEPOINT_DIRECTORY,
            )
        parent = self._open_store(chosen)
        if f"{parent.url}/".startswith(f"{self.url}/"):
            raise ConfigError(
                f"{chosen} lies in the directory of the job's checkpoints, which the job empties when it "
                f"ends; choose another directory for savepoints",
                code=Code.SAVEPOINT_DIRECTORY,
            )
        name = f"savepoint-{self._job_id[:_JOB_DIGITS]}-{self._new_name()}"
        return self._open_store(parent.sub(name).url).url

    def discard(self, location: str) -> None:
        try:
            place = self._open_store(location, create=False)
            if not place.exists(METADATA):
                place.delete_tree()
        except Exception as error:
            _log.warning("what is left of a failed savepoint could not be removed: %s", error)

    def drop(self) -> Exception | None:
        if not self._repository.is_claimed:
            return None  # what lies there is not this driver's
        try:
            self._repository.claim()
        except Exception as error:
            return error
        try:
            self._repository.drop_all()
        except Exception as error:
            _log.warning("the checkpoints of the finished job could not be removed: %s", error)
        return None

    def release(self) -> None:
        self._signature.remove()

    def explained(self, error: Exception | None) -> Exception | None:
        return self._signature.explained(error)
