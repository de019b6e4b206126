"""Runs the demo: producer, job, crashes; then the verdict.

The job runs on Spark in this process's session, the producer in a process of its own.  A crash is a SIGKILL
to the Python worker that a slot lives in; the probe, a sink that writes nothing, says which process that is,
and when the next attempt has records again.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.connectors.log import Log
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.coordinator.running_job import RunningJob
from penstock.core.batch import Batch
from penstock.core.clock import Clock, SystemClock
from penstock.core.config import GIVEN_MASTER, Configuration
from penstock.core.errors import ClusterError
from penstock.core.job import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.demo.clicks import PARTITIONS, TOPIC, last_offsets, threshold
from penstock.demo.hourly_counts import CLICK, build
from penstock.demo.modes import Mode
from penstock.demo.verdict import ALERTS, COUNTS, Meter, Standing, Verdict, judge

_EVENTS_PER_S = 15_000
_SECONDS_PER_CRASH = 5
_BEAT_S = 0.05
_MANY_DAYS = 100_000


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """A subtask of an attempt has got its first records."""

    generation: int
    pid: int
    at_ms: int
    host: str = ""


class Probe(Sink):
    """Put it beside the step to watch. The driver's copy gathers what the writers report."""

    def __init__(self) -> None:
        self._reports: list[FirstBatch] = []

    def __reduce__(self) -> tuple[type[Probe], tuple[()]]:
        return (Probe, ())

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _ProbeWriter(context)

    def on_driver_message(self, message: FirstBatch) -> None:
        self._reports.append(message)

    def newest(self) -> FirstBatch | None:
        """The first report of the newest attempt."""
        reports = list(self._reports)
        generation = max((report.generation for report in reports), default=-1)
        newest = [report for report in reports if report.generation == generation]
        return min(newest, key=lambda report: report.at_ms, default=None)


class _ProbeWriter(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._reported = False

    def write(self, batch: Batch) -> None:
        if not self._reported:
            self._reported = True
            context = self._context
            now, host = context.clock.now_ms(), socket.gethostname()
            context.to_driver(FirstBatch(context.generation, os.getpid(), now, host))


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What to run."""

    events: int = 300_000
    crashes: int = 1
    master: str | None = "local[2]"
    """``None``: the one that Spark was given."""
    keep: bool = False
    seed: int = 7
    mode: Mode = Mode.EXACTLY_ONCE
    stay: bool = False
    """Whether clicks come day after day, until the user has seen enough."""

    @property
    def seconds(self) -> float:
        """How long the producer takes."""
        return max(self.events / _EVENTS_PER_S, _SECONDS_PER_CRASH * (self.crashes + 1))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the demo went."""

    verdict: Verdict
    recoveries_s: tuple[float, ...]
    """From each kill to the first records that were processed again."""
    checkpoints: int
    restarts: int
    threshold: int
    work: Path


def run_demo(settings: DemoSettings, show: Callable[[Standing], None], say: Callable[[str], None]) -> Outcome:
    """Run it; ``show`` gets the standing many times a second, ``say`` what is worth a line."""
    with _work_directory(settings.keep) as work:
        log = _make_log(work)
        probe = Probe()
        with _job(settings, work, probe) as job:
            meter = Meter(log, job)
            killer = Killer(job, probe, settings, say, SystemClock())
            _until_running(job)
            tell_page(job, say)
            with _producer(settings, log) as producer:
                while not job.result().done():
                    threading.Event().wait(_BEAT_S)
                    _check(producer)
                    standing = meter.read(killer.crashes)
                    killer.act(standing)
                    show(standing)
            job.result().result()
            killer.act(meter.read(killer.crashes))
            facts = job.facts()
        verdict = judge(log.root, threshold(settings.events))
        return Outcome(
            verdict,
            tuple(killer.recoveries_s),
            facts["checkpoints"],
            facts["restarts"],
            threshold(settings.events),
            work,
        )


def stay(settings: DemoSettings, show: Callable[[Standing], None], say: Callable[[str], None]) -> None:
    """Run the job, a day of clicks after the other, until an interrupt; nothing is killed."""
    with _work_directory(settings.keep) as work:
        log = _make_log(work)
        with _job(settings, work, Probe()) as job:
            meter = Meter(log, job)
            _until_running(job)
            tell_page(job, say)
            say("Press Ctrl-C when you have seen enough.")
            with _producer(settings, log) as producer, suppress(KeyboardInterrupt):
                while not job.result().done():
                    threading.Event().wait(_BEAT_S)
                    _check(producer)
                    show(meter.read(0))


def tell_page(job: RunningJob, say: Callable[[str], None]) -> None:
    """Where the job can be looked at."""
    if job.page is not None:
        say(f"Its page, for one browser within two minutes: {job.page()} (later: penstock ui)")


class Killer:
    """Kills the worker of a slot when it is due, and measures how long it takes to be back."""

    def __init__(
        self, job: RunningJob, probe: Probe, settings: DemoSettings, say: Callable[[str], None], clock: Clock
    ) -> None:
        self.crashes = 0
        self.recoveries_s: list[float] = []
        self._job = job
        self._probe = probe
        self._settings = settings
        self._say = say
        self._clock = clock
        self._killed: tuple[int, int] | None = None
        """Generation and time of a kill that the job has not recovered from."""
        self._checkpoints = 0

    def act(self, standing: Standing) -> None:
        """Look at the job; kill if it is time."""
        working = self._probe.newest()
        if working is None:
            return
        if self._killed is not None:
            generation, at_ms = self._killed
            if working.generation > generation:
                self._killed = None
                self._checkpoints = standing.checkpoints
                self.recoveries_s.append((working.at_ms - at_ms) / 1000)
                self._say(f"records flow again after {self.recoveries_s[-1]:.2f} s")
        elif self._is_due(standing):
            if working.host != socket.gethostname():
                raise ClusterError(
                    f"the demo kills processes of this machine, and the job's run on {working.host}; give "
                    "it a Spark whose workers are here"
                )
            at_ms = self._clock.now_ms()
            os.kill(working.pid, signal.SIGKILL)
            self.crashes += 1
            self._killed = (working.generation, at_ms)
            self._say(f"killed Python worker {working.pid} after {standing.produced:,} events")

    def _is_due(self, standing: Standing) -> bool:
        """In the middle of the input, with a checkpoint of the attempt to be killed, if it takes any."""
        share = (self.crashes + 1) / (self._settings.crashes + 1)
        return (
            self.crashes < self._settings.crashes
            and standing.produced >= share * self._settings.events
            and (standing.checkpoints > self._checkpoints or not self._settings.mode.has_checkpoints)
            and self._job.status() is JobStatus.RUNNING
        )


@contextmanager
def _work_directory(keep: bool) -> Iterator[Path]:
    work = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    try:
        yield work
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)


def _make_log(work: Path) -> Log:
    log = Log(work / "log")
    log.create_topic(TOPIC, PARTITIONS)
    log.create_topic(COUNTS)
    log.create_topic(ALERTS)
    return log


@contextmanager
def _job(settings: DemoSettings, work: Path, probe: Probe) -> Iterator[RunningJob]:
    """The example's job, with the probe beside it; cancelled if the block does not see it end."""
    config = Configuration.from_dict(
        {
            **({} if settings.master is None else {GIVEN_MASTER: settings.master}),
            "parallelism.default": "2",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": str(settings.crashes + 3),
            "restart-strategy.fixed-delay.delay": "10 ms",
            **settings.mode.settings(work),
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(config)
    log, mode = str(work / "log"), settings.mode
    end = None if settings.stay else last_offsets(settings.events)
    source = mode.source(log, TOPIC, CLICK, end=end)
    clicks = build(env, log, threshold(settings.events), source, mode.sinks)
    clicks.sink_to(probe).name("probe")
    job = env.execute_async("hourly-counts").handle
    assert isinstance(job, RunningJob)
    try:
        yield job
    finally:
        if not job.result().done():
            job.cancel().result(timeout=30)


def _until_running(job: RunningJob) -> None:
    while job.status() is not JobStatus.RUNNING and not job.result().done():
        threading.Event().wait(_BEAT_S)


@contextmanager
def _producer(settings: DemoSettings, log: Log) -> Iterator[subprocess.Popen[bytes]]:
    """The producer's process, in a session of its own: an interrupt from the keyboard is ours to handle."""
    days = _MANY_DAYS if settings.stay else 1
    numbers = (settings.events, settings.seed, settings.seconds, days)
    command = [sys.executable, "-m", "penstock.demo.clicks", str(log.root), *map(str, numbers)]
    path = os.pathsep.join(part for part in sys.path if part)
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=10)


def _check(producer: subprocess.Popen[bytes]) -> None:
    status = producer.poll()
    if status not in (None, 0):
        raise ClusterError(f"the demo's producer ended with status {status}; its error is above")
