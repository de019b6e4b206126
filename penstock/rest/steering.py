"""Calls that change something: savepoint, stop, checkpoint, rescale, cancel, disposal; bodies are checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from penstock.coordinator.events import RequestKind
from penstock.coordinator.restore_source import dispose
from penstock.rest import job
from penstock.rest.look import Refused
from penstock.rest.plane import Plane
from penstock.rest.routes import Asked
from penstock.snapshot.recovery import read_manifest

Action = Callable[[Plane, Asked, dict[str, Any]], dict[str, Any]]

SAVEPOINTS = (RequestKind.SAVEPOINT.value, RequestKind.STOP.value, RequestKind.DRAIN.value)
CHECKPOINTS = (RequestKind.CHECKPOINT.value,)
RESCALES = (RequestKind.RESCALE.value,)
DISPOSALS = ("disposal",)
_FORMATS = ("CANONICAL", "NATIVE", "DEFAULT")


def body_of(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request; an empty body is an empty object."""
    if not raw.strip():
        return {}
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body must be a JSON object")
    return found


def _field(body: dict[str, Any], names: tuple[str, ...], kind: type) -> Any:
    for name in names:
        value = body.get(name)
        if value is not None:
            if not isinstance(value, kind):
                raise Refused(400, f"{name} must be a {kind.__name__}, not {value!r}")
            return value
    return None


def _checked_format(body: dict[str, Any]) -> None:
    chosen = _field(body, ("formatType",), str)
    if chosen is not None and chosen.upper() not in _FORMATS:
        raise Refused(400, f"there is no savepoint format {chosen!r}; there are {', '.join(_FORMATS)}")


def _trigger(body: dict[str, Any]) -> str | None:
    found: str | None = _field(body, ("triggerId",), str)
    return found


def savepoint(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``POST /jobs/{jobid}/savepoints``."""
    _checked_format(body)
    directory = _field(body, ("target-directory", "targetDirectory"), str)
    kind = RequestKind.STOP if _field(body, ("cancel-job", "cancelJob"), bool) else RequestKind.SAVEPOINT
    return {"request-id": plane.requests.snapshot(kind, directory, _trigger(body))}


def stop(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``POST /jobs/{jobid}/stop``."""
    _checked_format(body)
    directory = _field(body, ("targetDirectory", "target-directory"), str)
    kind = RequestKind.DRAIN if _field(body, ("drain",), bool) else RequestKind.STOP
    return {"request-id": plane.requests.snapshot(kind, directory, _trigger(body))}


def checkpoint(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``POST /jobs/{jobid}/checkpoints``; whichever type is asked for, one as configured is taken."""
    chosen = _field(body, ("checkpointType",), str)
    if chosen is not None and chosen.upper() not in ("CONFIGURED", "FULL", "INCREMENTAL"):
        raise Refused(400, f"there is no checkpoint type {chosen!r}; there are CONFIGURED, FULL, INCREMENTAL")
    return {"request-id": plane.requests.snapshot(RequestKind.CHECKPOINT, None, _trigger(body))}


def cancel(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``PATCH /jobs/{jobid}?mode=cancel`` and its aliases."""
    mode = asked.query.get("mode", "cancel")
    if mode != "cancel":
        raise Refused(
            400, f"mode={mode} will not do: it is cancel; to stop with a savepoint, POST to .../stop"
        )
    plane.cancel()
    return {}


def disposal(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``POST /savepoint-disposal``: delete a savepoint, which must be one."""
    path = _field(body, ("savepoint-path",), str)
    if not path:
        raise Refused(400, "savepoint-path is missing: say which savepoint is to be deleted")

    def work() -> str:
        dispose(read_manifest(path, verify=False))
        return str(path)

    return {"request-id": plane.requests.work("disposal", work, _trigger(body))}


def page_link(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``POST /page-link``: an address of the page for one browser; good once, and for two minutes."""
    if plane.link is None:
        raise Refused(
            404, "the job has no page: penstock.rest.enabled is false, or its log says why it has none"
        )
    return {"link": plane.link()}


def rescaling(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``PATCH /jobs/{jobid}/rescaling?parallelism=N``."""
    parallelism = asked.number("parallelism", 0)
    if not parallelism:
        raise Refused(400, "parallelism is missing: PATCH .../rescaling?parallelism=N, a whole number from 1")
    return {"request-id": plane.requests.rescale(parallelism, _trigger(body))}


def requirements(plane: Plane, asked: Asked, body: dict[str, Any]) -> dict[str, Any]:
    """``PUT /jobs/{jobid}/resource-requirements``; how it goes is in the job's events and its status."""
    look = plane.look()
    parallelism = job.wanted_parallelism(look, body)
    if parallelism != look.plan.parallelism:
        plane.requests.rescale(parallelism, None)
    return {}


ACTIONS: dict[tuple[str, str], tuple[Action, int]] = {
    ("POST", "/jobs/{jobid}/savepoints"): (savepoint, 202),
    ("POST", "/jobs/{jobid}/stop"): (stop, 202),
    ("POST", "/jobs/{jobid}/checkpoints"): (checkpoint, 202),
    ("PATCH", "/jobs/{jobid}"): (cancel, 202),
    ("GET", "/jobs/{jobid}/yarn-cancel"): (cancel, 202),
    ("POST", "/applications/{applicationid}/cancel"): (cancel, 202),
    ("DELETE", "/cluster"): (cancel, 200),
    ("POST", "/savepoint-disposal"): (disposal, 200),
    ("POST", "/page-link"): (page_link, 200),
    ("PATCH", "/jobs/{jobid}/rescaling"): (rescaling, 200),
    ("PUT", "/jobs/{jobid}/resource-requirements"): (requirements, 200),
}
"""By method and path; with the status of success."""

OUTCOMES = {
    "/jobs/{jobid}/savepoints/{triggerid}": SAVEPOINTS,
    "/jobs/{jobid}/checkpoints/{triggerid}": CHECKPOINTS,
    "/jobs/{jobid}/rescaling/{triggerid}": RESCALES,
    "/savepoint-disposal/{triggerid}": DISPOSALS,
}
"""Where outcomes are asked for, and of which kinds."""


def changes(method: str, path: str) -> bool:
    """Whether a request does more than look: by its method, or because Flink has a GET that does."""
    return method not in ("GET", "HEAD", "OPTIONS") or path.rstrip("/").endswith("/yarn-cancel")
