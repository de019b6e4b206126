"""The life of one simulated job: drivers come and go until it is finished.  Several may share a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.coordinator.elastic_settings import ElasticSettings
from penstock.core.restart import NoRestart
from penstock.testing.sim.audit import Auditor
from penstock.testing.sim.connectors import SimSink
from penstock.testing.sim.driver import SimDriver, SimJob
from penstock.testing.sim.environment import SimulatedEnvironment
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.limits import Limits
from penstock.testing.sim.requests import Lineage
from penstock.testing.sim.users import Users, starts_in_vain

_TAKEOVER_MS = (20.0, 500.0)
_QUIET_TIMEOUT_MS = 600_000
"""Where there are no faults no checkpoint gets lost: one that waits behind slow steps is no failure."""
_CROWDED_MS = 15
"""Time between the checkpoints of a job that wants several in flight."""
_ELASTIC = ElasticSettings(1, 40, 60)
_SPLIT_BRAIN = 0.7
"""Share of hanging drivers that somebody replaces while they hang."""

Outputs = dict[str, list[str]]
"""Sink to its records as text, sorted."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A job as it is played: ready for each parallelism."""

    slots: int
    """The parallelism of its first driver."""
    jobs: Mapping[int, SimJob]
    sinks: list[SimSink]
    limits: Limits
    others: Mapping[int, SimJob] | None = None
    """The same job with other settings."""
    stranger: SimJob | None = None
    """Another program under the same name."""
    renewed: Callable[[SimJob], SimJob] | None = None
    """Makes what a new driver process has of a job: classes of its own."""


class Life:
    """One job in a world. ``label`` tells its drivers from those of other jobs."""

    def __init__(
        self, world: SimulatedEnvironment, compiled: Compiled, faults: Faults, label: str = ""
    ) -> None:
        self._world = world
        self._compiled = compiled
        self._label = label
        self.parallelism = compiled.slots
        self.has_others = False
        rng = world.rng
        job = compiled.jobs[compiled.slots]
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
            elastic=_ELASTIC if world.faults.may_happen("slots_leave") else None,
            restart=job.settings.restart if faults.most else NoRestart(),
            timeout_ms=job.settings.timeout_ms if faults.most else _QUIET_TIMEOUT_MS,
        )
        self._inline_limit = rng.choice((0, 0, 300, 20_000))
        settings = self._settings
        self.auditor = Auditor(
            world, job.directory, settings.retained, job.name, compiled.limits, settings.max_concurrent
        )
        self.drivers: list[SimDriver] = []
        self.line = Lineage()
        self._users = Users(world, self.drivers, sorted(compiled.jobs), self._on_stranger)
        self._awaited: list[Lineage] = []
        """Drivers that somebody is about to start."""

    def begin(self) -> None:
        """The first driver starts, and users look at the job now and then."""
        self._begin()
        self._users.look()

    def _begin(self) -> None:
        compiled, faults = self._compiled, self._world.faults
        if self.drivers and faults.turns_out("rescale"):
            self.parallelism = self._world.rng.choice(sorted(compiled.jobs))
        if self.drivers and compiled.others is not None and faults.turns_out("other_settings"):
            self.has_others = not self.has_others
        jobs = compiled.others if compiled.others is not None and self.has_others else compiled.jobs
        job = jobs[self.parallelism]
        if compiled.renewed is not None:
            job = compiled.renewed(job)
        driver = self._driver(job, self._on_gone, self.line)
        self.drivers.append(driver)
        driver.start()

    def _driver(self, job: SimJob, gone: Callable[[SimDriver], None], line: Lineage) -> SimDriver:
        job = replace(job, settings=self._settings, inline_limit=self._inline_limit)
        return SimDriver(self._world, self.auditor, job, f"{self._label}{len(self.drivers) + 1}", gone, line)

    def _on_stranger(self) -> None:
        """Somebody starts another program under the name of this job, which has state."""
        stranger = self._compiled.stranger
        if stranger is not None and self.auditor.has_state and not self.line.finished:
            starts_in_vain(self._world, lambda: self._driver(stranger, lambda driver: None, Lineage()))

    def _on_gone(self, driver: SimDriver) -> None:
        """A driver crashed, hangs, failed or was stopped: somebody starts another, unless there is one."""
        line = driver.line
        if driver.has_failed_badly or driver.has_refused or line is not self.line:
            return
        if driver.ended_with is not None:
            line = self.line = self.line_from(driver.ended_with)
        else:
            others = any(o.running for o in self.drivers if o is not driver and o.line is line)
            if others or line in self._awaited or line.finished:
                return
            if driver.running and self._world.rng.random() > _SPLIT_BRAIN:
                return
        self._awaited.append(line)
        scheduler = self._world.scheduler
        scheduler.after(scheduler.between(*_TAKEOVER_MS), lambda: self._take_over(line))

    def line_from(self, location: str) -> Lineage:
        """What somebody starts who goes on from a savepoint."""
        return Lineage(location, self._world.faults.turns_out("claim"))

    def _take_over(self, line: Lineage) -> None:
        self._awaited.remove(line)
        if line is self.line and not line.finished:
            self._begin()

    @property
    def finished(self) -> bool:
        """Some driver has finished the job, and nobody means to go on with it."""
        return self.auditor.finished

    def is_over(self) -> bool:
        """Whether nothing more will come."""
        if self._awaited or (self.drivers[-1].running and not self.finished):
            return False
        alive = any(driver.running for driver in self.drivers)
        return not alive or (self.finished and not any(d.running and d.has_claimed for d in self.drivers))

    def problem(self, ended: bool) -> str | None:
        """What is wrong with how it ended."""
        if not ended:
            phases = ", ".join(
                f"driver {d.number} {d.coordinator.phase.name}" for d in self.drivers if d.running
            )
            return (
                f"the job is stuck after {self._world.scheduler.now:.0f} virtual ms: {phases or 'no driver'}"
            )
        for driver in self.drivers:
            if driver.has_failed_badly:
                return f"driver {driver.number} ended as {driver.status.name}: {driver.error}"
        if self.finished:
            return None
        if not any(driver.has_refused for driver in self.drivers):
            return "no driver is left, and none has finished the job"
        if self.line.start is not None:
            return None  # what it began with, a savepoint, has output behind it
        seen = [sink.name for sink in self._compiled.sinks if self._world.sink(sink.name).committed]
        return f"the job was refused although {', '.join(seen)} has output" if seen else None

    def outputs(self) -> Outputs:
        """What readers of its sinks see."""
        found: Outputs = {}
        for sink in self._compiled.sinks:
            rows: list[Any] = self._world.sink(sink.name).rows()
            found[sink.name] = sorted(map(repr, sink.view(rows) if sink.view else rows))
        return found
