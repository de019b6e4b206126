"""Joins as relations: every pair is looked at, no state, no order.  The standard for the operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Pair = tuple[Any, Any, int]
"""Left record, right record, time of the result."""


@dataclass(frozen=True)
class Event:
    """A record with an identity."""

    key: str
    time: int
    number: int


def interval_pairs(lefts: list[Event], rights: list[Event], lower: int, upper: int, how: str) -> list[Pair]:
    pairs: list[Pair] = [
        (one, two, max(one.time, two.time))
        for one in lefts
        for two in rights
        if one.key == two.key and lower <= two.time - one.time <= upper
    ]
    met = {one for one, _, _ in pairs}, {two for _, two, _ in pairs}
    if how in ("left", "full"):
        pairs += [(one, None, one.time + max(0, upper)) for one in lefts if one not in met[0]]
    if how in ("right", "full"):
        pairs += [(None, two, two.time + max(0, -lower)) for two in rights if two not in met[1]]
    return pairs


def windows_of(time: int, size: int, slide: int) -> Iterator[int]:
    """Starts of the windows that hold ``time``."""
    for start in range((time - size) // slide * slide, time + 1, slide):
        if start <= time < start + size:
            yield start


def window_pairs(lefts: list[Event], rights: list[Event], size: int, slide: int, how: str) -> list[Pair]:
    pairs: list[Pair] = []
    places = {(e.key, start) for e in (*lefts, *rights) for start in windows_of(e.time, size, slide)}
    for key, start in places:
        ones, twos = (
            [e for e in side if e.key == key and start <= e.time < start + size] for side in (lefts, rights)
        )
        if ones and twos:
            pairs += [(one, two, start + size - 1) for one in ones for two in twos]
        elif ones and how in ("left", "full"):
            pairs += [(one, None, start + size - 1) for one in ones]
        elif twos and how in ("right", "full"):
            pairs += [(None, two, start + size - 1) for two in twos]
    return pairs


def temporal_pairs(lefts: list[Event], versions: list[Event], how: str) -> list[Pair]:
    """Of versions with equal times the one that came last, hence the largest number."""
    pairs: list[Pair] = []
    for one in lefts:
        valid = [two for two in versions if two.key == one.key and two.time <= one.time]
        version = max(valid, key=lambda two: (two.time, two.number), default=None)
        if version is not None or how == "left":
            pairs.append((one, version, one.time))
    return pairs
