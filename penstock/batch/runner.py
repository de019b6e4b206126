"""Who runs the vertices of a BATCH job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.batch.work import Feed, VertexWork
from penstock.connectors.source import Source


@dataclass(frozen=True, slots=True)
class Stage:
    """A vertex and where it reads from."""

    work: VertexWork
    """What is sent with its tasks."""
    feeds: tuple[Feed, ...]
    table: Any = field(default=None, repr=False)
    """What a source reads, if the runner reads it itself: whatever its ``table_of`` gave."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is."""

    stages_done: int
    stages: int
    """In all, as far as that is known."""
    tasks_done: int
    tasks: int
    """Of the stages that run now."""


class StageRunner(Protocol):
    """Runs all vertices of a job. One object runs one job."""

    def run(self, stages: Sequence[Stage]) -> Iterator[bytes]:
        """Run the stages, which come in order: each behind those it reads from.

        Gives the bodies of all rows for the driver, of attempts that succeeded.  The trap: an iterator that
        is not read to its end has not run everything.
        """
        ...

    def table_of(self, source: Source) -> Any | None:
        """What this runner reads itself in place of the source's splits; ``None``: the source reads.

        Called before :meth:`run`, with each source of the job.
        """
        ...

    def progress(self) -> Progress:
        """How far :meth:`run` is; from any thread."""
        ...

    def cancel(self) -> None:
        """Have :meth:`run` fail soon; from any thread."""
        ...
