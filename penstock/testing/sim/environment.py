"""What outlives every process of a simulated job: the files, the sinks' contents, the story so far.

One world is current while a run goes on.  Simulation sources and sinks travel to slots by pickling
and find it through :func:`current`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.snapshot.manifest import Manifest
from penstock.state.registry import BUILT_IN, StateBackends
from penstock.testing.sim.faults import Faults, Injector
from penstock.testing.sim.scheduler import Scheduler

if TYPE_CHECKING:
    from penstock.testing.sim.audit import Auditor
    from penstock.testing.sim.disk import LocalDisk


class InvariantBroken(BaseException):
    """Something happened that must never happen.  Not an ``Exception``, so that no handler hides it."""


class SinkTable:
    """The outside system behind a simulation sink: staged and committed transactions."""

    def __init__(self) -> None:
        self.staged: dict[str, tuple[int, int, int, list[Any]]] = {}
        """Transaction to (generation, subtask, epoch, rows)."""
        self.committed: dict[str, list[Any]] = {}
        self.commits: list[tuple[float, str]] = []
        """Every commit that was asked for, with its time."""

    def rows(self) -> list[Any]:
        """What a reader of the system sees."""
        return [row for rows in self.committed.values() for row in rows]

    def as_of(self, time: float, epoch: int, promised: set[str]) -> SinkTable:
        """What was committed at ``time`` and belongs to snapshots up to ``epoch``; ``promised`` is staged."""
        found = SinkTable()
        first = {transaction: when for when, transaction in reversed(self.commits)}
        for transaction, rows in self.committed.items():
            of = int(transaction.rpartition("/")[2])
            if of <= epoch and first[transaction] <= time:
                found.committed[transaction] = rows
            elif transaction in promised:
                found.staged[transaction] = (0, 0, of, rows)
        return found


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint that somebody was promised."""

    location: str
    manifest: Manifest


class SimulatedEnvironment:
    """Shared by all actors of one run."""

    def __init__(self, seed: int, faults: Faults, backends: StateBackends = BUILT_IN) -> None:
        self.backends = backends
        """What the slots may keep their state in."""
        self.scheduler = Scheduler(seed)
        self.rng = self.scheduler.rng
        self.story: list[tuple[float, str]] = []
        self.faults = Injector(faults, self.scheduler, self.tell)
        self.files: dict[str, bytes] = {}
        self.sinks: dict[str, SinkTable] = {}
        self.owners: dict[str, Auditor] = {}
        """Whose each directory of checkpoints is."""
        self.peak_bytes = 0
        """The most that ever waited in one channel."""
        self.heaviest_row = 0
        self.heaviest_columns = 0
        self.acting: object = None
        """The slot or driver that does something right now."""
        self._open: dict[object, Counter[str]] = {}
        """What each of them has opened and not closed, by kind."""
        self.notes: dict[object, int] = {}
        """For functions of a job that count something over all attempts, or for each slot."""
        self.auditors: list[Auditor] = []
        """One for each job."""
        self.room: int | None = None
        """How many slots there is room for; ``None``: for all."""
        self.disk: LocalDisk | None = None
        """Where slots keep copies of what they write, if a job wants that."""
        self.publishable: set[str] = set()
        """Transactions that a published snapshot holds: only these may be committed."""

    def opened(self, kind: str) -> Callable[[], None]:
        """Who acts has opened something; call what this gives when it is closed."""
        held = self._open.setdefault(self.acting, Counter())
        held[kind] += 1

        def close() -> None:
            held[kind] -= 1

        return close

    def check_closed(self, process: object, name: str) -> None:
        """A process that ended as it should has closed what it had opened."""
        left = +self._open.pop(process, Counter())
        if left:
            raise self.broken(f"{name} has left and not closed {dict(left)}")

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append((self.scheduler.now, text))

    def sink(self, name: str) -> SinkTable:
        """The table of a sink, made on first use."""
        return self.sinks.setdefault(name, SinkTable())

    def broken(self, text: str) -> InvariantBroken:
        """The error for a broken invariant."""
        self.tell(f"BROKEN {text}")
        return InvariantBroken(text)


_stack: list[SimulatedEnvironment] = []


def current() -> SimulatedEnvironment:
    """The world of the run that goes on."""
    if not _stack:
        raise RuntimeError("simulation sources and sinks work only inside penstock.testing.simulate")
    return _stack[-1]


@contextmanager
def entered(world: SimulatedEnvironment) -> Iterator[None]:
    """Make ``world`` the current one."""
    _stack.append(world)
    try:
        yield
    finally:
        _stack.pop()
