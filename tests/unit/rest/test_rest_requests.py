"""Requests for snapshots: which are refused, which are kept, and who waits for whom at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from penstock.coordinator.events import RequestKind
from penstock.core.errors import ClusterError, ConfigError
from penstock.core.job import JobStatus
from penstock.rest.look import Refused
from penstock.rest.requests import Requests
from tests.patience import PATIENCE_S

KINDS = ("savepoint", "stop", "drain", "checkpoint")


class Desk:
    """Takes every request and keeps its future."""

    def __init__(self) -> None:
        self.taken: list[Future[str]] = []
        self.error: Exception | None = None
        self.requests = Requests(self.ask, self.ask_rescale, lambda: JobStatus.RUNNING)

    def ask(
        self, kind: RequestKind, directory: str | None, accepted: Callable[[], None]
    ) -> tuple[str, Future[str]]:
        future: Future[str] = Future()
        self.taken.append(future)
        if self.error is not None:
            future.set_exception(self.error)
        accepted()
        return "", future

    def ask_rescale(self, parallelism: int, accepted: Callable[[], None]) -> tuple[str, Future[str]]:
        return self.ask(RequestKind.RESCALE, str(parallelism), accepted)

    def begin(self, kind: RequestKind) -> str:
        if kind is RequestKind.RESCALE:
            return self.requests.rescale(3, None)
        return self.requests.snapshot(kind, None, None)


@pytest.mark.parametrize(
    ("first", "second", "is_taken"),
    [
        (RequestKind.SAVEPOINT, RequestKind.SAVEPOINT, False),
        (RequestKind.SAVEPOINT, RequestKind.STOP, True),
        (RequestKind.SAVEPOINT, RequestKind.DRAIN, True),
        (RequestKind.STOP, RequestKind.SAVEPOINT, False),
        (RequestKind.STOP, RequestKind.DRAIN, False),
        (RequestKind.SAVEPOINT, RequestKind.CHECKPOINT, True),
        (RequestKind.CHECKPOINT, RequestKind.SAVEPOINT, True),
        (RequestKind.RESCALE, RequestKind.RESCALE, False),
        (RequestKind.RESCALE, RequestKind.STOP, True),
        (RequestKind.STOP, RequestKind.RESCALE, False),
    ],
)
def test_one_savepoint_at_a_time_but_none_keeps_a_job_from_being_stopped(
    first: RequestKind, second: RequestKind, is_taken: bool
) -> None:
    desk = Desk()
    desk.begin(first)
    if is_taken:
        assert desk.begin(second)
    else:
        with pytest.raises(Refused, match="is under way") as refused:
            desk.begin(second)
        assert refused.value.status == 409
    assert len(desk.taken) == 1 + is_taken


@pytest.mark.parametrize(("error", "status"), [(ConfigError("no place"), 400), (ClusterError("gone"), 503)])
def test_what_cannot_begin_leaves_nothing_behind(error: Exception, status: int) -> None:
    desk = Desk()
    desk.error = error
    with pytest.raises(Refused) as refused:
        desk.begin(RequestKind.STOP)
    assert refused.value.status == status
    desk.requests.linger()
    desk.error = None
    assert desk.begin(RequestKind.STOP)


def test_an_error_that_nobody_expected_leaves_nothing_behind() -> None:
    def broken(
        kind: RequestKind, directory: str | None, accepted: Callable[[], None]
    ) -> tuple[str, Future[str]]:
        raise RuntimeError("the desk is on fire")

    desk = Desk()
    desk.requests._ask = broken
    with pytest.raises(RuntimeError):
        desk.begin(RequestKind.STOP)
    desk.requests._ask = desk.ask
    assert desk.begin(RequestKind.STOP)


def test_the_end_waits_for_who_has_not_heard_even_of_what_ended_the_job_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job is over before the request has its number: its outcome is told all the same."""
    monkeypatch.setattr("penstock.rest.requests.LINGER_S", PATIENCE_S)
    desk, over = Desk(), threading.Event()

    def ends_the_job(
        kind: RequestKind, directory: str | None, accepted: Callable[[], None]
    ) -> tuple[str, Future[str]]:
        threading.Thread(target=lambda: (desk.requests.linger(), over.set())).start()
        future: Future[str] = Future()
        future.set_result("file:///sp")
        return "", future

    desk.requests._ask = ends_the_job
    number = desk.begin(RequestKind.STOP)
    assert not over.is_set()
    told = desk.requests.outcome(number, KINDS)
    assert told["operation"] == {"location": "file:///sp"} and over.wait(PATIENCE_S)


def test_what_is_under_way_is_not_forgotten_for_what_is_over() -> None:
    desk = Desk()
    savepoint = desk.begin(RequestKind.SAVEPOINT)
    for number in range(300):
        desk.begin(RequestKind.CHECKPOINT)
        desk.taken[-1].set_result(f"chk-{number}")
    assert desk.requests.outcome(savepoint, KINDS)["status"] == {"id": "IN_PROGRESS"}
    with pytest.raises(Refused, match="is under way"):
        desk.begin(RequestKind.SAVEPOINT)
    for _ in range(300):
        desk.begin(RequestKind.CHECKPOINT)
    assert len(desk.requests._open) == 100
