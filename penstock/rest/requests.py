"""What is asked of a job, snapshots and rescales: begun at once, the outcome asked for later.

A client that chooses the id itself may ask again without harm: the same id is the same request.  When the job
ends, its driver waits a moment for clients that have not fetched how a request went.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from penstock.coordinator.events import RequestKind
from penstock.core.discreet import shown
from penstock.core.errors import ClusterError, coded
from penstock.core.job import JobStatus
from penstock.rest.look import Refused

LINGER_S = 3.0
"""How long the end of a job waits for a client to fetch an outcome."""
_KEPT = 100
_ID = re.compile(r"[0-9a-f]{32}")
_ENDS = (RequestKind.STOP.value, RequestKind.DRAIN.value)
"""A savepoint that waits (for commits, say) keeps nobody from stopping the job."""
_ACCEPTED_S = 20.0
"""How long a directory may take to be made before the request counts as taken."""

Ask = Callable[[RequestKind, str | None, Callable[[], None]], "tuple[str, Future[str]]"]
"""Begins a snapshot: kind, directory, and what to call when there is a place for it."""
AskRescale = Callable[[int, Callable[[], None]], "tuple[str, Future[str]]"]
"""Begins a rescale: parallelism, and what to call when nothing speaks against it."""
_Begin = Callable[[Callable[[], None]], "tuple[str, Future[str]]"]


@dataclass(frozen=True, slots=True)
class _Request:
    kind: str
    future: Future[str]


class Requests:
    """All requests of one job. Thread-safe; :meth:`snapshot` waits for the place of a savepoint."""

    def __init__(self, ask: Ask, ask_rescale: AskRescale, status: Callable[[], JobStatus]) -> None:
        self._ask = ask
        self._ask_rescale = ask_rescale
        self._status = status
        self._changed = threading.Condition()
        self._open: dict[str, _Request] = {}
        self._untold: set[str] = set()

    def snapshot(self, kind: RequestKind, directory: str | None, trigger: str | None) -> str:
        """Begin one; the id to ask with. Refused if it cannot begin: the job is as it was then."""
        return self._taken(kind, trigger, lambda accepted: self._ask(kind, directory, accepted))

    def rescale(self, parallelism: int, trigger: str | None) -> str:
        """Begin a rescale; the id to ask with. Refused if it cannot begin: the job is as it was then."""
        kind = RequestKind.RESCALE
        return self._taken(kind, trigger, lambda accepted: self._ask_rescale(parallelism, accepted))

    def _taken(self, kind: RequestKind, trigger: str | None, begin: _Begin) -> str:
        with self._changed:
            chosen = _checked(trigger)
            if chosen in self._open:
                return chosen
            self._check_free(kind)
            answer: Future[str] = Future()
            self._keep(chosen, _Request(kind.value, answer))
        try:
            _begun(begin, answer)
        except Exception:
            with self._changed:
                self._open.pop(chosen, None)
                self._tell(chosen)
            raise
        return chosen

    def work(self, kind: str, do: Callable[[], str], trigger: str | None) -> str:
        """Have something else done on a thread of its own; the id to ask with."""
        chosen = _checked(trigger)
        with self._changed:
            if chosen in self._open:
                return chosen
            answer: Future[str] = Future()
            self._keep(chosen, _Request(kind, answer))

        def run() -> None:
            try:
                answer.set_result(do())
            except Exception as error:
                answer.set_exception(error)

        threading.Thread(target=run, daemon=True, name="penstock-rest-work").start()
        return chosen

    def outcome(self, trigger: str, kinds: tuple[str, ...]) -> dict[str, Any]:
        """How a request stands, or 404: status, and the place or the error."""
        with self._changed:
            request = self._open.get(trigger)
        if request is None or request.kind not in kinds:
            raise Refused(404, f"nobody made a request {trigger} here, or it was long ago")
        if not request.future.done():
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        with self._changed:
            self._tell(trigger)
        return {"status": {"id": "COMPLETED"}, "operation": _operation(request)}

    def linger(self) -> None:
        """Wait until every outcome was fetched, but not for long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._untold, LINGER_S)

    def _check_free(self, kind: RequestKind) -> None:
        status = self._status()
        if status.is_terminal_state():
            raise Refused(409, f"the job is {status.name}: it takes no {kind.noun} any more")
        if kind is RequestKind.CHECKPOINT:
            return
        others = _ENDS if kind.ends_job else (kind.value, *_ENDS)
        for trigger, request in self._open.items():
            if request.kind in others and not request.future.done():
                raise Refused(409, f"a {request.kind} is under way, request {trigger}; wait for its end")

    def _keep(self, trigger: str, request: _Request) -> None:
        """From before it begins: a job that it ends must not be gone before its outcome was told."""
        self._open[trigger] = request
        self._untold.add(trigger)
        done = [name for name, one in self._open.items() if one.future.done()]
        first_done = list(dict.fromkeys([*done, *self._open]))  # what is under way is asked for yet
        for old in first_done[: max(len(self._open) - _KEPT, 0)]:
            del self._open[old]
            self._untold.discard(old)

    def _tell(self, trigger: str) -> None:
        self._untold.discard(trigger)
        self._changed.notify_all()


def _begun(begin: _Begin, answer: Future[str]) -> None:
    known = threading.Event()
    _, future = begin(known.set)
    future.add_done_callback(lambda _: known.set())
    known.wait(_ACCEPTED_S)
    error = future.exception() if future.done() else None
    if error is not None:
        status = 503 if isinstance(error, ClusterError) else 400
        raise Refused(status, shown(coded(error)))
    future.add_done_callback(lambda done: _copy(done, answer))


def _copy(done: Future[str], answer: Future[str]) -> None:
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


def _checked(trigger: str | None) -> str:
    if trigger is None:
        return secrets.token_hex(16)
    if not isinstance(trigger, str) or not _ID.fullmatch(trigger):
        raise Refused(400, f"triggerId {trigger!r} will not do: it is 32 hexadecimal digits, in lower case")
    return trigger


def _operation(request: _Request) -> dict[str, Any]:
    error = request.future.exception()
    if error is not None:
        cause = {
            "class": type(error).__name__,
            "stack-trace": shown(coded(error)),
            "serialized-throwable": "",
        }
        return (
            {"failure-cause": cause, "failureCause": cause}
            if request.kind == "checkpoint"
            else {"failure-cause": cause}
        )
    where = request.future.result()
    if request.kind != "checkpoint":
        return {"location": where}
    number = where.rstrip("/").rpartition("chk-")[2].partition("/")[0]
    return {"checkpointId": int(number) if number.isdecimal() else -1, "location": where}
