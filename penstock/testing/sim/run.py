"""One run of a simulated job under one seed: drivers come and go until the job is finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.restart import NoRestart
from penstock.testing.sim.audit import Auditor
from penstock.testing.sim.driver import SimDriver, SimJob
from penstock.testing.sim.ends import SimSink
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.world import InvariantBroken, World, entered

_LIMIT_MS = 30_000.0
_LIMIT_STEPS = 60_000
_TAKEOVER_MS = (20.0, 500.0)
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


class Run:
    """Plays one seed."""

    def __init__(
        self, jobs: Mapping[int, SimJob], slots: int, sinks: list[SimSink], seed: int, faults: Faults
    ) -> None:
        self._world = World(seed, faults)
        self._sinks = sinks
        self._jobs = jobs
        self._parallelism = slots
        rng = self._world.rng
        job = jobs[slots]
        self._settings = replace(
            job.settings,
            retained=rng.choice((1, 1, 2, 3)),
            max_concurrent=min(rng.choice((1, 1, 2)), 1 if job.settings.unaligned else 2),
            tolerable_failures=rng.choice((0, 2, 1000)),
            min_pause_ms=rng.choice((0, 0, 30)),
            commit_backoff_ms=20,
            restart=job.settings.restart if faults.most else NoRestart(),
        )
        self._inline_limit = rng.choice((0, 0, 300, 20_000))
        self._auditor = Auditor(self._world, job.directory, self._settings.retained)
        self._drivers: list[SimDriver] = []
        self._awaited = 0
        """Drivers that somebody is about to start."""

    def play(self) -> RunResult:
        """Run to the end and check what must hold then."""
        world = self._world
        with entered(world):
            self._begin()
            try:
                ended = world.scheduler.run(self._is_over, _LIMIT_MS, _LIMIT_STEPS)
                problem = self._problem(ended)
            except InvariantBroken as broken:
                problem = str(broken)
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
        )

    def _begin(self) -> None:
        if self._drivers and self._world.faults.turns_out("rescale"):
            self._parallelism = self._world.rng.choice(sorted(self._jobs))
        job = replace(self._jobs[self._parallelism], settings=self._settings, inline_limit=self._inline_limit)
        driver = SimDriver(self._world, self._auditor, job, len(self._drivers) + 1, self._on_gone)
        self._drivers.append(driver)
        driver.start()

    def _on_gone(self, driver: SimDriver) -> None:
        """A driver crashed, hangs or has failed: somebody starts another, unless there is one already."""
        if driver.has_failed_badly or driver.has_refused:
            return
        others = any(other.running for other in self._drivers if other is not driver)
        if others or self._awaited or self._world.finished:
            return
        if driver.running and self._world.rng.random() > _SPLIT_BRAIN:
            return
        self._awaited += 1
        scheduler = self._world.scheduler
        scheduler.after(scheduler.between(*_TAKEOVER_MS), self._take_over)

    def _take_over(self) -> None:
        self._awaited -= 1
        if not self._world.finished:
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
