"""Results that are not there yet."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest

from penstock.common import completable_future
from penstock.common.completable_future import CompletableFuture


class Waited(NamedTuple):
    done: Collection[Any]


def test_who_waits_without_a_limit_wakes_up_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs the handler of a signal only when the main thread is awake."""
    future: Future[str] = Future()
    naps: list[float | None] = []

    def nap(futures: Collection[Future[str]], timeout: float | None = None) -> Waited:
        naps.append(timeout)
        if len(naps) == 3:
            future.set_result("there")
        return Waited([one for one in futures if one.done()])

    monkeypatch.setattr(completable_future, "wait", nap)
    assert CompletableFuture(future).result() == "there"
    assert len(naps) == 3 and None not in naps


def test_errors_and_limits_are_the_futures_own() -> None:
    failed: Future[str] = Future()
    failed.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        CompletableFuture(failed).result()
    with pytest.raises(TimeoutError):
        CompletableFuture(Future[str]()).result(timeout=0)
