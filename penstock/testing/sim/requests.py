"""What people ask a simulated driver for, and what is checked about the answers."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.coordinator.asked import RequestBook
from penstock.coordinator.events import Answer, RequestKind, SnapshotRequest
from penstock.snapshot.decode import from_json
from penstock.snapshot.paths import METADATA, epoch_of
from penstock.testing.sim.audit import Auditor, home_of
from penstock.testing.sim.world import Savepoint, World


@dataclass(slots=True, eq=False)
class Line:
    """What drivers are started with: a job, until somebody stops it with a savepoint; then another one."""

    start: str | None = None
    """The savepoint that is named on the command line."""
    claims: bool = False
    finished: bool = False


class SimBook(RequestBook):
    """The requests of one driver: each is answered once, and what a good answer promises is there."""

    def __init__(self, world: World, auditor: Auditor) -> None:
        super().__init__()
        self._world = world
        self._auditor = auditor
        self._asked: dict[str, SnapshotRequest] = {}
        self._given: set[str] = set()

    def write_down(self, request: SnapshotRequest) -> None:
        """Somebody asks."""
        self._asked[request.id] = request

    def given(self, request: SnapshotRequest) -> None:
        """The coordinator knows of it."""
        self._given.add(request.id)

    def answer(self, answer: Answer, root: str) -> None:
        """Checks it; nobody waits for it."""
        request, world = answer.request, self._world
        if self._asked.pop(request.id, None) is None:
            raise world.broken(f"the {request.kind.noun} {request.id} was answered twice")
        if answer.error is not None:
            world.tell(f"no {request.kind.noun} {request.id}: {answer.error}")
            return
        world.tell(f"{request.kind.noun} {request.id} is at {answer.where}")
        if request.kind is RequestKind.CHECKPOINT:
            epoch = epoch_of(answer.where or "")
            if epoch is None or epoch > self._auditor.newest:
                raise world.broken(f"{answer.where} was not published, but somebody was told so")
            return
        savepoint = self._savepoint(answer.where or "")
        if not request.kind.ends_job:
            self._auditor.savepoints.append(savepoint)

    def _savepoint(self, location: str) -> Savepoint:
        home = home_of(location)
        raw = self._world.files.get(home + METADATA)
        if raw is None:
            raise self._world.broken(f"there is no savepoint at {location}, but somebody was told so")
        manifest = from_json(raw, location)
        self._auditor.check_whole(manifest, home, "saved")
        return Savepoint(location, manifest)

    def close(self) -> None:
        """The job is over for this driver: what its coordinator knew of has an answer."""
        for name in self._given & self._asked.keys():
            raise self._world.broken(f"{self._asked[name].kind.noun} {name} was never answered")
