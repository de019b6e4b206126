"""One simulated slot: the real :class:`~penstock.task.slot.Slot` stepped by the scheduler.

Its control connection keeps order and may break; its state files are written in two scheduled steps, so
that it can vanish before, between and after; its calendar may jump and it may stand still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Any

from penstock.core.ids import Generation, SlotId
from penstock.core.messages import Deploy, FromSlot, SnapshotAck, SnapshotCompleted, TaskFailed, ToSlot
from penstock.task.environment import StateStorage, TaskEnvironment
from penstock.task.slot import Slot, SlotPhase
from penstock.testing.sim.disk import LocalDisk
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.limits import ChannelBound, MemoryWatch
from penstock.testing.sim.network import GroupNetwork, SlotNetwork
from penstock.testing.sim.process import Process
from penstock.testing.sim.scheduler import VirtualClock
from penstock.testing.sim.storage import SimStore

_STEP_MS = (0.5, 10.0)
_STALL_MS = (20.0, 250.0)
_CONTROL_MS = (0.2, 4.0)
_LATE_MS = (30.0, 400.0)
_WRITE_MS = (0.5, 8.0)
_SLOW_MS = (50.0, 700.0)
_JUMP_MS = (-200.0, 400.0)


class Life(Enum):
    """How a simulated slot stands."""

    MEMBER = "part of its worker group"
    ZOMBIE = "its worker group is over or has lost it, but it runs"
    GONE = "the process has ended"


class SimSlot:
    """A slot of one generation. ``say`` gives a message to the driver, ``crashed`` reports a crash."""

    def __init__(
        self,
        world: SimulatedEnvironment,
        number: int,
        generation: Generation,
        store: SimStore,
        network: GroupNetwork,
        say: Callable[[FromSlot], None],
        crashed: Callable[[str], None],
        bound: ChannelBound,
        process: Process | None,
        disk: LocalDisk | None = None,
    ) -> None:
        self.life = Life.MEMBER
        self.name = f"slot {number} of generation {generation}"
        self._world = world
        self._scheduler = world.scheduler
        self._say = say
        self._crashed = crashed
        self._process = process
        self._memory = MemoryWatch(world, bound)
        self._clock = VirtualClock(world.scheduler)
        self._stalled_until = 0.0
        self._inbox_free = self._outbox_free = self._writer_free = 0.0
        self._wake_at: float | None = None
        backup = None if disk is None else disk.backup(store, generation, SlotId(number), self._clock)
        storage: StateStorage = backup or store
        environment = TaskEnvironment(
            self._clock,
            storage,
            self,
            self._report,
            lambda root: storage if root == storage.url else store.at(root),
            generation,
            backends=world.backends,
            backup=backup,
        )
        self.slot = Slot(SlotId(number), environment, SlotNetwork(network, self.wake, self._inside))

    @property
    def runs(self) -> bool:
        """Whether the process exists."""
        return self.life is not Life.GONE

    def _inside(self) -> AbstractContextManager[None]:
        """What happens in this process sees its globals."""
        self._world.acting = self
        return nullcontext() if self._process is None else self._process.inside()

    # --- the loop ---------------------------------------------------------------------------

    def wake(self) -> None:
        """Something arrived: step soon."""
        self._step_at(self._scheduler.now + self._scheduler.between(*_STEP_MS))

    def _step_at(self, time: float) -> None:
        time = max(time, self._stalled_until)
        if self.runs and time < math.inf and (self._wake_at is None or time < self._wake_at):
            self._wake_at = time
            self._scheduler.at(time, lambda: self._step(time))

    def _step(self, time: float) -> None:
        if time != self._wake_at or not self.runs:
            return
        self._wake_at = None
        faults = self._world.faults
        if self.life is Life.MEMBER and faults.hit("slot_crash", self.name):
            self.crash()
            return
        if faults.hit("stall", self.name):
            self._stalled_until = self._scheduler.now + self._scheduler.between(*_STALL_MS)
        if faults.hit("clock_jump", self.name):
            self._clock.offset += self._scheduler.between(*_JUMP_MS)
        with self._inside():
            worked = self.slot.step()
        self._memory.look(self.name, self.slot.tasks)
        if self._has_left():
            self.life = Life.GONE
        elif worked:
            self.wake()
        else:
            due = self.slot.next_deadline_ms()
            if due is not None:
                self._step_at(max(self._clock.when(due), self._scheduler.now + 0.1))

    def _has_left(self) -> bool:
        left = self.slot.phase is SlotPhase.LEFT
        if left:
            self._world.check_closed(self, self.name)
        return left

    def crash(self) -> None:
        """The process vanishes without a word; what it had sent still arrives."""
        self.life = Life.GONE
        self._outbox(lambda: self._crashed(f"{self.name} was lost"))

    def end(self) -> None:
        """The process is ended from outside."""
        self.life = Life.GONE

    # --- the control connection -------------------------------------------------------------

    def deliver(self, message: ToSlot) -> None:
        """A message of the driver is on its way here."""
        if isinstance(message, SnapshotCompleted) and self._world.faults.hit("lost_completion", self.name):
            return
        self._inbox_free = self._arrival(self._inbox_free)
        self._scheduler.at(self._inbox_free, lambda: self._receive(message))

    def _receive(self, message: ToSlot) -> None:
        if isinstance(message, Deploy) and self._world.faults.hit("stuck_open", self.name):
            self._stalled_until = math.inf
        if self.life is Life.MEMBER and self._stalled_until < math.inf:
            with self._inside():
                self.slot.handle(message)
            if self._has_left():
                self.life = Life.GONE
            self.wake()

    def _report(self, message: FromSlot) -> None:
        if not self.runs:
            return
        faults = self._world.faults
        if self.life is Life.MEMBER and faults.hit("connection_loss", self.name):
            self.life = Life.ZOMBIE
            self._outbox(lambda: self._crashed(f"the connection to {self.name} broke"))
            return
        if isinstance(message, TaskFailed):
            self._world.tell(f"{self.name}: {message.subtask} failed: {str(message.error)[-200:]}")
        self._outbox(lambda: self._say(message))
        if isinstance(message, SnapshotAck) and faults.hit("repeated_ack", self.name):
            self._outbox(lambda: self._say(message))

    def _outbox(self, arrive: Callable[[], None]) -> None:
        self._outbox_free = self._arrival(self._outbox_free)
        self._scheduler.at(self._outbox_free, arrive)

    def _arrival(self, free: float) -> float:
        """When a message sent now arrives: never before those sent earlier."""
        late = self._world.faults.hit("delayed_message", self.name)
        latency = self._scheduler.between(*(_LATE_MS if late else _CONTROL_MS))
        return max(free + 1e-6, self._scheduler.now + latency)

    # --- state files: the Background of the task environment --------------------------------

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Do ``work`` a little later and ``done`` a little later still, if the process lives to see it."""

        def write() -> None:
            if not self._survives("before writing"):
                return
            result, error = None, None
            try:
                with self._inside():
                    result = work()
            except Exception as caught:
                error = caught
            self._scheduler.at(self._later(), lambda: answer(result, error))

        def answer(result: Any, error: Exception | None) -> None:
            if self._survives("between writing and acknowledging"):
                with self._inside():
                    done(result, error)
                self.wake()

        self._scheduler.at(self._later(), write)

    def _survives(self, moment: str) -> bool:
        if self.life is Life.MEMBER and self._world.faults.hit("snapshot_crash", f"{self.name} {moment}"):
            self.crash()
        return self.runs

    def _later(self) -> float:
        slow = self._world.faults.hit("slow_storage", self.name)
        took = self._scheduler.between(*(_SLOW_MS if slow else _WRITE_MS))
        self._writer_free = max(self._writer_free, self._scheduler.now) + took
        return self._writer_free
