"""Who runs the vertices of a BATCH job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.batch.work import Feed, VertexWork


@dataclass(frozen=True, slots=True)
class Stage:
    """A vertex and where it reads from."""

    work: VertexWork
    """What is sent with its tasks."""
    feeds: tuple[Feed, ...]


class StageRunner(Protocol):
    """Runs all vertices of a job. One object runs one job."""

    def run(self, stages: Sequence[Stage]) -> Iterator[bytes]:
        """Run the stages, which come in order: each behind those it reads from.

        Gives the bodies of all rows for the driver, of attempts that succeeded.  The trap: an iterator that
        is not read to its end has not run everything.
        """
        ...

    def cancel(self) -> None:
        """Have :meth:`run` fail soon; from any thread."""
        ...
