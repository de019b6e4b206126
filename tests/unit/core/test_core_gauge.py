"""Batches of a stream are measured by some of them, and no giant goes unseen for long."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core import sizing
from penstock.core.sizing import LONGEST_GAP, SMALL_ROWS, WATCHED, Gauge, rows_bytes, sampled_bytes

SMALL = [(n, "x" * 10) for n in range(1000)]
GIANT = 5_000_000


def with_giant(place: int = 501) -> list[Any]:
    rows: list[Any] = list(SMALL)
    rows[place] = (place, "x" * GIANT)
    return rows


def settled(seed: int = 0) -> Gauge:
    made = Gauge(seed)
    for _ in range(WATCHED):
        made.rows_bytes(SMALL)
    return made


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each batch of which all rows were looked at."""
    seen: list[int] = []

    def scan(rows: Any) -> int:
        seen.append(len(rows))
        return rows_bytes(rows)

    monkeypatch.setattr(sizing, "rows_bytes", scan)
    return seen


def test_small_batches_are_always_scanned() -> None:
    made = settled()
    for place in range(0, SMALL_ROWS, 7):
        rows = with_giant(0)[: SMALL_ROWS - 1]
        rows.insert(place, (0, "x" * GIANT))
        assert made.rows_bytes(rows) >= GIANT


def test_the_first_batches_of_a_stream_are_scanned() -> None:
    made = Gauge(3)
    assert made.rows_bytes(with_giant()) >= GIANT


def test_of_large_batches_that_are_as_their_samples_say_some_are_scanned(scans: list[int]) -> None:
    made = settled()
    scans.clear()
    for _ in range(1000):
        made.rows_bytes(SMALL)
    assert 90 < len(scans) < 160


def test_what_is_scanned_is_irregular_and_always_the_same(scans: list[int]) -> None:
    def places(seed: int) -> list[int]:
        made, found = settled(seed), []
        for number in range(300):
            scans.clear()
            made.rows_bytes(SMALL)
            found += [number] * len(scans)
        return found

    assert places(1) == places(1) != places(2)
    assert len({after - before for before, after in zip(places(1), places(1)[1:], strict=False)}) > 5


@pytest.mark.parametrize("seed", range(5))
def test_a_stream_that_turns_to_giants_is_found_out_soon_and_watched(seed: int) -> None:
    made = settled(seed)
    seen = [made.rows_bytes(with_giant()) >= GIANT for _ in range(LONGEST_GAP + 1 + WATCHED)]
    first = seen.index(True)
    assert first <= LONGEST_GAP and all(seen[first:])


def test_rare_giants_count_by_their_mean() -> None:
    """One batch in fifty has one: over many batches the sum is near the truth, however few are scanned."""
    made, judged, truth = settled(), 0, 0
    small, large = rows_bytes(SMALL), rows_bytes(with_giant())
    for number in range(5000):
        has_giant = number * 7919 % 50 == 3
        judged += made.rows_bytes(with_giant() if has_giant else SMALL)
        truth += large if has_giant else small
    assert 0.5 * truth < judged < 2 * truth


def test_large_batches_are_never_less_than_their_sample() -> None:
    """Also where scanned batches had less than theirs."""
    made = Gauge(0)
    for _ in range(WATCHED):
        made.rows_bytes([("x" * 10_000,), *SMALL])
    assert all(made.rows_bytes(SMALL) >= sampled_bytes(SMALL) for _ in range(LONGEST_GAP))
