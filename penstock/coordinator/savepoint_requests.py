"""Snapshots that clients ask for: which wait, which are pending, how each is answered.  Pure.

Every request is answered exactly once, whatever becomes of the job.  A plain savepoint is standalone, a copy
outside the job's history: it is not published, commits nothing and recovery does not look at it, so what the
sinks prepared for it stays with the tasks and goes into the next checkpoint as well.  That checkpoint
follows at once, and only then is the request answered: a client that has the path knows that no later
failure of the job can take away output that the savepoint counts on.  A savepoint that the job ends with is
published like a checkpoint, and what it holds is committed before the end.

A rescale is a request like these: its checkpoint is the last one of the worker group, and other requests wait
for the next group.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordinator.events import Answer, Instruction, RequestKind, SnapshotRequest
from penstock.core.errors import SnapshotError
from penstock.core.ids import Epoch
from penstock.snapshot.paths import checkpoint_directory

_ORPHAN = (
    "the savepoint {place} is complete, but the job went away before it could commit the output that the "
    "savepoint counts on: {reason}. Take another one when the job runs again"
)


MOST_REQUESTS = 100
"""Requests that may wait at once."""
RESCALED_ALREADY = "the job is being rescaled already; wait for the end of that"


class SavepointRequests:
    """Keeps requests in order and remembers the one the job ends with."""

    def __init__(self) -> None:
        self.ending: SnapshotRequest | None = None
        """The request to end with a savepoint that was begun."""
        self._waiting: list[SnapshotRequest] = []
        self._pending: dict[Epoch, SnapshotRequest] = {}
        self._written: dict[Epoch, SnapshotRequest] = {}
        self._rescale: SnapshotRequest | None = None
        """Whose checkpoint is published, until :meth:`rescale` takes it."""
        self._complete = False
        self._finishing = False

    def ask(self, request: SnapshotRequest) -> list[Instruction]:
        """Take a request; it begins when the job runs and nothing is in its way."""
        if self.ending is not None or any(other.kind.ends_job for other in self._waiting):
            error = SnapshotError("the job is being stopped with a savepoint already")
        elif request.kind is RequestKind.RESCALE and self._is_rescaling:
            error = SnapshotError(RESCALED_ALREADY)
        elif len(self._waiting) >= MOST_REQUESTS and not request.kind.ends_job:
            error = SnapshotError(
                f"{MOST_REQUESTS} snapshots that were asked for wait already; ask again when the job takes "
                "snapshots again (penstock list says why it does not)"
            )
        else:
            self._waiting.append(request)
            return []
        return [Answer(request, error, discard=True)]

    @property
    def is_wanted(self) -> bool:
        """Whether a snapshot that the slots go on behind waits to begin."""
        return any(not request.kind.ends_attempt for request in self._waiting)

    @property
    def is_last_begun(self) -> bool:
        """Whether the last snapshot of the worker group is under way: no other one begins."""
        rescales = any(request.kind is RequestKind.RESCALE for request in self._pending.values())
        return self.ending is not None or rescales

    @property
    def _is_rescaling(self) -> bool:
        return any(one.kind is RequestKind.RESCALE for one in [*self._waiting, *self._pending.values()])

    def ready(self, may_begin: Callable[[SnapshotRequest], bool]) -> list[SnapshotRequest]:
        """Take out the requests that begin now.

        What ends the worker group waits for other savepoints, which would be cut off by it, and begins alone.
        """
        if any(request.kind is RequestKind.RESCALE for request in self._pending.values()):
            return []
        ready = [request for request in self._waiting if may_begin(request)]
        going_on = [request for request in ready if not request.kind.ends_attempt]
        ready = going_on if going_on or self._pending or self.ending is not None else ready[:1]
        for request in ready:
            self._waiting.remove(request)
            if request.kind.ends_job:
                self.ending = request
        return ready

    def begun(self, epoch: Epoch, request: SnapshotRequest) -> None:
        """The request's snapshot was triggered."""
        self._pending[epoch] = request

    def written(self, epoch: Epoch) -> None:
        """The savepoint is complete; it is answered with the next checkpoint."""
        request = self._pending.pop(epoch, None)
        if request is not None:
            self._written[epoch] = request

    def done(self, epoch: Epoch) -> list[Instruction]:
        """The snapshot is complete, and with it the savepoints before it.

        A request to end the job is answered when the job has ended.
        """
        done = {other: request for other, request in self._written.items() if other < epoch}
        for other in done:
            del self._written[other]
        request = self._pending.pop(epoch, None)
        if request is not None and request.kind is RequestKind.RESCALE:
            self._rescale = request
        elif request is not None and request.kind.ends_job:
            self._complete = True
        elif request is not None:
            done[epoch] = request
        return [Answer(one, None, one.location or checkpoint_directory(at)) for at, one in done.items()]

    def failed(self, epoch: Epoch, reason: str, discard: bool) -> list[Instruction]:
        """The snapshot was aborted; ``discard`` if what was written of it can go."""
        request = self._pending.pop(epoch, None)
        if request is None:
            return []
        if request is self.ending:
            self.ending = None
        goes_on = (
            "" if request.kind is RequestKind.DRAIN or not request.kind.ends_attempt else "; the job goes on"
        )
        error = SnapshotError(f"the {request.kind.noun} failed: {reason}{goes_on}")
        return [Answer(request, error, discard=discard)]

    def rescale(self) -> SnapshotRequest | None:
        """The rescale whose checkpoint has just been published; nobody else answers it from here on."""
        request, self._rescale = self._rescale, None
        return request

    def finish(self) -> None:
        """The job is about to end as it should: the request to end it is kept for :meth:`close`."""
        self._finishing = True

    def clear(self, reason: str) -> list[Instruction]:
        """The worker group goes away, and with it everything pending. What waits goes on waiting."""
        out: list[Instruction] = []
        ending = self.ending
        if ending is not None and not self._finishing:
            self.ending = None
            if self._complete:
                what = f"the savepoint {ending.location} is complete, but the job did not end with it"
            else:
                what = f"the {ending.kind.noun} failed"
            out.append(Answer(ending, SnapshotError(f"{what}: {reason}")))
        out += [
            Answer(request, SnapshotError(f"the {request.kind.noun} failed: {reason}"), discard=True)
            for request in self._pending.values()
            if request is not ending
        ]
        out += [
            Answer(request, SnapshotError(_ORPHAN.format(place=request.location, reason=reason)))
            for request in self._written.values()
        ]
        self._pending.clear()
        self._written.clear()
        self._complete = False
        return out

    def close(self, how: str) -> tuple[Answer, ...]:
        """The job is over: answers to everything still open."""
        answers = [
            Answer(
                request,
                SnapshotError(f"the job ended before its {request.kind.noun} began: {how}"),
                discard=True,
            )
            for request in self._waiting
        ]
        if self.ending is not None:
            answers.append(Answer(self.ending, None, self.ending.location))
        self._waiting.clear()
        self.ending = None
        return tuple(answers)
