"""Work done side by side: as much at once as was said, and no error is lost."""

from __future__ import annotations

import threading

import pytest

from penstock.storage.at_once import each
from tests.patience import PATIENCE_S


def test_so_many_are_at_work_together() -> None:
    """Three meet, three times; a fourth beside them would be alone at the barrier and fail."""
    together, done = threading.Barrier(3, timeout=PATIENCE_S), list[int]()

    def work(item: int) -> None:
        together.wait()
        done.append(item)

    each(work, range(9), 3)
    assert sorted(done) == list(range(9))


def test_one_at_a_time_is_in_order_and_here() -> None:
    seen: list[tuple[int, int]] = []
    each(lambda item: seen.append((item, threading.get_ident())), range(5), 1)
    assert seen == [(item, threading.get_ident()) for item in range(5)]


def test_an_error_ends_it() -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 2:
            raise KeyError("two")

    with pytest.raises(KeyError, match="two"):
        each(work, range(9), 1)
    assert begun == [0, 1, 2]


def test_nothing_is_under_way_when_an_error_is_told() -> None:
    failed, ended = threading.Event(), list[str]()

    def work(item: str) -> None:
        if item == "fails":
            failed.set()
            raise ValueError(item)
        assert failed.wait(PATIENCE_S)
        ended.append(item)

    with pytest.raises(ValueError, match="fails"):
        each(work, ["slow", "fails"], 2)
    assert ended == ["slow"]
