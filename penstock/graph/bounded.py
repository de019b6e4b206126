"""Which programs can run in BATCH mode.

BATCH gives the final result of each key instead of a running one.  A job in this mode is an ordinary job
over bounded sources in which event time stands still until the input ends.  That gives Flink's results
wherever these do not depend on the order of records; where they do (Flink sorts each key by time and
reads broadcast inputs first), the program is refused rather than run differently.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import GraphError
from penstock.graph.nodes import Node

BATCH = "batch"
"""The setting of a plan that says its job runs in BATCH mode."""

_WAY_OUT = "set execution.runtime-mode to STREAMING, where the job ends with its sources too"


def check_bounded(nodes: Sequence[Node]) -> None:
    """Refuse programs that cannot run in BATCH mode."""
    for node in nodes:
        if node.source is not None and not node.source.bounded:
            raise GraphError(f"BATCH mode needs sources that end; step {node.name!r} does not: {_WAY_OUT}")
        if any(link.input_index for link in node.links):
            raise GraphError(
                f"BATCH mode does not yet run steps with two inputs such as {node.name!r}: {_WAY_OUT}"
            )
        if node.keyed and not node.any_order:
            raise GraphError(
                "BATCH mode does not yet sort the records of a key by time, which functions with keyed state "
                f"such as step {node.name!r} may rely on; it runs reductions and event-time windows: "
                f"{_WAY_OUT}"
            )
