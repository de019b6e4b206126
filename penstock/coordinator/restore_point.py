"""What a driver restores, matched against its program.  Reading only: it changes nothing.

It comes before the fence, so that a start which is refused leaves the driver that runs the job alone.
"""

from __future__ import annotations

from penstock.coordinator.job_directory import check_owner
from penstock.coordinator.restore import check_restorable
from penstock.coordinator.restore_source import RequestedSnapshot, choose
from penstock.core.errors import PenstockError, SnapshotError
from penstock.graph.plan import Plan
from penstock.snapshot.recovery import Found
from penstock.snapshot.repository import Repository


class RestorePoint:
    """What one driver restores, looked up each time it starts the job."""

    def __init__(
        self, repository: Repository, plan: Plan, initial: RequestedSnapshot | None, allow_non_restored: bool
    ) -> None:
        self._repository = repository
        self._plan = plan
        self._initial = initial
        self._allow_non_restored = allow_non_restored

    def find(self, checksums: bool, fenced: bool = False) -> Found | None:
        """The snapshot to restore, or ``None``; raises if the program cannot take it.

        With ``fenced``, the driver before has published between the first look and the fence.
        """
        own = self._repository.latest_valid(checksums=checksums)
        check_owner(own, self._plan.job_name)
        found = choose(own, self._initial)
        if found is None:
            return None
        try:
            check_restorable(self._plan, found.manifest, self._allow_non_restored)
        except PenstockError as error:
            if not fenced:
                raise
            raise SnapshotError(
                f"{error}. The job was taken over already, and its last driver stopped: it published this "
                "snapshot after the one that the program was matched with. Start that driver again"
            ) from error
        return found
