"""What clients ask a simulated driver for, and what is checked about the answers."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

from penstock.coordinator.events import Answer, SnapshotRequest
from penstock.coordinator.ports import Clients
from penstock.snapshot.decode import from_json
from penstock.snapshot.paths import METADATA, epoch_of
from penstock.testing.sim.audit import Auditor, home_of
from penstock.testing.sim.environment import Savepoint, SimulatedEnvironment


@dataclass(slots=True, eq=False)
class Lineage:
    """What drivers are started with: a job, until somebody stops it with a savepoint; then another one."""

    start: str | None = None
    """The savepoint that is named on the command line."""
    claims: bool = False
    finished: bool = False


class SimClients(Clients):
    """The clients of one driver: each is answered once, and what a good answer promises is there."""

    def __init__(self, world: SimulatedEnvironment, auditor: Auditor, driver: str) -> None:
        self.ended_with: str | None = None
        """The savepoint that the job was ended with."""
        self._world = world
        self._auditor = auditor
        self._driver = driver
        self._count = 0
        self._open: set[str] = set()
        self._given: dict[str, SnapshotRequest] = {}

    def enter(self) -> tuple[str, Future[str]]:
        self._count += 1
        name = f"{self._driver}-{self._count}"
        self._open.add(name)
        return name, Future()

    def given(self, request: SnapshotRequest) -> None:
        """The coordinator knows of it."""
        self._given[request.id] = request

    def fail(self, request: str, error: Exception) -> None:
        if not ("already" in str(error) or "Spark has room" in str(error)):  # what a rescale may be told
            raise self._world.broken(f"the request {request} was not even begun: {error}")
        self._open.remove(request)

    def answer(self, answer: Answer, root: str) -> None:
        request, world = answer.request, self._world
        if request.id not in self._open:
            raise world.broken(f"the {request.kind.noun} {request.id} was answered twice")
        self._open.remove(request.id)
        if answer.error is not None:
            world.tell(f"no {request.kind.noun} {request.id}: {answer.error}")
            return
        world.tell(f"{request.kind.noun} {request.id} is at {answer.where}")
        if request.location is None:
            epoch = epoch_of(answer.where or "")
            if epoch is None or epoch > self._auditor.newest:
                raise world.broken(f"{answer.where} was not published, but somebody was told so")
            return
        savepoint = self._savepoint(answer.where or "")
        if request.kind.ends_job:
            self.ended_with = answer.where
        else:
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
        for name, request in self._given.items():
            if name in self._open:
                raise self._world.broken(f"{request.kind.noun} {name} was never answered")
