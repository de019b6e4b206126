"""One run of a simulated job under one seed: drivers come and go until the job is finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.restart import NoRestart
from penstock.testing.sim.audit import Auditor, home_of, transactions_in
from penstock.testing.sim.driver import SimDriver, SimJob
from penstock.testing.sim.ends import SimSink
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.people import People
from penstock.testing.sim.requests import Line
from penstock.testing.sim.scheduler import START_MS
from penstock.testing.sim.world import InvariantBroken, Savepoint, World, entered

_LIMIT_MS = 30_000.0
_LIMIT_STEPS = 60_000
_TAKEOVER_MS = (20.0, 500.0)
_CROWDED_MS = 15
"""Time between the checkpoints of a job that wants several in flight."""
_FORKED = 0.5
"""Share of the runs with savepoints at whose end a job is started from one."""
_SPLIT_BRAIN = 0.7
"""Share of hanging drivers that somebody replaces while they hang."""

Outputs = dict[str, list[str]]
"""Sink to its records as text, sorted."""


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


class Run:
    """Plays one seed."""

    def __init__(
        self,
        jobs: Mapping[int, SimJob],
        slots: int,
        sinks: list[SimSink],
        seed: int,
        faults: Faults,
        others: Mapping[int, SimJob] | None = None,
        forks: bool = False,
    ) -> None:
        self._world = World(seed, faults)
        self._seed = seed
        self._others = others
        self._has_others = False
        self._forks = forks
        self._sinks = sinks
        self._jobs = jobs
        self._parallelism = slots
        rng = self._world.rng
        job = jobs[slots]
        crowded = job.settings.max_concurrent > 1
        concurrent = min(rng.choice((1, 1, 2)), 1 if job.settings.unaligned else 2)
        pause = rng.choice((0, 0, 30))
        self._settings = replace(
            job.settings,
            interval_ms=_CROWDED_MS if crowded else job.settings.interval_ms,
            retained=rng.choice((1, 1, 2, 3)),
            max_concurrent=job.settings.max_concurrent if crowded else concurrent,
            tolerable_failures=rng.choice((0, 2, 1000)),
            min_pause_ms=0 if crowded else pause,
            commit_backoff_ms=20,
            restart=job.settings.restart if faults.most else NoRestart(),
        )
        self._inline_limit = rng.choice((0, 0, 300, 20_000))
        self._auditor = Auditor(self._world, job.directory, self._settings.retained)
        self._drivers: list[SimDriver] = []
        self._line = Line()
        self._people = People(self._world, self._drivers)
        self._awaited: list[Line] = []
        """Drivers that somebody is about to start."""

    def play(self) -> RunResult:
        """Run to the end and check what must hold then."""
        world = self._world
        with entered(world):
            self._begin()
            self._people.look()
            try:
                ended = world.scheduler.run(self._is_over, _LIMIT_MS, _LIMIT_STEPS)
                problem = self._problem(ended)
            except InvariantBroken as broken:
                problem = str(broken)
        forked = None
        if self._forks and problem is None and world.savepoints and world.rng.random() < _FORKED:
            problem, forked = self._go_back_to(world.rng.choice(world.savepoints))
        for driver in self._drivers:
            world.story.extend(
                (float(time), f"driver {driver.number}: {text}") for time, text in driver.brain.log
            )
        world.story.sort(key=lambda line: line[0])
        return RunResult(
            self._outputs(),
            problem,
            world.story,
            world.faults.counts,
            self._auditor.published,
            world.scheduler.now,
            problem is None and not world.finished,
            forked,
        )

    def _go_back_to(self, savepoint: Savepoint) -> tuple[str | None, Outputs | None]:
        """Start the job from a savepoint in a world where nothing behind it ever happened."""
        world, epoch = self._world, int(savepoint.manifest.epoch)
        world.tell(f"another job starts from {savepoint.location} (epoch {epoch})")
        other = Run(self._jobs, self._parallelism, self._sinks, self._seed, Faults(most=0), self._others)
        promised = transactions_in(savepoint.manifest)
        home = home_of(savepoint.location)
        other._world.files.update((k, v) for k, v in world.files.items() if k.startswith(home))
        other._world.publishable = promised
        for name, sink in world.sinks.items():
            other._world.sinks[name] = sink.as_of(savepoint.manifest.created_ms - START_MS, epoch, promised)
        lost = promised.difference(*(sink.committed for sink in world.sinks.values()))
        if lost:
            return f"{savepoint.location} counts on {min(lost)}, which was never committed", None
        other._parallelism = world.rng.choice(sorted(self._jobs))
        other._has_others = world.rng.random() < 0.5
        other._line = self._line_from(savepoint.location)
        result = other.play()
        world.story.extend((world.scheduler.now, f"the other job: {text}") for _, text in result.story)
        problem = result.problem
        return f"a job started from {savepoint.location}: {problem}" if problem else None, result.outputs

    def _line_from(self, location: str) -> Line:
        """What somebody starts who goes on from a savepoint."""
        return Line(location, self._world.faults.turns_out("claim"))

    def _begin(self) -> None:
        if self._drivers and self._world.faults.turns_out("rescale"):
            self._parallelism = self._world.rng.choice(sorted(self._jobs))
        if self._drivers and self._others is not None and self._world.faults.turns_out("other_settings"):
            self._has_others = not self._has_others
        jobs = self._others if self._others is not None and self._has_others else self._jobs
        job = replace(jobs[self._parallelism], settings=self._settings, inline_limit=self._inline_limit)
        number = len(self._drivers) + 1
        driver = SimDriver(self._world, self._auditor, job, number, self._on_gone, self._line)
        self._drivers.append(driver)
        driver.start()

    def _on_gone(self, driver: SimDriver) -> None:
        """A driver crashed, hangs, failed or was stopped: somebody starts another, unless there is one."""
        line = driver.line
        if driver.has_failed_badly or driver.has_refused or line is not self._line:
            return
        if driver.ended_with is not None:
            line = self._line = self._line_from(driver.ended_with)
        else:
            others = any(o.running for o in self._drivers if o is not driver and o.line is line)
            if others or line in self._awaited or line.finished:
                return
            if driver.running and self._world.rng.random() > _SPLIT_BRAIN:
                return
        self._awaited.append(line)
        scheduler = self._world.scheduler
        scheduler.after(scheduler.between(*_TAKEOVER_MS), lambda: self._take_over(line))

    def _take_over(self, line: Line) -> None:
        self._awaited.remove(line)
        if line is self._line and not line.finished:
            self._begin()

    def _is_over(self) -> bool:
        if self._awaited or (self._drivers[-1].running and not self._world.finished):
            return False
        alive = any(driver.running for driver in self._drivers)
        return not alive or (
            self._world.finished and not any(d.running and d.has_claimed for d in self._drivers)
        )

    def _problem(self, ended: bool) -> str | None:
        if not ended:
            phases = ", ".join(f"driver {d.number} {d.brain.phase.name}" for d in self._drivers if d.running)
            return (
                f"the job is stuck after {self._world.scheduler.now:.0f} virtual ms: {phases or 'no driver'}"
            )
        for driver in self._drivers:
            if driver.has_failed_badly:
                return f"driver {driver.number} ended as {driver.status.name}: {driver.error}"
        if self._world.finished:
            return None
        if not any(driver.has_refused for driver in self._drivers):
            return "no driver is left, and none has finished the job"
        seen = [name for name, sink in self._world.sinks.items() if sink.committed]
        return f"the job was refused although {', '.join(seen)} has output" if seen else None

    def _outputs(self) -> Outputs:
        found: Outputs = {}
        for sink in self._sinks:
            rows: list[Any] = self._world.sink(sink.name).rows()
            found[sink.name] = sorted(map(repr, sink.view(rows) if sink.view else rows))
        return found
