"""Work that is done again: which errors, how often, and with what pauses."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from penstock.core.clock import ManualClock
from penstock.core.retrying import doubling, retry, steadily


def failing(*errors: Exception) -> Callable[[], str]:
    """Raises these one after the other, then returns."""
    left = iter(errors)

    def work() -> str:
        error = next(left, None)
        if error is not None:
            raise error
        return "done"

    return work


def test_it_pauses_after_each_error_that_passes() -> None:
    paused: list[float] = []
    told: list[tuple[str, float]] = []
    found = retry(
        failing(OSError("one"), OSError("two")),
        OSError,
        (1.0, 2.0, 3.0),
        lambda error, pause: told.append((str(error), pause)),
        paused.append,
    )
    assert found == "done" and paused == [1.0, 2.0] and told == [("one", 1.0), ("two", 2.0)]


def test_the_last_error_is_raised_as_it_is() -> None:
    paused: list[float] = []
    last = OSError("three")
    work = failing(OSError("one"), OSError("two"), last)
    with pytest.raises(OSError, match="three") as caught:
        retry(work, OSError, (1.0, 2.0), wait=paused.append)
    assert caught.value is last and paused == [1.0, 2.0]


def test_an_error_that_does_not_pass_ends_it_at_once() -> None:
    paused: list[float] = []
    work = failing(OSError("one"), ValueError("two"), OSError("never"))
    with pytest.raises(ValueError, match="two"):
        retry(work, lambda error: isinstance(error, OSError), (1.0, 2.0, 3.0), wait=paused.append)
    assert paused == [1.0]


def test_pauses_double_up_to_the_longest() -> None:
    assert list(doubling(0.1, 0.5, 4)) == [0.1, 0.2, 0.4, 0.5]
    assert list(doubling(1.0, 5.0, 0)) == []
    assert next(itertools.islice(doubling(1.0, 5.0), 5000, None)) == 5.0


def test_equal_pauses_end_when_patience_does() -> None:
    clock = ManualClock()
    pauses = steadily(0.25, 1.0, clock)
    found = []
    for pause in pauses:
        found.append(pause)
        clock.advance(250)
    assert found == [0.25] * 5


def test_patience_is_counted_from_the_call() -> None:
    clock = ManualClock()
    pauses = steadily(0.25, 1.0, clock)
    clock.advance(1001)
    assert list(pauses) == []
