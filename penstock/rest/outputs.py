"""What processes have written: log and standard output of the driver, and of slots, which are asked for it.

A slot answers between two pieces of work, so whoever asks waits a moment; if it does not come to answer, what
it said the last time is shown, or a sentence.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from penstock.core.ids import SlotId, WallMs
from penstock.core.messages import Output, TakeOutput
from penstock.core.secret_fields import secret_fields
from penstock.core.written import WRITTEN
from penstock.rest.json_answer import JsonAnswer
from penstock.rest.look import Refused
from penstock.rest.plane import Plane
from penstock.rest.processes import found

PATHS = tuple(
    f"{process}/{what}"
    for process in ("/jobmanager", "/taskmanagers/{taskmanagerid}")
    for what in ("log", "logs", "logs/{logname}", "stdout")
)
"""All calls that are answered here."""
_NAMES = {"jobmanager": "driver.log", "taskmanagers": "slot.log"}
_STDOUT = "stdout.txt"
_HEADING = "# The end of what this process wrote by `logging`; all of it is where its logging goes.\n"
_SILENT = "(the slot has not come to answer yet: it is in the middle of something, or about to leave)\n"
_WAIT_S = 2.0
_LOOK_EVERY_S = 0.02
_ASK_EVERY_S = 1.0


class SlotOutputs:
    """Asks slots, each not again before a second has passed."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        self._asked: dict[SlotId, float] = {}

    async def of(self, slot: SlotId) -> tuple[WallMs, Output]:
        """When it answered, in milliseconds since the epoch, and what."""
        history, clock = self._plane.running.history, self._plane.clock
        before = history.output(slot)
        if self._ask(slot) or before is None:
            until = clock.monotonic() + _WAIT_S
            while history.output(slot) == before and clock.monotonic() < until:
                await asyncio.sleep(_LOOK_EVERY_S)
        return history.output(slot) or (WallMs(clock.now_ms()), Output(_SILENT, _SILENT))

    def _ask(self, slot: SlotId) -> bool:
        with self._lock:
            now = self._plane.clock.monotonic()
            if now < self._asked.get(slot, float("-inf")) + _ASK_EVERY_S:
                return False
            self._asked[slot] = now
        self._plane.running.ask(TakeOutput(), slot)
        return True


def routes(plane: Plane) -> list[Route]:
    """The calls."""
    outputs = SlotOutputs(plane)
    return [Route(path, partial(_answer, plane, outputs), methods=["GET"]) for path in PATHS]


async def _answer(plane: Plane, outputs: SlotOutputs, request: Request) -> Response:
    process, *_, what = request.scope["route"].path.strip("/").split("/")
    own_name = _NAMES[process]
    name = request.path_params.get("logname", own_name)
    if name not in (own_name, _STDOUT):
        raise Refused(404, f"there is no log {name}; there are {own_name} and {_STDOUT}")
    if process == "jobmanager":
        at, written = WallMs(plane.clock.now_ms()), WRITTEN.taken()
    else:
        slot = found(plane.look(), request.path_params["taskmanagerid"])
        at, written = await outputs.of(slot.slot)
    texts = {own_name: _HEADING + written.log, _STDOUT: written.stdout}
    if what == "logs":
        return JsonAnswer(_listed(texts, at))
    text = texts[_STDOUT if what == "stdout" else name]
    secret = secret_fields(plane.running.job.plan.settings.secret_fields)
    return PlainTextResponse(await anyio.to_thread.run_sync(secret.shown_lines, text))


def _listed(texts: dict[str, str], at: int) -> dict[str, Any]:
    return {"logs": [{"name": name, "size": len(text.encode()), "mtime": at} for name, text in texts.items()]}
