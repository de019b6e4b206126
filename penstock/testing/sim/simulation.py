"""``simulate``: a whole job in one thread under a seeded scheduler, with faults, checked to the record.

The job is compiled once.  A run without faults gives the output that every other run must have; then
each seed is played and compared.  See ``docs/guides/testing.md``.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from penstock.common.job_client import JobHandle
from penstock.coordinator.assemble import assemble
from penstock.core import options
from penstock.core.clock import SystemClock
from penstock.core.config import Configuration
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.graph.job import JobSpec
from penstock.testing.sim.driver import SimJob
from penstock.testing.sim.ends import SimSink
from penstock.testing.sim.faults import Faults
from penstock.testing.sim.run import Outputs, Run, RunResult
from penstock.testing.sim.story import SimulationFailed, difference

BuildJob = Callable[[StreamExecutionEnvironment], object]

_SETTINGS = {
    options.CHECKPOINT_INTERVAL.key: "60 ms",
    options.CHECKPOINT_TIMEOUT.key: "400 ms",
    options.RESTART_TYPE.key: "fixed-delay",
    options.FIXED_ATTEMPTS.key: "100000",
    options.FIXED_DELAY.key: "10 ms",
    options.SLOTS_TIMEOUT.key: "2 s",
    options.AUTO_WATERMARK_INTERVAL.key: "10 ms",
    options.BUFFER_TIMEOUT.key: "5 ms",
    options.BATCH_MAX_ROWS.key: "16",
    options.CHANNEL_BYTES.key: "2 kb",
}
"""Fast snapshots, fast restarts, small batches and short queues: more happens in less time."""


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

    @property
    def seeds_per_second(self) -> float:
        """How fast it went."""
        return self.seeds / self.seconds if self.seconds else 0.0


class Simulation:
    """A job compiled for simulation. :func:`simulate` is the short way."""

    def __init__(
        self, build_job: BuildJob, slots: int = 2, name: str = "job", other: BuildJob | None = None
    ) -> None:
        """``other`` writes the same job with other settings, to which a new driver may switch."""
        self.name = name
        self._slots = slots
        spec = _capture(build_job, slots)
        sinks = [node.sink for node in spec.nodes if node.sink is not None]
        self._sinks = [sink for sink in sinks if isinstance(sink, SimSink)]
        self._forks = len(self._sinks) == len(sinks)  # real sinks know only one course of events
        self._jobs = {n: _compile(spec, n) for n in sorted({1, slots, slots + 1})}
        self._others: dict[int, SimJob] | None = None
        if other is not None:
            written = _capture(other, slots)
            self._others = {n: _compile(written, n) for n in self._jobs}
        self._expected: Outputs | None = None

    @property
    def expected(self) -> Outputs:
        """The output of a run without faults, by sink."""
        if self._expected is None:
            result = self.play(0, Faults(most=0))
            if result.problem is not None:
                raise SimulationFailed(self.name, 0, f"without any fault: {result.problem}", result.story)
            self._expected = result.outputs
        return self._expected

    def play(self, seed: int, faults: Faults) -> RunResult:
        """One run, not compared."""
        with _quiet(), _without_collector():
            return Run(self._jobs, self._slots, self._sinks, seed, faults, self._others, self._forks).play()

    def check(self, seed: int, faults: Faults) -> RunResult:
        """One run, compared; raises :class:`SimulationFailed`."""
        expected = self.expected
        result = self.play(seed, faults)
        problem = result.problem
        if problem is None and not result.refused:
            problem = difference(expected, result.outputs)
        if problem is None and result.forked is not None:
            problem = difference(expected, result.forked)
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
) -> Report:
    """Run the job once per seed, with faults, and check that its output is that of a run without.

    ``build_job(env)`` writes the program, with :class:`SimSource` and :class:`SimSink` at its ends; it may
    call ``env.execute()`` or leave that out.  ``other`` writes the same job with other settings: new
    drivers may switch between the two.  The first seed that fails raises :class:`SimulationFailed`.
    """
    clock = SystemClock()
    began = clock.monotonic()
    simulation = Simulation(build_job, slots, name or str(getattr(build_job, "__name__", "job")), other)
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


class _Captured(BaseException):
    """Carries the specification out of ``execute()``, wherever that was called."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__()
        self.spec = spec


class _Catcher:
    def __init__(self, slots: int) -> None:
        self._slots = slots

    def default_parallelism(self) -> int:
        return self._slots

    def launch(self, spec: JobSpec) -> JobHandle:
        raise _Captured(spec)


def _capture(build_job: BuildJob, slots: int) -> JobSpec:
    """The job that ``build_job`` writes."""
    before = StreamExecutionEnvironment.launcher
    StreamExecutionEnvironment.launcher = _Catcher(slots)
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        build_job(env)
        env.execute("simulated")
    except _Captured as captured:
        return captured.spec
    finally:
        StreamExecutionEnvironment.launcher = before
    raise AssertionError("execute() always raises here")


def _compile(spec: JobSpec, parallelism: int) -> SimJob:
    config = Configuration(spec.configuration)
    for key, value in _SETTINGS.items():
        config.set_string(key, value)
    job = assemble(replace(spec, configuration=config, parallelism=parallelism), parallelism)
    return SimJob(job.plan, job.plan_bytes, job.settings, job.directory, 0)


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
