"""From the function that writes a job to what simulated drivers are started with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.common.job_client import JobHandle
from penstock.coordinator.assemble import assemble
from penstock.core import options
from penstock.core.config import Configuration
from penstock.datastream.job import run_as, running_program
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.nodes import JobSpec
from penstock.testing.sim.connectors import SimSink, SimSource
from penstock.testing.sim.driver import SimJob
from penstock.testing.sim.life import Compiled
from penstock.testing.sim.limits import Limits
from penstock.testing.sim.process import SimScript

BuildJob = Callable[[StreamExecutionEnvironment], object]

_FAST = {
    options.DEPLOY_TIMEOUT.key: "3 s",
    options.CHECKPOINT_INTERVAL.key: "60 ms",
    options.RESTART_TYPE.key: "fixed-delay",
    options.FIXED_ATTEMPTS.key: "100000",
    options.FIXED_DELAY.key: "10 ms",
    options.SLOTS_TIMEOUT.key: "2 s",
    options.AUTO_WATERMARK_INTERVAL.key: "10 ms",
    options.BUFFER_TIMEOUT.key: "5 ms",
}
"""Fast snapshots and restarts: more happens in less time."""
_UNLESS_SAID = {
    options.CHECKPOINT_TIMEOUT: "400 ms",
    options.BATCH_MAX_ROWS: "16",
    options.CHANNEL_BYTES: "2 kb",
}
"""Small batches, short queues and little patience, unless the job says how it wants them."""


def compile_job(build_job: BuildJob, slots: int, other: BuildJob | None, limits: Limits) -> Compiled:
    """The job for every parallelism that its drivers may have."""
    if isinstance(build_job, SimScript):
        return _compile_script(build_job, slots, limits)
    return _compile_once(build_job, slots, other, limits)


def _compile_script(script: SimScript, slots: int, limits: Limits) -> Compiled:
    """A job that every driver compiles for itself."""
    first = script.run()
    with first.inside():
        compiled = _compile_once(script, slots, None, limits)

    def renewed(job: SimJob) -> SimJob:
        process = script.run()
        with process.inside():
            return replace(_compile(_capture(script, slots), job.plan.slots), process=process)

    return replace(compiled, renewed=renewed)


def _compile_once(build_job: BuildJob, slots: int, other: BuildJob | None, limits: Limits) -> Compiled:
    spec = _capture(build_job, slots)
    sinks = [node.sink for node in spec.nodes if isinstance(node.sink, SimSink)]
    parallelisms = sorted({1, slots, slots + 1})
    others = None
    if other is not None:
        written = _capture(other, slots)
        others = {n: _compile(written, n) for n in parallelisms}
    stranger = replace(_capture(_something_else, slots), name=spec.name)
    jobs = {n: _compile(spec, n) for n in parallelisms}
    return Compiled(slots, jobs, sinks, limits, others, _compile(stranger, slots))


def has_real_sinks(compiled: Compiled) -> bool:
    """Whether a sink of the job is not the simulator's own."""
    plan = compiled.jobs[compiled.slots].plan
    sinks = [planned.node.sink for _, planned in plan.operators() if planned.node.sink is not None]
    return len(compiled.sinks) < len(sinks)


def _something_else(env: StreamExecutionEnvironment) -> None:
    stream = env.from_source(SimSource([[1]]), WatermarkStrategy.no_watermarks(), "another").uid("another")
    stream.sink_to(SimSink("another")).uid("another sink")


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
    try:
        with run_as(replace(running_program(), launcher=_Catcher(slots))):
            env = StreamExecutionEnvironment.get_execution_environment()
            build_job(env)
            env.execute("simulated")
    except _Captured as captured:
        return captured.spec
    raise AssertionError("execute() always raises here")


def _compile(spec: JobSpec, parallelism: int) -> SimJob:
    config = Configuration(spec.configuration)
    for key, value in _FAST.items():
        config.set_string(key, value)
    for option, value in _UNLESS_SAID.items():
        if not config.has(option):
            config.set_string(option.key, value)
    job = assemble(replace(spec, configuration=config, parallelism=parallelism), parallelism)
    assert job.planner is not None
    return SimJob(spec.name, job.plan, job.plan_bytes, job.settings, job.directory, 0, job.planner)
