"""``/jobs/{jobid}/penstock/rates``: how fast the vertices were over the last minutes.  Pure."""

from __future__ import annotations

from typing import Any

from penstock.coordinator.rate_history import EVERY_MS
from penstock.rest.look import Look, rest_id


def rates(look: Look) -> dict[str, Any]:
    """Moments, oldest first; records a second, and shares of the time from 0 to 1."""
    names = {vertex.id: rest_id(vertex) for vertex in look.plan.vertices}
    return {
        "interval": EVERY_MS,
        "moments": [
            {
                "time": moment.at_ms,
                "vertices": {
                    names[vertex]: {
                        "in": round(one.received, 3),
                        "out": round(one.sent, 3),
                        "busy": round(one.busy, 3),
                        "backpressured": round(one.backpressured, 3),
                        "idle": round(one.idle, 3),
                    }
                    for vertex, one in moment.vertices.items()
                    if vertex in names  # a rescale may have made or broken its chain
                },
            }
            for moment in look.history.minutes
        ],
    }
