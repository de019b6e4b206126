"""``simulate``: a whole job in one thread under a seeded scheduler, with faults, checked to the record.

The job is compiled once, a script by every driver.  A run without faults gives the output that every other
run must have, unless it is known better; then each seed is played and compared.  See
``docs/guides/testing.md``.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.core.clock import SystemClock
from penstock.state.registry import BUILT_IN, StateBackends
from penstock.testing.sim.compiling import BuildJob, compile_job, has_real_sinks
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.life import Compiled, Outputs
from penstock.testing.sim.limits import Limits
from penstock.testing.sim.network import small_frames
from penstock.testing.sim.run import Run, RunResult, SimulationFailed, difference


@dataclass(frozen=True, slots=True)
class Report:
    """What a simulation did."""

    seeds: int
    seconds: float
    snapshots: int
    """Published over all runs."""
    virtual_ms: float
    faults: Counter[str] = field(default_factory=Counter)
    """How often each kind happened."""


class Simulation:
    """A job compiled for simulation. :func:`simulate` is the short way."""

    def __init__(
        self,
        build_job: BuildJob,
        slots: int = 2,
        name: str = "job",
        other: BuildJob | None = None,
        beside: Sequence[BuildJob] = (),
        limits: Limits | None = None,
        expected: Mapping[str, Iterable[object]] | None = None,
        backends: StateBackends = BUILT_IN,
    ) -> None:
        """``other`` writes the same job with other settings, to which a new driver may switch."""
        self.name = name
        self._backends = backends
        bounds = limits or Limits()
        first = compile_job(build_job, slots, other, bounds)
        self._jobs = [first, *(compile_job(build, slots, None, bounds) for build in beside)]
        self._forks = not has_real_sinks(first)  # real sinks know only one course of events
        self._expected: Outputs | None = None
        if expected is not None:
            self._expected = {sink: sorted(map(repr, rows)) for sink, rows in expected.items()}

    @property
    def expected(self) -> Outputs:
        """The output of a run without faults, by sink: of each job as if there were no other."""
        if self._expected is None:
            expected: Outputs = {}
            for job in self._jobs:
                result = self._play([job], 0, Faults(most=0))
                if result.problem is not None:
                    raise SimulationFailed(self.name, 0, f"without any fault: {result.problem}", result.story)
                expected.update(result.outputs)
            self._expected = expected
        return self._expected

    def play(self, seed: int, faults: Faults) -> RunResult:
        """One run, not compared."""
        return self._play(self._jobs, seed, faults)

    def _play(self, jobs: list[Compiled], seed: int, faults: Faults) -> RunResult:
        with _quiet(), _without_collector(), small_frames():
            return Run(jobs, seed, faults, self._forks, self._backends).play()

    def check(self, seed: int, faults: Faults) -> RunResult:
        """One run, compared; raises :class:`SimulationFailed`."""
        expected = self.expected
        result = self.play(seed, faults)
        problem = result.problem
        if problem is None and not result.refused:
            problem = difference(expected, result.outputs)
        if problem is None and result.forked is not None:
            alone = {name: expected[name] for name in result.forked}
            problem = difference(alone, result.forked)
            problem = problem and f"a job started from a savepoint: {problem}"
        if problem is not None:
            raise SimulationFailed(self.name, seed, problem, result.story)
        return result


def simulate(
    build_job: BuildJob,
    seeds: Iterable[int] = range(100),
    faults: Faults | None = None,
    slots: int = 2,
    name: str | None = None,
    other: BuildJob | None = None,
    beside: Sequence[BuildJob] = (),
    limits: Limits | None = None,
    expected: Mapping[str, Iterable[object]] | None = None,
    backends: StateBackends = BUILT_IN,
) -> Report:
    """Run the job once per seed, with faults, and check that its output is that of a run without.

    ``build_job(env)`` writes the program, with :class:`SimSource` and :class:`SimSink` at its ends; it may
    call ``env.execute()`` or leave that out.  ``other`` writes the same job with other settings: new
    drivers may switch between the two.  The jobs of ``beside`` run at the same time, with their checkpoints
    in the same place.  ``limits`` is what the jobs may hold at any moment.  ``expected`` says
    what each sink must hold, where that is known better than by a run without faults.  ``backends`` are what
    may keep keyed state.  The first seed that fails raises :class:`SimulationFailed`.
    """
    clock = SystemClock()
    began = clock.monotonic()
    told = name or str(getattr(build_job, "__name__", "job"))
    simulation = Simulation(build_job, slots, told, other, beside, limits, expected, backends)
    mix = Faults.all() if faults is None else faults
    counts: Counter[str] = Counter()
    played, snapshots, virtual = 0, 0, 0.0
    for seed in seeds:
        result = simulation.check(seed, mix)
        played += 1
        snapshots += result.snapshots
        virtual += result.virtual_ms
        counts += result.faults
    return Report(played, clock.monotonic() - began, snapshots, virtual, counts)


@contextmanager
def _without_collector() -> Iterator[None]:
    """A run is short, and a tenth of its time would go into looking for garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _quiet() -> Iterator[None]:
    """Failures are what this is for: nobody needs a warning about each."""
    logger = logging.getLogger("penstock")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
