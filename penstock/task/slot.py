"""A slot: the process that hosts one subtask of every vertex, and the loop that drives them.

Sans-IO: messages come in through :meth:`Slot.handle`, reports go out through the environment, remote
channels through the network.  Whoever owns the slot (the Spark task, the simulator) calls
:meth:`Slot.step` and waits, when it returns false, for input or for :meth:`Slot.next_deadline_ms`.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

from penstock.core.documents import load
from penstock.core.errors import PenstockError
from penstock.core.ids import SlotId, Subtask, SubtaskIndex, VertexId
from penstock.core.log_place import at_task
from penstock.core.messages import (
    AbortSnapshot,
    AlignWatermarks,
    AssignSplits,
    Deploy,
    Deployed,
    DriverMessage,
    DriverMessageTaken,
    EndInput,
    FromSlot,
    Heartbeat,
    Leave,
    SnapshotCompleted,
    SplitsSettled,
    TakeTail,
    TaskFailed,
    ToSlot,
    TriggerSnapshot,
)
from penstock.task.build import Network, build_tasks
from penstock.task.environment import TaskEnvironment
from penstock.task.phases import Phase
from penstock.task.task import Task
from penstock.task.watching import hot_groups, watch, watched

MAX_UNTAKEN = 64
"""Messages of sinks to their driver side that may be on their way before the slot's tasks wait."""


class SlotPhase(Enum):
    """What a slot is doing."""

    WAITING = "registered, waiting to be told what to run"
    RUNNING = "driving its tasks"
    LEFT = "done, failed or dismissed; the Spark task returns"


class Slot:
    """Drives the tasks of one slot."""

    def __init__(self, slot_id: SlotId, env: TaskEnvironment, network: Network) -> None:
        self.id = slot_id
        self.here = Subtask(VertexId("slot"), SubtaskIndex(int(slot_id)))
        """Stands for the slot where no task of it is meant."""
        self.phase = SlotPhase.WAITING
        self.tasks: list[Task] = []
        self._untaken = 0
        self._report = env.report
        self._env = replace(env, report=self._send, congested=lambda: self._untaken >= MAX_UNTAKEN)
        self._network = network

    def _send(self, message: FromSlot) -> None:
        if isinstance(message, DriverMessage):
            self._untaken += 1
        self._report(message)

    def handle(self, message: ToSlot) -> None:
        """Take one control message."""
        if self.phase is SlotPhase.LEFT:
            return
        if isinstance(message, DriverMessageTaken):
            self._untaken -= 1
            return
        if isinstance(message, Leave):
            self.leave()
            return
        try:
            self._dispatch(message)
        except Exception as error:
            self._fail(self.tasks[0].subtask if self.tasks else self.here, error)

    def _dispatch(self, message: ToSlot) -> None:
        if isinstance(message, Deploy):
            plan = pickle.loads(message.plan)
            self._network.connect(load(message.peers))
            self.tasks = build_tasks(plan, self.id, message, self._env, self._network)
            self.phase = SlotPhase.RUNNING
            self._env.report(Deployed())
        elif isinstance(message, AssignSplits):
            self._task(message.subtask).assign(message)
        elif isinstance(message, SplitsSettled):
            self._task(message.subtask).settled()
        elif isinstance(message, TriggerSnapshot):
            for task in self.tasks:
                task.trigger(message)
        elif isinstance(message, EndInput):
            for task in self.tasks:
                task.end_input()
        elif isinstance(message, AbortSnapshot):
            for task in self.tasks:
                task.abort(message)
        elif isinstance(message, SnapshotCompleted):
            for task in self.tasks:
                task.completed(message)
            if self._env.backup is not None:
                self._env.background.submit(partial(self._env.backup.completed, message.epoch), _raise)
        elif isinstance(message, TakeTail):
            watch(self.tasks, message)
        elif isinstance(message, AlignWatermarks):
            for task in self.tasks:
                task.align(message)

    def _task(self, subtask: Subtask) -> Task:
        for task in self.tasks:
            if task.subtask == subtask:
                return task
        raise PenstockError(f"slot {self.id} does not host {subtask}")

    def step(self) -> bool:
        """Give every task a turn; false if none had anything to do."""
        if self.phase is not SlotPhase.RUNNING:
            return False
        worked, at = False, self.here
        try:
            for task in self.tasks:
                at = task.subtask
                at_task(task.log_place)
                worked = task.step() or worked
        except Exception as error:
            self._fail(at, error)
            return True
        finally:
            at_task(None)
        return worked

    def next_deadline_ms(self) -> int | None:
        """Processing time at which a step is due although nothing arrived."""
        due = [task.next_deadline_ms() for task in self.tasks]
        return min((time for time in due if time is not None), default=None)

    def held_bytes(self) -> int:
        """Records that wait in the slot, outside of state: what its memory budget is about."""
        return sum(task.held_bytes() for task in self.tasks)

    def heartbeat(self) -> Heartbeat:
        """A heartbeat with the tasks' metrics."""
        measures = {task.subtask: task.measures() for task in self.tasks}
        return Heartbeat(measures, hot_groups=hot_groups(self.tasks), tails=watched(self.tasks))

    def _fail(self, subtask: Subtask, error: Exception) -> None:
        self._env.report(TaskFailed(subtask, error))
        self.leave()

    def leave(self) -> None:
        """Close all tasks and be done."""
        self.phase = SlotPhase.LEFT
        if self._env.backup is not None and all(task.phase is Phase.FINISHED for task in self.tasks):
            self._env.backup.remove()
        for task in self.tasks:
            task.close()


def _raise(_: Any, error: Exception | None) -> None:
    """What background work has to say where it gives nothing."""
    if error is not None:
        raise error
