"""What a driver needs of the world, handed in as values.

A driver in production has threads, a checkpoint storage and a Spark cluster behind these; in the simulator
it has actions of one scheduler and files in a dictionary.  The driver itself, :class:`JobDriver`, is the
same, from the first event to the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from penstock.coordinator.events import Answer, Claimed, Event, Publish, PublishDone, SavepointWritten
from penstock.coordinator.layout import Planner
from penstock.core.clock import Clock
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import ToSlot
from penstock.graph.plan import Plan
from penstock.snapshot.storage import SnapshotStore

Notify = Callable[[Event], None]
"""Gives an event to the coordinator; may be called from any thread."""


class Cluster(ABC):
    """Starts and stops worker groups and carries messages to them.

    For every started attempt the cluster notifies, in this order: ``SlotRegistered`` per slot,
    ``SlotSaid`` for each message, ``SlotLost`` if one breaks, and exactly one ``AttemptEnded`` when
    no slot of it runs any more.  Methods return at once.
    """

    def most_slots(self) -> int | None:
        """How many slots a worker group can have, those of the one that runs included; ``None``: not known.

        Asked before a rescale, and again and again by who may ask for one, on a thread that may wait.
        """
        return None

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


T = TypeVar("T")
Work = Callable[[], Event]
"""Blocking work; its event says what came of it."""
Failed = Callable[[Exception], Event]
"""What to tell the coordinator if the work raised."""


class EventQueue(Protocol):
    """Events on their way to the event loop."""

    def post(self, event: Event) -> None:
        """Append an event; from any thread, returns at once.  One thread's events keep their order."""
        ...

    def drain(self) -> Iterator[Event]:
        """Take out what the loop has not taken.  Called once, by the loop's thread, when the job ends."""
        ...


class Worker(ABC):
    """Does blocking work away from the event loop."""

    @abstractmethod
    def submit(self, work: Work, failed: Failed) -> None:
        """Have ``work`` done and its event posted, or that of ``failed``; returns at once.

        Exactly one event comes of each piece of work, whatever is raised in it, unless the process ends.
        """


class Lane(Worker):
    """Does blocking work one piece after the other, in the order in which it was submitted.

    Lanes do not wait for each other, so that a slow commit delays no checkpoint.  All methods are called by
    the event loop's thread; after :meth:`close` none is.
    """

    @abstractmethod
    def wait_for(self, work: Callable[[], T]) -> T:
        """Do ``work`` behind everything submitted so far and wait for its result; raises what it raises."""

    @abstractmethod
    def close(self, wait: bool) -> None:
        """Take no more work.  With ``wait``, all that was submitted is done when this returns; without, it
        may be done later or never, and its events are lost."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The places where a driver's blocking work is done."""

    storage: Lane
    """Claims, publishes and deletes snapshots."""
    commits: Lane
    """Runs committers."""
    discovery: Lane
    """Runs split enumerators."""
    requests: Worker
    """Prepares the directories of savepoints.  Pieces do not wait for each other: a directory that does not
    answer holds up no other savepoint.  Submitted to from any thread, also after the end of the job."""


class StoreOpener(Protocol):
    """Opens the storage at a URL, as :func:`penstock.snapshot.store.open_store` does."""

    def __call__(self, url: str, create: bool = True) -> SnapshotStore:
        """The store there; with ``create``, the directory is made and tried for writing."""
        ...


class Storage(ABC):
    """The snapshots of the job, as its driver uses them.  Every method may block.

    Call order: :meth:`claim` before each attempt; :meth:`publish` in order of epoch and :meth:`discard` in
    between; at the end :meth:`drop`, if nothing is kept, then :meth:`release`.  Thread: the storage lane,
    one call at a time; but :meth:`new_savepoint` on the worker for requests, and after the storage lane was
    closed :meth:`discard`, :meth:`release` and :meth:`explained` on the event loop's.
    """

    url: str
    """Where the job's checkpoints are."""

    @abstractmethod
    def change_plan(self, plan: Plan) -> None:
        """What is claimed from now on is for this plan.  Between two attempts, on the event loop's thread."""

    @abstractmethod
    def claim(self, checksums: bool) -> Claimed:
        """Take the job over, or confirm that it is still ours, and find what it goes on from.

        With ``checksums`` all state is read before it is trusted.  Raises, before another driver is
        fenced, if the program cannot take the state that is there.
        """

    @abstractmethod
    def publish(self, instruction: Publish) -> PublishDone | SavepointWritten:
        """Write the manifest and make the snapshot durable; then delete what retention does not keep.

        The trap: unless it raises :class:`FencedError`, the snapshot may be published although this raised.
        """

    @abstractmethod
    def new_savepoint(self, directory: str | None) -> str:
        """Make a directory for a savepoint below ``directory``, or the configured one; its URL."""

    @abstractmethod
    def discard(self, location: str) -> None:
        """Remove what tasks wrote for a savepoint that was aborted; never raises."""

    @abstractmethod
    def drop(self) -> Exception | None:
        """Remove the checkpoints of a job that is over; never raises.

        Gives back why it is not certain that the job was ours to the end: another driver may go on with it.
        """

    @abstractmethod
    def release(self) -> None:
        """The job has ended: its directory does not name this driver any more.  Never raises."""

    @abstractmethod
    def explained(self, error: Exception | None) -> Exception | None:
        """The error that ended the job; one that fenced this driver off, with who did.  Never raises."""


class Clients(Protocol):
    """Clients that asked for a snapshot and wait for the answer.  Thread-safe.

    Each request that was entered is resolved exactly once: answered, failed, or told by :meth:`close` that
    the job has ended.
    """

    def enter(self) -> tuple[str, Future[str]]:
        """A new request's id, and the future of its snapshot's path; failed already if the job has ended."""
        ...

    def answer(self, answer: Answer, root: str) -> None:
        """Resolve a request; ``root`` is where the job's checkpoints are."""
        ...

    def fail(self, request: str, error: Exception) -> None:
        """The request came to nothing."""
        ...

    def close(self) -> None:
        """The job is over; whatever is open or comes later is told so."""
        ...


@dataclass(frozen=True, slots=True)
class DriverPorts:
    """Everything that differs between a driver on Spark, one in a test's process and a simulated one."""

    clock: Clock
    cluster: Cluster
    events: EventQueue
    lanes: Lanes
    storage: Storage
    clients: Clients
    planner: Planner
