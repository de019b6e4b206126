"""Where this directory is on PYTHONPATH, programs run their jobs in their own process, as if that were Spark.

Python imports a module of this name when it starts.  ``penstock list`` and others find the jobs.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.coordinator.running_job import RunningJob
from penstock.datastream.job import run_as, running_program
from penstock.graph.nodes import JobSpec
from penstock.spark.launcher import publish_to_registry
from penstock.testing.local import LocalLauncher


class KnownLauncher(LocalLauncher):
    """Its jobs are in the registry, as those on Spark are."""

    def launch(self, spec: JobSpec) -> RunningJob:
        job = super().launch(spec)
        publish_to_registry(job)
        return job


_for_good = run_as(replace(running_program(), launcher=KnownLauncher()))
_for_good.__enter__()
