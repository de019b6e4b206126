"""One archive as it was read: checked, because anybody may have written it.  Pure.

Nothing in it is believed but its shape.  Answers are given out as the text they are, by exact path, and never
by a file's name; what a browser shows of them it shows as text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.core.discreet import plain
from penstock.core.error_codes import Code
from penstock.core.errors import PenstockError
from penstock.core.job import JobStatus
from penstock.rest.archive import OVERVIEW
from penstock.rest.look import Refused
from penstock.rest.task_views import STATES

_ENDED = {status.name for status in JobStatus if status.is_terminal_state()}
_LONGEST = 500
_LOGS, _LOG = "/jobmanager/logs", "driver.log"
_NO_STATE = "the job has ended; the state processor reads its last checkpoint or savepoint, if that was kept"
_NO_RECORDS = "the job has ended: no records flow"
_LATEST_MS = 1 << 53


class NoArchiveError(PenstockError):
    """A file that holds no job that could be shown."""

    code = Code.REST


@dataclass(frozen=True, slots=True)
class ArchivedJob:
    """A run that has ended."""

    key: str
    line: Mapping[str, Any]
    """As lists of jobs show it."""
    answers: Mapping[str, str]
    """JSON by path."""


def run_key(job_id: str, started_ms: int) -> str:
    """Names a run: a job that is started again keeps its id."""
    return hashlib.md5(f"{job_id}:{started_ms}".encode(), usedforsecurity=False).hexdigest()


def read_archive(data: bytes, job_id: str) -> ArchivedJob:
    """The job in a file whose name says ``job_id``; :class:`NoArchiveError` with a sentence if it is none."""
    answers = {path: text for path, text in _entries(data) if _belongs(path, job_id)}
    line = _line(answers.get(OVERVIEW, ""), job_id)
    return ArchivedJob(run_key(job_id, line["start-time"]), line, answers)


def _entries(data: bytes) -> list[tuple[str, str]]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise NoArchiveError("it is not JSON, or not all of it is there") from None
    entries = found.get("archive") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise NoArchiveError('it is no archive of a job: it has no list "archive"')
    made = []
    for entry in entries:
        path, text = (entry.get("path"), entry.get("json")) if isinstance(entry, dict) else (None, None)
        if not isinstance(path, str) or not isinstance(text, str):
            raise NoArchiveError("an entry of it has no path or no answer")
        made.append((path, text))
    return made


def _belongs(path: str, job_id: str) -> bool:
    job = f"/jobs/{job_id}"
    beginnings = (f"{job}/", "/jobmanager/", "/taskmanagers/")
    return path in (OVERVIEW, job, "/taskmanagers") or path.startswith(beginnings)


def _line(text: str, job_id: str) -> dict[str, Any]:
    """The job's line of the overview, of which only what is right is taken."""
    try:
        (found,) = json.loads(text)["jobs"]
        said, name, state = found["jid"], found["name"], found["state"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise NoArchiveError("it has no overview of one job") from None
    if not isinstance(name, str) or not isinstance(state, str):
        raise NoArchiveError("it has no overview of one job")
    if said != job_id:
        raise NoArchiveError(f"it says that it is job {plain(str(said))[:_LONGEST]}, not the one of its name")
    if state not in _ENDED:
        raise NoArchiveError(f"a job that is {plain(str(state))[:_LONGEST]} has not ended")
    times = {key: _time(found.get(key)) for key in ("start-time", "end-time", "duration")}
    kind, tasks = found.get("jobType"), found.get("tasks")
    return {
        "jid": job_id,
        "name": name[:_LONGEST].encode("utf-8", "replace").decode(),
        "jobType": kind if kind in ("STREAMING", "BATCH") else "",
        **times,
        "state": state,
        "last-modification": times["end-time"],
        "tasks": _tasks(tasks) if isinstance(tasks, dict) else {},
    }


def _tasks(found: dict[Any, Any]) -> dict[str, int]:
    """Counts of tasks by their states, and of none that nobody knows: the line stays in memory."""
    known = ((name, found.get(name)) for name in ("total", *map(str.lower, STATES)))
    return {name: count for name, count in known if isinstance(count, int) and 0 <= count < _LATEST_MS}


def _time(value: object) -> int:
    if not isinstance(value, int) or not -1 <= value < _LATEST_MS:
        raise NoArchiveError("its times are none")
    return value


def answer_from(job: ArchivedJob, path: str, query: Mapping[str, str]) -> str:
    """The JSON of a call, or 404."""
    text = job.answers.get(path) or _log_of(job, path) or _ended(job, path)
    if text is None:
        raise Refused(404, f"the archive of the job has no answer to {path}")
    return _metrics(text, query) if path.endswith("/metrics") else text


def _log_of(job: ArchivedJob, path: str) -> str | None:
    """The files of the driver: of what it wrote, its log alone is kept."""
    text = job.answers.get("/jobmanager/log")
    if text is None or path == f"{_LOGS}/{_LOG}":
        return text if path == f"{_LOGS}/{_LOG}" else None
    listed = {"name": _LOG, "size": len(text), "mtime": job.line["end-time"]}
    return json.dumps({"logs": [listed]}) if path == _LOGS else None


def _ended(job: ArchivedJob, path: str) -> str | None:
    """What only a running job can tell, as a driver says that it cannot."""
    if path == f"/jobs/{job.line['jid']}/penstock/state":
        return json.dumps({"snapshot": None, "note": _NO_STATE, "states": [], "truncated": False})
    if path.endswith("/penstock/tail"):
        return json.dumps({"enabled": False, "note": _NO_RECORDS, "of": "input", "records": []})
    return None


def _metrics(text: str, query: Mapping[str, str]) -> str:
    """Names, or those asked for with what is known of them; as the driver answered when there was one."""
    try:
        kept = [entry for entry in json.loads(text) if isinstance(entry, dict)]
    except (ValueError, RecursionError, TypeError):
        raise Refused(404, "the archive of the job has no metrics that could be read") from None
    wanted = query.get("get")
    if not wanted:
        return json.dumps([{"id": entry.get("id")} for entry in kept])
    names = set(wanted.split(","))
    kinds = {"id", "value", *query.get("agg", "min,max,avg,sum,skew").split(",")}
    found = [entry for entry in kept if isinstance(entry.get("id"), str) and entry["id"] in names]
    return json.dumps([{key: value for key, value in entry.items() if key in kinds} for entry in found])
