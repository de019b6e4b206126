"""The texts of the events: few enough to be made once, so that an event only chooses among them.

Each pool is an Arrow array that is made at its first use in a process.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pyarrow as pa

FIRST_NAMES = ("Ada", "Bela", "Carl", "Dora", "Emil", "Fanny", "Georg", "Hanna", "Ivo", "Jana", "Karl")
LAST_NAMES = ("Adler", "Berg", "Conrad", "Decker", "Engel", "Frank", "Gruber", "Haas", "Jung")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000
"""Channels that are not hot; those come behind them in the pools."""

LETTERS = "".join(chr(97 + (at * at * 7 + at * 3 + at // 5) % 26) for at in range(260))
"""What most texts are cut from."""

STARTS = 100
"""A cut begins at one of so many places."""
EXTRA_LEAST, EXTRA_LENGTHS = 20, 32
NAME_LENGTH, DESCRIPTION_LENGTH = 20, 100


def cut(start: int, length: int) -> str:
    """A piece of the letters."""
    return LETTERS[start : start + length]


def _texts(values: Iterable[str]) -> pa.Array:
    return pa.array(values, pa.string())


@cache
def names() -> pa.Array:
    """First and last names of people."""
    return _texts(f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES)


@cache
def emails() -> pa.Array:
    """Two cuts in each."""
    return _texts(f"{cut(who, 7)}@{cut(where, 5)}.com" for who in range(STARTS) for where in range(STARTS))


@cache
def four_digits() -> pa.Array:
    """A quarter of a card's number."""
    return _texts(f"{number:04d}" for number in range(10_000))


@cache
def cities() -> pa.Array:
    """Where people live."""
    return _texts(CITIES)


@cache
def states() -> pa.Array:
    """Not always the city's."""
    return _texts(STATES)


@cache
def item_names() -> pa.Array:
    """What is sold."""
    return _texts(cut(start, NAME_LENGTH) for start in range(STARTS))


@cache
def descriptions() -> pa.Array:
    """And how it is praised."""
    return _texts(cut(start, DESCRIPTION_LENGTH) for start in range(STARTS))


@cache
def extras() -> pa.Array:
    """Filling: a start, and a length for each."""
    lengths = range(EXTRA_LEAST, EXTRA_LEAST + EXTRA_LENGTHS)
    return _texts(cut(start, length) for start in range(STARTS) for length in lengths)


@cache
def channels() -> pa.Array:
    """Names of channels, the hot ones last."""
    return _texts([*(f"channel-{number}" for number in range(CHANNELS)), *HOT_CHANNELS])


@cache
def urls() -> pa.Array:
    """The page of each channel; one in ten of those that are not hot does not say its id."""
    return _texts(url(number) for number in range(CHANNELS + len(HOT_CHANNELS)))


def url(channel: int) -> str:
    """Three folders, and in most the channel's id."""
    folders = (cut(channel % 101, 5), cut(channel // 7 % 103, 5), cut(channel * 3 % 107, 5))
    says_id = channel < CHANNELS and channel % 10 > 0
    own = f"&channel_id={(channel * 7919 + 13) % 1_000_003}" if says_id else ""
    return f"https://www.nexmark.com/{'/'.join(folders)}/item.htm?query=1{own}"
