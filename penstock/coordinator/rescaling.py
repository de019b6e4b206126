"""Another parallelism in the same driver: which layout attempts have, and what clients hear of it.  Pure.

The phases of a rescale; the coordinator carries them out, what is remembered between them is here:

1. asked for: it waits for savepoints that were asked for before (``savepoint_requests.py``);
2. a checkpoint is triggered, and no other one until it is over;
3. it is published: the worker group is told to leave, and the new layout counts;
4. the worker group is gone: claim, restore, commit, start, as behind a failure;
5. all tasks run: the client is answered.

If the checkpoint fails, or the attempt while it is taken, the job is as it was.  Behind 3, whatever goes
wrong before 5 sends it back to the old layout, from the same checkpoint and at once; that is counted by no
restart strategy.  Nothing of this is kept for another driver: it starts with the parallelism of its program,
from the newest checkpoint, wherever this one was.

Slots that are gone for good change the layout without any of this: between two attempts, from whatever is the
newest checkpoint then (``elasticity.py``).
"""

from __future__ import annotations

from penstock.coordinator.events import (
    Answer,
    Instruction,
    RequestKind,
    Rescaled,
    SnapshotRequest,
    StatusChanged,
)
from penstock.coordinator.layout import Layout
from penstock.coordinator.savepoint_requests import RESCALED_ALREADY
from penstock.core.errors import ClusterError, FencedError, SnapshotError, SparkLostError
from penstock.core.ids import Epoch
from penstock.core.job import JobStatus
from penstock.snapshot.paths import checkpoint_directory


class Rescaling:
    """Knows the layout of the attempts to come, and the one to go back to."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.wanted = layout.plan.parallelism
        """What the job was started with, or somebody asked for since."""
        self.in_vain = 0
        """How often in a row the job was rescaled towards that, and had to turn back."""
        self._before = layout
        self._request: SnapshotRequest | None = None
        self._epoch = Epoch(0)

    @property
    def is_open(self) -> bool:
        """Whether a rescale is on its way, behind its checkpoint."""
        return self._request is not None

    @property
    def lacks(self) -> int:
        """How much of the parallelism is missing that the job wants."""
        return max(0, self.wanted - self.layout.plan.parallelism)

    def refuse(self, request: SnapshotRequest) -> list[Instruction]:
        """Behind the checkpoint of a rescale none can be asked for: it would be for a plan that is going."""
        if not self.is_open or request.kind is not RequestKind.RESCALE:
            return []
        return [Answer(request, SnapshotError(RESCALED_ALREADY))]

    def fit(self, layout: Layout, why: str) -> list[Instruction]:
        """There are not the slots for the layout: this one counts."""
        self._before, self.layout = self.layout, layout
        text = f"{self._numbers()} of {self.wanted}, from the newest checkpoint: {why}"
        return [Rescaled(text), StatusChanged(JobStatus.RESTARTING, planned=True)]

    def turns_back(self, error: Exception) -> bool:
        """Whether the job goes back to the layout that it had; else it is a failure as any other."""
        return self._request is not None and not isinstance(error, SparkLostError | FencedError)

    def begin(self, request: SnapshotRequest, epoch: Epoch) -> list[Instruction]:
        """The checkpoint of a rescale is published: from here on its layout counts."""
        assert request.layout is not None
        self._request, self._epoch = request, epoch
        self._before, self.layout = self.layout, request.layout
        text = f"{self._numbers()}: checkpoint {epoch} is complete, new slots start from it"
        return [Rescaled(text), StatusChanged(JobStatus.RESTARTING, planned=True)]

    def arrived(self) -> list[Instruction]:
        """All tasks run."""
        request, self._request = self._request, None
        if request is None:
            return []
        self.in_vain = 0
        if not request.regains:
            self.wanted = self.layout.plan.parallelism
        where = checkpoint_directory(self._epoch)
        return [Rescaled(f"{self._numbers()}: done"), Answer(request, None, where)]

    def turn_back(self, error: Exception) -> list[Instruction]:
        """The new layout cannot be had: the old one counts again."""
        request, self._request = self._request, None
        assert request is not None
        self.in_vain += request.regains
        numbers, self.layout = self._numbers(), self._before
        back = self.layout.plan.parallelism
        why = ClusterError(
            f"the rescale failed, and the job goes on at parallelism {back} as before: {error}"
        )
        again = StatusChanged(JobStatus.RESTARTING, planned=True)
        return [Rescaled(f"{numbers} failed; back to {back}", error), Answer(request, why), again]

    def close(self, how: str) -> tuple[Answer, ...]:
        """The job is over."""
        request, self._request = self._request, None
        return () if request is None else (Answer(request, ClusterError(f"the job ended instead: {how}")),)

    def _numbers(self) -> str:
        return f"rescale from {self._before.plan.parallelism} to {self.layout.plan.parallelism}"
