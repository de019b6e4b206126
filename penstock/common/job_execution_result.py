"""PyFlink's ``common.job_execution_result``: what a finished job leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.core.job import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """What a job that has finished leaves behind; returned by ``env.execute()``.

    >>> sink = env.from_collection([7]).print()
    >>> env.execute("seven").get_net_runtime() >= 0
    7
    True
    """

    def __init__(
        self, job_id: JobID, net_runtime_ms: int, accumulators: Mapping[str, object] | None = None
    ) -> None:
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Which job it was."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Milliseconds from the first start to the end, restarts included."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """A final number of the job by name, ``None`` if there is none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """All final numbers of the job."""
        return dict(self._accumulators)

    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id}, {self._net_runtime_ms} ms)"
