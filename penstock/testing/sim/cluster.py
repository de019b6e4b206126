"""A simulated cluster: gangs of simulated slots, with crashes noticed late and slots that will not die."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.coordinator.cluster import Cluster, Notify
from penstock.coordinator.events import AttemptEnded, SlotLost, SlotRegistered, SlotSaid
from penstock.core.errors import ClusterError
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import FromSlot, ToSlot
from penstock.testing.sim.environment import World
from penstock.testing.sim.memory import ChannelBound
from penstock.testing.sim.network import GangNetwork
from penstock.testing.sim.process import Process
from penstock.testing.sim.slot import Life, SimSlot
from penstock.testing.sim.storage import SimStore

_START_MS = (1.0, 25.0)
_STOP_MS = (2.0, 60.0)
_HAUNT_MS = (20.0, 600.0)
_GANG_FAILS = 0.4
"""Share of crashes that are noticed as the end of the whole gang and not as a lost connection."""


@dataclass(slots=True)
class _Gang:
    generation: Generation
    network: GangNetwork
    notify: Notify
    slots: dict[int, SimSlot] = field(default_factory=dict)
    over: bool = False


class SimCluster(Cluster):
    """Runs the slots of one driver."""

    def __init__(self, world: World, store: SimStore, bound: ChannelBound, apart: bool) -> None:
        """``apart``: slots have globals of their own."""
        self._world = world
        self._bound = bound
        self._apart = apart
        self._scheduler = world.scheduler
        self._store = store
        self._gang: _Gang | None = None

    def check(self) -> None:
        """There is nothing that could be gone."""

    def start_attempt(self, generation: Generation, slots: int, notify: Notify) -> None:
        """Start a gang; its slots register one by one."""
        gang = self._gang = _Gang(generation, GangNetwork(self._world), notify)
        self._world.tell(f"generation {generation} starts with {slots} slots")
        for number in range(slots):
            self._scheduler.after(self._scheduler.between(*_START_MS), lambda n=number: self._begin(gang, n))  # type: ignore[misc]

    def _begin(self, gang: _Gang, number: int) -> None:
        if gang.over:
            return
        slot = SlotId(number)

        def say(message: FromSlot) -> None:
            gang.notify(SlotSaid(gang.generation, slot, message))

        gang.slots[number] = SimSlot(
            self._world,
            number,
            gang.generation,
            self._store,
            gang.network,
            say,
            lambda reason: self._lost(gang, slot, reason),
            self._bound,
            Process() if self._apart else None,
        )
        gang.notify(SlotRegistered(gang.generation, slot, ("", 0)))

    def _lost(self, gang: _Gang, slot: SlotId, reason: str) -> None:
        self._world.tell(reason)
        if self._world.rng.random() < _GANG_FAILS:
            self._end(gang, ClusterError(reason))
        else:
            gang.notify(SlotLost(gang.generation, slot, reason))

    def send(self, slot: SlotId, message: ToSlot) -> None:
        """To a slot of the current gang; lost if it is gone."""
        if self._gang is not None and int(slot) in self._gang.slots:
            self._gang.slots[int(slot)].deliver(message)

    def stop_attempt(self, generation: Generation, reason: str) -> None:
        """The gang is over soon."""
        gang = self._gang
        if gang is not None and gang.generation == generation:
            self._scheduler.after(self._scheduler.between(*_STOP_MS), lambda: self._end(gang, None))

    def _end(self, gang: _Gang, error: Exception | None) -> None:
        if gang.over:
            return
        self._abandon(gang)
        gang.notify(AttemptEnded(gang.generation, error))

    def _abandon(self, gang: _Gang) -> None:
        """End the slots; some do not notice and go on for a while."""
        gang.over = True
        for slot in gang.slots.values():
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
        if self._gang is not None and not self._gang.over:
            self._abandon(self._gang)
