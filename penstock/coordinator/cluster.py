"""The contract between the runner and whatever runs slots: Spark, or threads in one process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.coordinator.events import Event
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import ToSlot

Notify = Callable[[Event], None]
"""Gives an event to the coordinator; may be called from any thread."""


class Cluster(ABC):
    """Starts and stops worker groups and carries messages to them.

    For every started attempt the cluster notifies, in this order: ``SlotRegistered`` per slot,
    ``SlotSaid`` for each message, ``SlotLost`` if one breaks, and exactly one ``AttemptEnded`` when
    no slot of it runs any more.  Methods return at once.
    """

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`SparkLostError` if no attempt can ever start again in this process.

        Asked before each attempt, on a thread that may wait.
        """

    @abstractmethod
    def start_attempt(self, generation: Generation, slots: int, notify: Notify) -> None:
        """Start a worker group."""

    @abstractmethod
    def send(self, slot: SlotId, message: ToSlot) -> None:
        """Give a message to a slot of the current attempt; lost if the slot is gone."""

    @abstractmethod
    def stop_attempt(self, generation: Generation, reason: str) -> None:
        """End the worker group: the slots were told to leave; those that do not are ended by force."""

    @abstractmethod
    def close(self) -> None:
        """The job is over: release everything."""
