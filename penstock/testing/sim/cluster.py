"""A simulated cluster: groups of simulated slots, with crashes noticed late and slots that will not die."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.coordinator.events import AttemptEnded, SlotLost, SlotRegistered, SlotSaid
from penstock.coordinator.ports import Cluster, Notify
from penstock.core.errors import ClusterError, ProcessLostError
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import FromSlot, ToSlot
from penstock.testing.sim.disk import LocalDisk
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.faults import SIMULATED
from penstock.testing.sim.limits import ChannelBound
from penstock.testing.sim.network import GroupNetwork
from penstock.testing.sim.process import Process
from penstock.testing.sim.slot import Life, SimSlot
from penstock.testing.sim.storage import SimStore

_START_MS = (1.0, 25.0)
_LOOK_MS = 10.0
_PLENTY = 1000
_STOP_MS = (2.0, 60.0)
_HAUNT_MS = (20.0, 600.0)
_GROUP_FAILS = 0.4
"""Share of crashes that are noticed as the end of the whole worker group and not as a lost connection."""


@dataclass(slots=True)
class _WorkerGroup:
    generation: Generation
    network: GroupNetwork
    notify: Notify
    slots: dict[int, SimSlot] = field(default_factory=dict)
    over: bool = False


class SimCluster(Cluster):
    """Runs the slots of one driver."""

    def __init__(
        self,
        world: SimulatedEnvironment,
        store: SimStore,
        bound: ChannelBound,
        apart: bool,
        copies: str | None = None,
    ) -> None:
        """``apart``: slots have globals of their own; ``copies``: where they keep copies of their files."""
        self._world = world
        if copies is not None and world.disk is None:
            world.disk = LocalDisk(world, copies)
        self._disk = None if copies is None else world.disk
        self._bound = bound
        self._apart = apart
        self._scheduler = world.scheduler
        self._store = store
        self._group: _WorkerGroup | None = None

    def most_slots(self) -> int | None:
        """As many as there is room for."""
        return _PLENTY if self._world.room is None else self._world.room

    def check(self) -> None:
        """There is nothing that could be gone."""

    def start_attempt(self, generation: Generation, slots: int, notify: Notify) -> None:
        """Start a worker group; its slots register one by one."""
        is_first = self._group is None
        group = self._group = _WorkerGroup(generation, GroupNetwork(self._world), notify)
        self._world.tell(f"generation {generation} starts with {slots} slots")
        if not is_first and self._world.faults.hit("slots_missing"):
            error = ClusterError(f"{SIMULATED}there are no {slots} slots")
            self._scheduler.after(self._scheduler.between(*_START_MS), lambda: self._end(group, error))
            return
        self._start(group, slots)

    def _start(self, group: _WorkerGroup, slots: int) -> None:
        """Start them all, as soon as there is room for all."""
        if self._world.room is not None and self._world.room < slots:
            if not group.over:
                self._scheduler.after(_LOOK_MS, lambda: self._start(group, slots))
            return
        for number in range(slots):
            self._scheduler.after(self._scheduler.between(*_START_MS), lambda n=number: self._begin(group, n))  # type: ignore[misc]

    def lose(self, room: int) -> None:
        """The slots that there is no room for vanish."""
        if self._group is not None and not self._group.over:
            for number, slot in self._group.slots.items():
                if number >= room and slot.life is Life.MEMBER:
                    slot.crash()

    def _begin(self, group: _WorkerGroup, number: int) -> None:
        if group.over:
            return
        slot = SlotId(number)

        def say(message: FromSlot) -> None:
            group.notify(SlotSaid(group.generation, slot, message))

        group.slots[number] = SimSlot(
            self._world,
            number,
            group.generation,
            self._store,
            group.network,
            say,
            lambda reason: self._lost(group, slot, reason),
            self._bound,
            Process() if self._apart else None,
            self._disk,
        )
        group.notify(SlotRegistered(group.generation, slot, ("", 0)))

    def _lost(self, group: _WorkerGroup, slot: SlotId, reason: str) -> None:
        self._world.tell(reason)
        if self._world.rng.random() < _GROUP_FAILS:
            self._end(group, ProcessLostError(reason))
        else:
            group.notify(SlotLost(group.generation, slot, reason))

    def send(self, slot: SlotId, message: ToSlot) -> None:
        """To a slot of the current worker group; lost if it is gone."""
        if self._group is not None and int(slot) in self._group.slots:
            self._group.slots[int(slot)].deliver(message)

    def stop_attempt(self, generation: Generation, reason: str) -> None:
        """The worker group is over soon."""
        group = self._group
        if group is not None and group.generation == generation:
            self._scheduler.after(self._scheduler.between(*_STOP_MS), lambda: self._end(group, None))

    def _end(self, group: _WorkerGroup, error: Exception | None) -> None:
        if group.over:
            return
        self._abandon(group)
        group.notify(AttemptEnded(group.generation, error))

    def _abandon(self, group: _WorkerGroup) -> None:
        """End the slots; some do not notice and go on for a while."""
        group.over = True
        for slot in group.slots.values():
            haunts = slot.runs and (
                slot.life is Life.ZOMBIE or self._world.faults.turns_out("zombie", slot.name)
            )
            if haunts:
                slot.life = Life.ZOMBIE
                self._scheduler.after(self._scheduler.between(*_HAUNT_MS), slot.end)
            else:
                slot.end()

    def close(self) -> None:
        """The driver is gone, by itself or by a crash: so are its slots, sooner or later."""
        if self._group is not None and not self._group.over:
            self._abandon(self._group)
