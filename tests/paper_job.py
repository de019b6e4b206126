"""A job that only stands on paper, with its real control plane: for tests of what is asked and answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from penstock.common import Configuration
from penstock.coordinator.assemble import Assembled, assemble
from penstock.coordinator.events import RequestKind
from penstock.coordinator.job_history import JobHistory
from penstock.coordinator.registry import Entry, Registration, register
from penstock.coordinator.running_job import JobResult, RunningJob
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.core.ids import WallMs
from penstock.core.job import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.job import run_as, running_program
from penstock.graph.nodes import JobSpec
from penstock.rest.serving import Serving, serve

NO_PAGE = {"penstock.rest.enabled": "false"}


class PaperJob(RunningJob):
    """Says what it is told to say, counts who cancels it, and takes no snapshots."""

    def __init__(self, job: Assembled) -> None:
        super().__init__(job, JobResult(job, SystemClock()))
        self.history = JobHistory(job.plan, WallMs(0))
        self.tells: Callable[[], Mapping[str, Any]] = dict
        self.cancelled = 0

    def status(self) -> JobStatus:
        return JobStatus.RUNNING

    def facts(self) -> dict[str, Any]:
        return {"status": "RUNNING", **self.tells()}

    def cancel(self) -> Future[None]:
        self.cancelled += 1
        return self._result.stopped

    def interrupt(self) -> Future[None]:
        return self.cancel()

    def what_is_kept(self) -> str:
        return "nothing"

    def request(
        self, kind: RequestKind, directory: str | None = None, accepted: Callable[[], None] | None = None
    ) -> tuple[str, Future[str]]:
        refused: Future[str] = Future()
        refused.set_exception(ConfigError("a job on paper takes no snapshots"))
        return "", refused


class _Desk:
    def launch(self, spec: JobSpec) -> PaperJob:
        return PaperJob(assemble(spec, 1))

    def default_parallelism(self) -> int:
        return 1


def paper_job(name: str, tells: Callable[[], Mapping[str, Any]] = dict, **settings: str) -> PaperJob:
    """A job of this name that adds what ``tells`` returns to its facts."""
    with run_as(replace(running_program(), launcher=_Desk())):
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        env.from_collection([1]).print()
        job: Any = env.execute_async(name).handle
    job.tells = tells
    made: PaperJob = job
    return made


@dataclass
class Published:
    """A job that the command line finds."""

    job: PaperJob
    serving: Serving
    registration: Registration

    @property
    def entry(self) -> Entry:
        """Its file."""
        return self.registration.entry


@contextmanager
def published(
    name: str, tells: Callable[[], Mapping[str, Any]] = dict, settings: Mapping[str, str] = NO_PAGE
) -> Iterator[Published]:
    """Such a job with its control plane, which answers; without a page, if ``settings`` want none."""
    job = paper_job(name, tells, **settings)
    registration = register(job.job_id.hex, job.job.plan.job_name)
    assert registration is not None
    serving = serve(job, registration=registration)
    assert serving is not None
    try:
        yield Published(job, serving, registration)
    finally:
        serving.close()
