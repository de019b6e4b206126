"""A live tail of the records that come to a step, or leave a source: off unless a setting says otherwise."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.core.discreet import shown
from penstock.core.ids import VertexId
from penstock.core.messages import TakeTail
from penstock.core.rest_options import REST_TAIL
from penstock.graph.plan import Vertex
from penstock.rest.json_answer import JsonAnswer
from penstock.rest.look import Look
from penstock.rest.plane import Plane

_PATH = "/jobs/{jobid}/vertices/{vertexid}/penstock/tail"
PATHS = (_PATH,)
"""All calls that are answered here."""
MOST_RECORDS = 200
_ASK_EVERY_S = 1.0
_OFF = f"records are not shown; {REST_TAIL.key}=true lets whoever may open the page see them"
_BATCH = "a job in BATCH mode hands its records to Spark"
_ALONE = "its steps are chained: no record crosses an exchange that could be watched"


class Tails:
    """Asks slots for records, of each vertex not again before a second has passed."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        self._asked: dict[VertexId, float] = {}
        self._is_on = bool(plane.running.job.configuration.get(REST_TAIL))

    def of(self, look: Look, vertex: Vertex) -> dict[str, Any]:
        """The newest records of a vertex, and slots are asked for newer ones."""
        leaving = not any(edge.target == vertex.id for edge in look.plan.edges)
        why_not = self._why_not(look, vertex, leaving)
        found = {} if why_not is not None else look.history.seen.tails.get(vertex.id, {})
        if why_not is None:
            self._ask(vertex, leaving)
        records = [
            {"slot": int(slot), "at": int(at), "text": shown(text)}
            for slot, (at, texts) in sorted(found.items(), key=lambda item: item[1][0])
            for text in texts
        ]
        return {
            "enabled": why_not is None,
            "note": why_not,
            "of": "output" if leaving else "input",
            "records": records[-MOST_RECORDS:],
        }

    def _why_not(self, look: Look, vertex: Vertex, leaving: bool) -> str | None:
        if not self._is_on:
            return _OFF
        if look.is_batch:
            return _BATCH
        alone = leaving and not any(edge.source == vertex.id for edge in look.plan.edges)
        return _ALONE if alone else None

    def _ask(self, vertex: Vertex, leaving: bool) -> None:
        with self._lock:
            now = self._plane.clock.monotonic()
            if now < self._asked.get(vertex.id, float("-inf")) + _ASK_EVERY_S:
                return
            self._asked[vertex.id] = now
        secret = self._plane.running.job.plan.settings.secret_fields
        self._plane.running.ask(TakeTail(vertex.id, leaving, secret))


def routes(plane: Plane) -> list[Route]:
    """The calls."""
    return [Route(_PATH, partial(_answer, plane, Tails(plane)), methods=["GET"])]


async def _answer(plane: Plane, tails: Tails, request: Request) -> Response:
    look = plane.look()
    look.check_job(request.path_params["jobid"])
    return JsonAnswer(tails.of(look, look.vertex(request.path_params["vertexid"])))
