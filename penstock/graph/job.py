"""A job as handed to whoever runs it: the nodes, the settings, and the files to ship."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.config import Configuration
from penstock.graph.nodes import Node


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What ``execute()`` was called on."""

    name: str
    nodes: tuple[Node, ...]
    configuration: Configuration
    parallelism: int | None = None
    max_parallelism: int | None = None
    job_parameters: tuple[tuple[str, str], ...] = ()
    python_files: tuple[str, ...] = ()
    is_aside: bool = False
    """Whether this is a run beside the real job, of which nothing is kept."""
