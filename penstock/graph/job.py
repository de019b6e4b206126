"""A job as handed to whoever runs it: the nodes, the settings, and what its functions need beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.config import Configuration
from penstock.graph.nodes import Node
from penstock.luggage.wishes import Wishes


@dataclass(frozen=True, slots=True)
class StartedBy:
    """What ``penstock run`` and its like want of the jobs of the program they run."""

    command: Mapping[str, Any] | None = None
    """The options of that command, to start the job again; ``None`` if ``python`` runs the program."""
    on_start: Callable[[Any], object] = lambda job: None
    """Called with the handle of each job that was started, on the thread that starts it."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What ``execute()`` was called on."""

    name: str
    nodes: tuple[Node, ...]
    configuration: Configuration
    parallelism: int | None = None
    max_parallelism: int | None = None
    job_parameters: tuple[tuple[str, str], ...] = ()
    python: Wishes = field(default_factory=Wishes)
    is_aside: bool = False
    """Whether this is a run beside the real job, of which nothing is kept."""
    started_by: StartedBy = field(default_factory=StartedBy)
