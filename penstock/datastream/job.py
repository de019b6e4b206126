"""Who runs a program's jobs, and how the program itself is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from penstock.common.job_client import JobHandle
from penstock.graph.nodes import JobSpec, StartedBy


class Launcher(Protocol):
    """Runs jobs: on Spark in production, in this process in tests."""

    def launch(self, spec: JobSpec) -> JobHandle:
        """Start the job; returns at once."""
        ...

    def default_parallelism(self) -> int:
        """How many slots there are."""
        ...


@dataclass(frozen=True, slots=True)
class Program:
    """What is decided about a program from outside; ``python program.py`` decides nothing."""

    launcher: Launcher | None = None
    """Who runs its jobs; ``None`` means Spark."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings that win over the program's own: what ``penstock run -D`` was given."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Settings that hold where the program has none: those of a file."""
    started_by: StartedBy = field(default_factory=StartedBy)


_running = Program()
"""A program makes its environment by PyFlink's ``get_execution_environment()``, which takes none of this.  So
there is one program a process, and this is the only place where that is known."""


def running_program() -> Program:
    """How the program of this process is run."""
    return _running


@contextmanager
def run_as(program: Program) -> Iterator[None]:
    """Run the program of this process so until the end of the ``with``, on all its threads."""
    global _running
    before = _running
    _running = program
    try:
        yield
    finally:
        _running = before
