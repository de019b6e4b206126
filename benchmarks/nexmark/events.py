"""The events of an online auction: people, auctions and bids, 1 : 3 : 46, each a function of its number.

Of fifty events in a row the first is a person, the next three are auctions, the rest bids.  Half of the bids
go to one hot auction of the last hundred, the others to any of those or to one that is just to come; three of
four bids are of one hot bidder of the last hundred people, and so are sellers.  Prices are spread evenly over
their numbers of digits.  Times go up with the numbers, ``per_second`` events to a second.

Nothing is kept between events.  Any subset, in any order, by any number of readers, gives the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark import texts
from benchmarks.nexmark.draws import Draw

ROUND = 50
"""Events in a row after which kinds repeat."""
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_EACH = 100
"""One of so many auctions or people in a row is the hot one."""
IN_FLIGHT, AHEAD, ACTIVE = 100, 10, 1000
"""Auctions that are bid for, ids that bids and auctions are ahead by, people who do something."""
START_MS = 1_772_351_990_000
"""2026-03-01 07:59:50: ten seconds later the hour begins that counts as day."""

_TIME = pa.timestamp("ms")
_NUMBER, _TEXT = pa.int64(), pa.string()
PERSON = pa.schema(
    {
        "id": _NUMBER,
        **dict.fromkeys(("name", "emailAddress", "creditCard", "city", "state"), _TEXT),
        "dateTime": _TIME,
        "extra": _TEXT,
    }
)
AUCTION = pa.schema(
    {
        "id": _NUMBER,
        **dict.fromkeys(("itemName", "description"), _TEXT),
        **dict.fromkeys(("initialBid", "reserve"), _NUMBER),
        **dict.fromkeys(("dateTime", "expires"), _TIME),
        **dict.fromkeys(("seller", "category"), _NUMBER),
        "extra": _TEXT,
    }
)
BID = pa.schema(
    {
        **dict.fromkeys(("auction", "bidder", "price"), _NUMBER),
        **dict.fromkeys(("channel", "url"), _TEXT),
        "dateTime": _TIME,
        "extra": _TEXT,
    }
)


@dataclass(frozen=True)
class Feed:
    """How many events (``None``: without end), and when they are."""

    events: int | None
    per_second: int = 10_000
    start_ms: int = START_MS

    def millis(self, numbers: Any) -> Any:
        """Event times, in milliseconds since 1970."""
        return self.start_ms + numbers * 1000 // self.per_second

    @property
    def longest_ms(self) -> int:
        """Auctions are open for less: twice as long as the auctions in flight take to come."""
        return max(2 * (IN_FLIGHT * ROUND // 3) * 1000 // self.per_second, 1)


Columns = dict[str, Callable[[], pa.Array]]
"""The columns of some events, each made when it is wanted."""


def persons(numbers: Any, feed: Feed) -> Columns:
    """The people with these event numbers."""
    short = numbers.astype(np.uint32)

    def card() -> pa.Array:
        parts = [_any_of(texts.four_digits(), f"person.card.{part}", short) for part in range(4)]
        return pc.binary_join_element_wise(*parts, " ")

    return {
        "id": lambda: pa.array(numbers // ROUND + FIRST_ID),
        "name": lambda: _any_of(texts.names(), "person.name", short),
        "emailAddress": lambda: _any_of(texts.emails(), "person.email", short),
        "creditCard": card,
        "city": lambda: _any_of(texts.cities(), "person.city", short),
        "state": lambda: _any_of(texts.states(), "person.state", short),
        "dateTime": lambda: _times(feed.millis(numbers)),
        "extra": lambda: _any_of(texts.extras(), "person.extra", short),
    }


def auctions(numbers: Any, feed: Feed) -> Columns:
    """The auctions with these event numbers."""
    short, rounds = numbers.astype(np.uint32), numbers // ROUND
    begins = feed.millis(numbers)

    def first_bid() -> Any:
        return _price("auction.first", short)

    return {
        "id": lambda: pa.array(rounds * 3 + (numbers - rounds * ROUND) - 1 + FIRST_ID),
        "itemName": lambda: _any_of(texts.item_names(), "auction.item", short),
        "description": lambda: _any_of(texts.descriptions(), "auction.text", short),
        "initialBid": lambda: pa.array(first_bid()),
        "reserve": lambda: pa.array(first_bid() + _price("auction.reserve", short)),
        "dateTime": lambda: _times(begins),
        "expires": lambda: _times(begins + 1 + _draw("auction.length", short, feed.longest_ms)),
        "seller": lambda: pa.array(_person("auction.seller", short, rounds, hot_place=0)),
        "category": lambda: pa.array(_draw("auction.category", short, CATEGORIES) + FIRST_CATEGORY),
        "extra": lambda: _any_of(texts.extras(), "auction.extra", short),
    }


def bids(numbers: Any, feed: Feed) -> Columns:
    """The bids with these event numbers."""
    short, rounds = numbers.astype(np.uint32), numbers // ROUND

    def auction() -> Any:
        last = rounds * 3 + 2
        lowest = np.maximum(last - (IN_FLIGHT - 1), 0)
        near = last - lowest + (1 + AHEAD)
        drawn = _draw("bid.auction", short, near * 2)
        return np.where(drawn >= near, last // HOT_EACH * HOT_EACH, lowest + drawn) + FIRST_ID

    @cache
    def channel() -> Any:
        drawn = _draw("bid.channel", short, 2 * texts.CHANNELS)
        hot = drawn % len(texts.HOT_CHANNELS) + texts.CHANNELS
        return np.where(drawn >= texts.CHANNELS, hot, drawn)

    return {
        "auction": lambda: pa.array(auction()),
        "bidder": lambda: pa.array(_person("bid.bidder", short, rounds, hot_place=1)),
        "price": lambda: pa.array(_price("bid.price", short)),
        "channel": lambda: _chosen(texts.channels(), channel()),
        "url": lambda: _chosen(texts.urls(), channel()),
        "dateTime": lambda: _times(feed.millis(numbers)),
        "extra": lambda: _any_of(texts.extras(), "bid.extra", short),
    }


@dataclass(frozen=True)
class Kind:
    """One kind of event: which of fifty in a row, and how they are made."""

    first: int
    share: int
    schema: pa.Schema
    columns: Callable[[Any, Feed], Columns]

    def batch(self, numbers: Any, feed: Feed, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the events with these numbers."""
        made = self.columns(numbers, feed)
        fields = [self.schema.field(name) for name in columns]
        return pa.RecordBatch.from_arrays([made[name]() for name in columns], schema=pa.schema(fields))

    def count(self, events: int) -> int:
        """How many there are among the first ``events``."""
        rounds, rest = divmod(events, ROUND)
        return rounds * self.share + min(max(rest - self.first, 0), self.share)

    def numbers(self, indices: Any) -> Any:
        """Event numbers of those that are the first, second, ... of their kind."""
        rounds = indices // self.share
        return rounds * (ROUND - self.share) + indices + self.first


KINDS = {
    "person": Kind(0, 1, PERSON, persons),
    "auction": Kind(1, 3, AUCTION, auctions),
    "bid": Kind(4, 46, BID, bids),
}

_POWERS = 10 ** np.arange(6, dtype=np.int64)
_DRAWS: dict[str, Draw] = {}


def _draw(field: str, numbers: Any, limit: Any) -> Any:
    draw = _DRAWS.get(field)
    if draw is None:
        draw = _DRAWS[field] = Draw(field)
    return draw.below(numbers, limit)


def _price(field: str, numbers: Any) -> Any:
    """Six digits, then a number of digits: from 100 to 99,999,900."""
    drawn = _draw(field, numbers, 6 * 900_000)
    power = drawn // 900_000
    return (drawn - power * 900_000 + 100_000) * _POWERS[power] // 1000


def _person(field: str, numbers: Any, rounds: Any, hot_place: int) -> Any:
    """Three of four times a hot one, else any of the active ones, or one who is just to come."""
    active = np.minimum(rounds + 1, ACTIVE)
    near = active + AHEAD
    drawn = _draw(field, numbers, near * 4)
    hot = rounds // HOT_EACH * HOT_EACH + hot_place
    return np.where(drawn >= near, hot, rounds + 1 - active + drawn) + FIRST_ID


def _any_of(pool: pa.Array, field: str, numbers: Any) -> pa.Array:
    return _chosen(pool, _draw(field, numbers, len(pool)))


def _chosen(pool: pa.Array, indices: Any) -> pa.Array:
    return pc.take(pool, pa.array(indices), boundscheck=False)


def _times(millis: Any) -> pa.Array:
    return pa.array(millis).view(_TIME)
