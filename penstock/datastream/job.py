"""Who runs a program's jobs, how the program itself is run, and what its jobs are called.

A job's name is its identity: checkpoints, transactions and files of sinks are found again by it.  So the name
made up for one that was given none is that of the program, with its place: the same when the program is run
again, another for every other program, and numbered if a program runs several.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Protocol
from weakref import WeakKeyDictionary

from penstock.common.job_client import JobHandle
from penstock.core import options
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError
from penstock.graph.nodes import JobSpec, StartedBy

_log = log_of(__name__)
_INTERACTIVE = "penstock-job"
_counts: WeakKeyDictionary[ModuleType, dict[str, int]] = WeakKeyDictionary()
"""How many jobs without a name each run of a program has had."""


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


_OWN = Path(__file__).parent.parent


def made_up_name() -> str:
    """What the jobs of this program are called that have no name."""
    named = (f"{file.name} ({file.parent})" for file in _program_files())
    return ", ".join(named) or _INTERACTIVE


def next_unnamed(name: str, configuration: Configuration) -> str:
    """The name of the next job of this program that has none: it is not that of the one before."""
    lasting = configuration.get(options.CHECKPOINT_DIR) is not None
    if lasting and name == _INTERACTIVE:
        raise ConfigError(
            "the job has no name and comes from no file, so its checkpoints could not be told from those of "
            f'other jobs: name it, as in env.execute("orders"), or set {options.JOB_NAME.key}'
        )
    counts = _counts.setdefault(sys.modules["__main__"], {})
    counts[name] = counts.get(name, 0) + 1
    numbered = name if counts[name] == 1 else f"{name}, job {counts[name]}"
    if lasting:
        _log.warning(
            "the job has no name and goes by its program: %r. Its checkpoints are found again only while the "
            "program stays where it is; name the job before you rely on them",
            numbered,
        )
    return numbered


def _program_files() -> list[Path]:
    """The file that was started and the one that calls the engine, if they are files at all.

    Links are not followed: a program that is deployed behind one stays where it is.
    """
    started = getattr(sys.modules["__main__"], "__file__", None)
    files = [Path(file).absolute() for file in (started, _caller()) if file]
    return list(dict.fromkeys(file for file in files if file.is_file()))


def _caller() -> str | None:
    frame: FrameType | None = sys._getframe()
    while frame is not None and _OWN in Path(frame.f_code.co_filename).parents:
        frame = frame.f_back
    return None if frame is None else frame.f_code.co_filename
