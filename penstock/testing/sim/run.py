"""One run of a simulated job under one seed, alone or beside other jobs, and what came of it.

For a person who has to understand a failing seed: what is wrong, how to see it again, what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.state.registry import BUILT_IN, StateBackends
from penstock.testing.sim.audit import home_of, transactions_in
from penstock.testing.sim.environment import InvariantBroken, Savepoint, SimulatedEnvironment, entered
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.life import Compiled, Life, Outputs
from penstock.testing.sim.scheduler import START_MS

_SHOWN = 5
_LINES = 200


class SimulationFailed(AssertionError):
    """A seed whose run broke a promise; the message tells its story."""

    def __init__(self, job: str, seed: int, problem: str, story: list[tuple[float, str]]) -> None:
        self.job = job
        self.seed = seed
        self.problem = problem
        self.story = story
        super().__init__(
            f"job {job!r}, seed {seed}: {problem}\n"
            f"see it again: simulate(..., seeds=[{seed}]) with the same faults and slots\n{tell_story(story)}"
        )


def tell_story(story: list[tuple[float, str]]) -> str:
    """The events of a run, one a line, with virtual times; of a long run the end."""
    lines = [f"{time:9.1f} ms  {text}" for time, text in story[-_LINES:]]
    if len(story) > _LINES:
        lines.insert(0, f"({len(story) - _LINES} earlier events are left out)")
    return "\n".join(lines)


def difference(expected: dict[str, list[str]], found: dict[str, list[str]]) -> str | None:
    """How two outputs differ, ``None`` if they do not."""
    parts = []
    for name, rows in expected.items():
        wanted, got = Counter(rows), Counter(found.get(name, []))
        if wanted != got:
            lost, extra = list((wanted - got).elements()), list((got - wanted).elements())
            both = filter(None, (_some("lacks", lost), _some("has too many", extra)))
            parts.append(f"sink {name!r} {', '.join(both)}")
    return "; ".join(parts) or None


def _some(what: str, rows: list[str]) -> str:
    if not rows:
        return ""
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"{what} {len(rows)}: {', '.join(rows[:_SHOWN])}{more}"


_LIMIT_MS = 30_000.0
_LIMIT_STEPS = 60_000
_FORKED = 0.5
"""Share of the runs with savepoints at whose end a job is started from one."""
_BESIDE_MS = (0.0, 300.0)
"""How much later than the first the other jobs start."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of one run."""

    outputs: Outputs
    problem: str | None
    story: list[tuple[float, str]]
    faults: Counter[str]
    snapshots: int
    virtual_ms: float
    refused: bool = False
    """The storage was damaged before the first snapshot, and no driver would start from it."""
    forked: Outputs | None = None
    """What a job that was started later from one of the savepoints came to."""
    peak_bytes: int = 0
    """The most that ever waited in one channel, as the simulator weighs it."""


class Run:
    """Plays one seed of the first job; the others run in the same world."""

    def __init__(
        self,
        compiled: Sequence[Compiled],
        seed: int,
        faults: Faults,
        forks: bool = False,
        backends: StateBackends = BUILT_IN,
    ) -> None:
        self._world = SimulatedEnvironment(seed, faults, backends)
        self._compiled = compiled
        self._seed = seed
        self._forks = forks
        self._lives = [
            Life(self._world, job, faults, f"{number}." if number else "")
            for number, job in enumerate(compiled)
        ]
        self._begun = 0

    def play(self) -> RunResult:
        """Run to the end and check what must hold then."""
        world, life = self._world, self._lives[0]
        with entered(world):
            self._begin(life)
            scheduler = world.scheduler
            for other in self._lives[1:]:
                scheduler.after(scheduler.between(*_BESIDE_MS), lambda other=other: self._begin(other))  # type: ignore[misc]
            try:
                ended = scheduler.run(self._is_over, _LIMIT_MS, _LIMIT_STEPS * len(self._lives))
                problem = next(filter(None, (life.problem(ended) for life in self._lives)), None)
            except InvariantBroken as broken:
                problem = str(broken)
            finally:
                if world.disk is not None:
                    world.disk.close()
        forked = None
        savepoints = life.auditor.savepoints
        if self._forks and problem is None:
            problem = next(filter(None, map(self._broken_promise, savepoints)), None)
        if self._forks and problem is None and savepoints and world.rng.random() < _FORKED:
            problem, forked = self._go_back_to(world.rng.choice(savepoints))
        return RunResult(
            {name: rows for life in self._lives for name, rows in life.outputs().items()},
            problem,
            self._story(),
            world.faults.counts,
            sum(life.auditor.published for life in self._lives),
            world.scheduler.now,
            problem is None and not all(life.finished for life in self._lives),
            forked,
            world.peak_bytes,
        )

    def _begin(self, life: Life) -> None:
        self._begun += 1
        life.begin()

    def _is_over(self) -> bool:
        return self._begun == len(self._lives) and all(life.is_over() for life in self._lives)

    def _story(self) -> list[tuple[float, str]]:
        story = self._world.story
        for life in self._lives:
            for driver in life.drivers:
                story.extend(
                    (float(time), f"driver {driver.number}: {text}") for time, text in driver.coordinator.log
                )
        story.sort(key=lambda line: line[0])
        return story

    def _broken_promise(self, savepoint: Savepoint) -> str | None:
        """Output that whoever starts from the savepoint relies on, and that nobody has committed."""
        promised = transactions_in(savepoint.manifest)
        lost = promised.difference(*(sink.committed for sink in self._world.sinks.values()))
        return f"{savepoint.location} counts on {min(lost)}, which was never committed" if lost else None

    def _go_back_to(self, savepoint: Savepoint) -> tuple[str | None, Outputs | None]:
        """Start the job from a savepoint in a world where nothing behind it ever happened."""
        world, epoch = self._world, int(savepoint.manifest.epoch)
        world.tell(f"another job starts from {savepoint.location} (epoch {epoch})")
        other = Run(self._compiled[:1], self._seed, Faults(most=0), backends=world.backends)
        promised = transactions_in(savepoint.manifest)
        home = home_of(savepoint.location)
        other._world.files.update((k, v) for k, v in world.files.items() if k.startswith(home))
        other._world.publishable = promised
        for name, sink in world.sinks.items():
            other._world.sinks[name] = sink.as_of(savepoint.manifest.created_ms - START_MS, epoch, promised)
        life = other._lives[0]
        life.parallelism = world.rng.choice(sorted(self._compiled[0].jobs))
        life.has_others = world.rng.random() < 0.5
        life.line = self._lives[0].line_from(savepoint.location)
        result = other.play()
        world.story.extend((world.scheduler.now, f"the other job: {text}") for _, text in result.story)
        problem = result.problem
        return f"a job started from {savepoint.location}: {problem}" if problem else None, result.outputs
