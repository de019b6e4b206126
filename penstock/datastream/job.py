"""Who runs jobs."""

from __future__ import annotations

from typing import Protocol

from penstock.common.job_client import JobHandle
from penstock.graph.job import JobSpec


class Launcher(Protocol):
    """Runs jobs: on Spark in production, in this process in tests."""

    def launch(self, spec: JobSpec) -> JobHandle:
        """Start the job; returns at once."""
        ...

    def default_parallelism(self) -> int:
        """How many slots there are."""
        ...
