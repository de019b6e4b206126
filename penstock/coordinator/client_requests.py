"""What is asked of a running job and takes time to prepare: savepoints, other parallelisms, room for slots.

All of it is done on the worker for requests, which may wait; what comes of it goes to the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from penstock.coordinator.events import (
    Event,
    LaidOut,
    LayOut,
    LayoutRefused,
    LookForSlots,
    Regain,
    RequestKind,
    SlotsFound,
    SnapshotRequest,
    SnapshotRequested,
    Tick,
)
from penstock.coordinator.layout import check_rescale, check_room
from penstock.coordinator.ports import DriverPorts, Work
from penstock.coordinator.scaling_watch import ScalingWatch
from penstock.graph.plan import Plan


class ClientRequests:
    """Prepares them. From any thread."""

    def __init__(self, ports: DriverPorts, scaling: ScalingWatch) -> None:
        self._clients = ports.clients
        self._cluster = ports.cluster
        self._planner = ports.planner
        self._scaling = scaling
        self._storage = ports.storage
        self._worker = ports.lanes.requests

    def snapshot(
        self, kind: RequestKind, directory: str | None, accepted: Callable[[], None] | None
    ) -> tuple[str, Future[str]]:
        """Ask for a snapshot: the request's id, and the place of the snapshot to come."""
        name, future = self._clients.enter()

        def prepare() -> Event:
            place = None if kind is RequestKind.CHECKPOINT else self._storage.new_savepoint(directory)
            if accepted is not None:
                accepted()
            return SnapshotRequested(SnapshotRequest(name, kind, place))

        self._prepare(name, prepare, future, lambda error: Tick())
        return name, future

    def rescale(
        self, parallelism: int, running: Plan, accepted: Callable[[], None] | None
    ) -> tuple[str, Future[str]]:
        """Ask for another parallelism: the request's id, and the checkpoint that the job goes on from."""
        name, future = self._clients.enter()

        def prepare() -> Event:
            request = self._rescale(name, parallelism, running)
            if accepted is not None:
                accepted()
            return SnapshotRequested(request)

        self._prepare(name, prepare, future, lambda error: Tick())
        return name, future

    def regain(self, instruction: Regain, running: Plan) -> None:
        """The job itself asks for another parallelism."""
        generation, parallelism = instruction.generation, instruction.parallelism
        name, future = self._clients.enter()

        def prepare() -> Event:
            return SnapshotRequested(self._rescale(name, parallelism, running, regains=True))

        self._prepare(name, prepare, future, lambda error: LayoutRefused(generation, parallelism, error))

    def look(self, instruction: LookForSlots) -> None:
        """Ask how many slots there is room for."""

        def find() -> Event:
            return SlotsFound(instruction.generation, self._room())

        self._worker.submit(find, lambda error: Tick())

    def find_room(self) -> None:
        """Find out how many slots there can be, for the autoscaler: executors come and go."""

        def find() -> Event:
            self._room()
            return Tick()

        self._worker.submit(find, lambda error: Tick())

    def lay_out(self, instruction: LayOut, running: Plan) -> None:
        """Find a layout that fits."""
        generation, parallelism = instruction.generation, instruction.parallelism

        def prepare() -> Event:
            layout = self._planner.layout(parallelism, running)
            check_room(layout, running, instruction.room)
            return LaidOut(generation, layout, instruction.why)

        self._worker.submit(prepare, lambda error: LayoutRefused(generation, parallelism, error))

    def _rescale(self, name: str, parallelism: int, running: Plan, regains: bool = False) -> SnapshotRequest:
        layout = self._planner.layout(parallelism, running)
        check_rescale(layout, running, self._room())
        return SnapshotRequest(name, RequestKind.RESCALE, layout=layout, regains=regains)

    def _room(self) -> int | None:
        """How many slots there can be now; the autoscaler goes by it, too."""
        self._scaling.room = self._cluster.most_slots()
        return self._scaling.room

    def _prepare(
        self, name: str, prepare: Work, future: Future[str], refused: Callable[[Exception], Event]
    ) -> None:
        def failed(error: Exception) -> Event:
            self._clients.fail(name, error)
            return refused(error)

        if not future.done():
            self._worker.submit(prepare, failed)
