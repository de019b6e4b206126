"""A job as handed to whoever runs it: the nodes, the settings, and what its functions need beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.core.config import Configuration
from penstock.graph.nodes import Node
from penstock.luggage.wishes import Wishes


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
