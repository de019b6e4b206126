"""A job that has ended as one document: the answers of REST that still make sense.  Pure.

The shape is that of Flink's history server: ``{"archive": [{"path", "json"}, ...]}``, where ``json`` is the
text of an answer.  The overview comes first, then what matters most; what is beyond the size is left out, so
that a job with thousands of subtasks loses details of its checkpoints and never its exceptions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from penstock.rest.look import Look, rest_id
from penstock.rest.routes import SAMPLED, VIEWS, Asked, answer
from penstock.rest.task_views import manager_id

MOST_BYTES = 8 << 20
OVERVIEW = "/jobs/overview"
_ALONE = 4
"""No answer may have more than this part of the whole."""
_JOB = "/jobs/{jobid}"
_NOT_KEPT = {
    *SAMPLED,
    f"{_JOB}/resource-requirements",
    f"{_JOB}/jobmanager/environment",
    "/jobmanager/environment",
    "/jobmanager/stdout",
}
"""What says something only while the job runs."""
_BEGINNINGS = (_JOB, "/jobmanager/", "/taskmanagers")
_LAST = ("{subtaskindex}", "{checkpointid}/subtasks")
"""Parts of the paths of what there is most of."""


def archive_of(look: Look, most: int = MOST_BYTES, log: str = "") -> bytes:
    """The document, of at most ``most`` bytes; with the end of the driver's log, if it has one."""
    parts: list[bytes] = []
    left = most - len(_around([]))
    for path, text in chain(_answers(look), [("/jobmanager/log", json.dumps(log))] if log else []):
        part = json.dumps({"path": path, "json": text}, ensure_ascii=True).encode()
        if len(part) > most // _ALONE:
            continue
        left -= len(part) + 1
        if left < 0:
            break
        parts.append(part)
    return _around(parts)


def _around(parts: list[bytes]) -> bytes:
    return b'{"archive":[' + b",".join(parts) + b"]}"


def _answers(look: Look) -> Iterator[tuple[str, str]]:
    for template in _templates():
        for path in _places(re.findall(r"{(\w+)}", template), look, {}):
            text = _text(look, template, path)
            if text is not None:
                yield template.format(**path), text


def _templates() -> list[str]:
    """The most important first."""
    kept = [path for path in VIEWS if path.startswith(_BEGINNINGS) and path not in _NOT_KEPT]
    return [OVERVIEW, *sorted(kept, key=lambda path: (path.count("{"), any(part in path for part in _LAST)))]


def _places(names: list[str], look: Look, chosen: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """All ways to fill the names of a path; none if one of them stands for what only a client knows."""
    if not names:
        yield dict(chosen)
        return
    for value in _values(names[0], look, chosen):
        yield from _places(names[1:], look, {**chosen, names[0]: value})


def _values(name: str, look: Look, chosen: Mapping[str, str]) -> Iterable[str]:
    match name:
        case "jobid":
            return (look.job_id,)
        case "vertexid":
            return (rest_id(vertex) for vertex in look.plan.vertices)
        case "subtaskindex":
            return map(str, range(look.vertex(chosen["vertexid"]).parallelism))
        case "checkpointid":
            return (str(int(one.epoch)) for one in reversed(look.history.checkpoints))
        case "taskmanagerid":
            return (manager_id(int(slot)) for slot in look.history.slots)
        case _:
            return ()


def _text(look: Look, template: str, path: Mapping[str, str]) -> str | None:
    """An answer as JSON; ``None`` where there is none, for whatever reason: the others are kept."""
    view = VIEWS[template]
    try:
        found = answer(view, look, Asked(path, _everything(template)))
        if template.endswith("/metrics"):
            wanted = ",".join(one["id"] for one in found)
            found = answer(view, look, Asked(path, {"get": wanted})) if wanted else []
        return json.dumps(found, allow_nan=False)
    except Exception:
        return None


def _everything(template: str) -> dict[str, str]:
    return {"maxExceptions": "1000"} if template.endswith("/exceptions") else {}
