"""What can go wrong in a simulated job, how often, and how much of it in one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from random import Random

from penstock.testing.sim.scheduler import Scheduler

SIMULATED = "simulated: "
"""How the text of every injected error begins."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The chance of each fault at each opportunity; all off by default, :meth:`all` is a good mix."""

    slot_crash: float = 0.0
    """A slot vanishes between two steps."""
    snapshot_crash: float = 0.0
    """A slot vanishes between freezing, writing and acknowledging."""
    driver_crash: float = 0.0
    """The driver vanishes between two instructions."""
    driver_crash_in_storage: float = 0.0
    """The driver vanishes between two operations on the storage."""
    driver_hang: float = 0.0
    """The driver stands still for a while; mostly another one takes over meanwhile."""
    driver_hang_in_storage: float = 0.0
    """The same between two operations on the storage: with half a snapshot published, say."""
    connection_loss: float = 0.0
    """The control connection of a slot breaks; the slot goes on for a while."""
    lost_completion: float = 0.0
    """A slot is not told that a snapshot was published."""
    repeated_ack: float = 0.0
    """An acknowledgement arrives twice."""
    delayed_message: float = 0.0
    """A control message is late, and all behind it on that connection."""
    slow_storage: float = 0.0
    storage_error: float = 0.0
    """An operation on the storage fails without effect."""
    storage_error_after: float = 0.0
    """An operation on the storage has its effect and fails all the same."""
    partial_file: float = 0.0
    """Writing a state file fails and leaves half of it."""
    torn_file: float = 0.0
    """The driver vanishes while it creates a file: half of it is there, or only a temporary file."""
    rotten_file: float = 0.0
    """When a driver vanishes, a file of the snapshot that it published last is damaged.  Only if nothing of
    it was committed and an older one is whole: then going back must be exact, otherwise it cannot be."""
    slow_channel: float = 0.0
    stall: float = 0.0
    """A slot does nothing for a while."""
    zombie: float = 0.0
    """A slot of an attempt that is over goes on running, writing and reporting."""
    clock_jump: float = 0.0
    """The calendar of a slot jumps."""
    discovery_error: float = 0.0
    """A source's enumerator raises."""
    source_error: float = 0.0
    """Polling a split raises."""
    writer_error: float = 0.0
    """A sink's writer raises at a barrier, before or after it prepared its output."""
    commit_error: float = 0.0
    commit_error_after: float = 0.0
    """A commit succeeds, in whole or in part, and raises."""
    commit_retry: float = 0.0
    commit_repeated: float = 0.0
    rescale: float = 0.0
    """A driver that takes over runs the job with another parallelism."""
    savepoint: float = 0.0
    """Somebody wants a savepoint, at one of the moments when people look at the job; the run then also starts
    a job from it.  These wishes count as faults, so that every job can end."""
    checkpoint_asked: float = 0.0
    """Somebody wants a checkpoint."""
    stop: float = 0.0
    """Somebody stops the job with a savepoint, and starts it again from there."""
    drain: float = 0.0
    """The same, but all event times are over first.  Not among :meth:`all`: windows are cut short by it, so
    only jobs without event time come to the same result."""
    interrupt: float = 0.0
    """Somebody ends the job as Ctrl-C does, which keeps its checkpoints, and starts it again."""
    rescale_in_place: float = 0.0
    """Somebody wants the running driver to go on at another parallelism."""
    slots_missing: float = 0.0
    """A worker group behind the first does not start: there are too few slots for it."""
    slots_leave: float = 0.0
    """A machine is gone for a while, with some of the slots.  Jobs are adaptive where this may happen.  Not
    among :meth:`all`: adaptive jobs look for slots all the time, and every seed would tell another story."""
    bad_copy: float = 0.0
    """A copy of a checkpoint file on a machine's disk is damaged, or another file's, or all are gone.  Not
    among :meth:`all`: only jobs that want copies have some."""
    claim: float = 0.0
    """A job that starts from a savepoint may delete it when it has checkpoints of its own."""
    other_settings: float = 0.0
    """A driver that takes over has the other settings of its simulation, if there are any."""
    stranger: float = 0.0
    """Somebody starts another program under the job's name; it is refused, and the job must not notice."""
    slow_commits: float = 0.0
    """A driver whose commits take several checkpoints' time each."""
    stuck_open: float = 0.0
    """A slot hangs while its steps open, as a sink does whose server does not answer: silent until it is
    ended.  Not among :meth:`all`: a run of it lasts as long as ``penstock.deploy.timeout``."""
    most: int = 12
    """At most so many faults in one run, so that every job can end."""

    @classmethod
    def all(cls) -> Faults:
        """Everything, at rates that disturb a run of a second or two a handful of times."""
        return cls(
            slot_crash=0.002,
            snapshot_crash=0.02,
            driver_crash=0.006,
            driver_crash_in_storage=0.003,
            driver_hang=0.004,
            driver_hang_in_storage=0.003,
            connection_loss=0.006,
            lost_completion=0.1,
            repeated_ack=0.05,
            delayed_message=0.02,
            slow_storage=0.05,
            storage_error=0.003,
            storage_error_after=0.003,
            partial_file=0.03,
            torn_file=0.004,
            rotten_file=0.4,
            slow_channel=0.15,
            stall=0.002,
            zombie=0.4,
            clock_jump=0.001,
            discovery_error=0.02,
            source_error=0.001,
            writer_error=0.005,
            commit_error=0.04,
            commit_error_after=0.04,
            commit_retry=0.1,
            commit_repeated=0.1,
            rescale=0.4,
            savepoint=0.02,
            checkpoint_asked=0.01,
            stop=0.015,
            interrupt=0.015,
            rescale_in_place=0.03,
            slots_missing=0.03,
            claim=0.3,
            other_settings=0.4,
            stranger=0.01,
            slow_commits=0.3,
        )


_APART = ("most", "stuck_open")
_LATER = ("interrupt", "rescale_in_place", "slots_missing", "slots_leave", "bad_copy")
"""Kinds with dice of their own: where they do not happen, a seed tells the story that it told before."""
_KINDS = [field.name for field in fields(Faults) if field.name not in (*_APART, *_LATER)]
_ENABLED = 0.6
_STRENGTHS = (0.3, 1.0, 3.0)
_PAUSES = 0.6
"""Share of faults that are followed by a quiet time: the others come in bursts."""


class Injector:
    """Throws the dice.  Each run has its own selection of kinds and strengths, so runs differ more."""

    def __init__(self, faults: Faults, scheduler: Scheduler, tell: Callable[[str], None]) -> None:
        rng = self._rng = scheduler.rng
        state = repr(rng.getstate())
        self._later = {kind: Random(f"{state}{number or ''}") for number, kind in enumerate(_LATER)}
        self._scheduler = scheduler
        self._tell = tell
        self._not_before = rng.choice((0.0, scheduler.between(0.0, 600.0)))
        self._left = rng.randint(1, faults.most) if faults.most else 0
        self.counts: Counter[str] = Counter()
        self._rates: dict[str, float] = {}
        for kind, dice in [*((kind, rng) for kind in _KINDS), *self._later.items()]:
            chosen, strength = dice.random() < _ENABLED, dice.choice(_STRENGTHS)
            self._rates[kind] = getattr(faults, kind) * strength if chosen else 0.0
        self._rates["stuck_open"] = faults.stuck_open

    def hit(self, kind: str, what: str = "") -> bool:
        """Whether the fault happens here and now."""
        rate = self._rates[kind]
        now = self._scheduler.now
        dice = self._later.get(kind, self._rng)
        if not rate or self._left <= 0 or now < self._not_before or dice.random() >= rate:
            return False
        self._left -= 1
        if self._rng.random() < _PAUSES:
            self._not_before = now + self._scheduler.between(0.0, 300.0)
        self.counts[kind] += 1
        self._tell(f"FAULT {kind.replace('_', ' ')}{': ' + what if what else ''}")
        return True

    def turns_out(self, kind: str, what: str = "") -> bool:
        """Whether something that happens anyway takes this turn: costs nothing of what is allowed."""
        rate = self._rates[kind]
        if not rate or self._rng.random() >= rate:
            return False
        self.counts[kind] += 1
        self._tell(f"{kind}{': ' + what if what else ''}")
        return True

    def may_happen(self, kind: str) -> bool:
        """Whether the fault is one of this run."""
        return self._rates[kind] > 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing goes wrong meanwhile."""
        rates, self._rates = self._rates, dict.fromkeys(self._rates, 0.0)
        try:
            yield
        finally:
            self._rates = rates

    @property
    def total(self) -> int:
        """Faults so far."""
        return self.counts.total()
