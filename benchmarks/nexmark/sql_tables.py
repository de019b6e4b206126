"""The events as SQL: the formulas of ``events.py`` over a column ``n``, for engines that only number rows.

With these an engine makes the same events in its own generated code, so no reading of files is measured.
This needs nothing of Penstock: it is read where Flink is installed.
"""

from __future__ import annotations

from benchmarks.nexmark import texts
from benchmarks.nexmark.draws import Draw
from benchmarks.nexmark.events import (
    ACTIVE,
    AHEAD,
    CATEGORIES,
    FIRST_CATEGORY,
    FIRST_ID,
    HOT_EACH,
    IN_FLIGHT,
    KINDS,
    ROUND,
    Feed,
)


class Formulas:
    """The columns of each table as SQL over ``n``, the event's number, and ``r``, which is ``n`` by fifty.

    ``quotient`` divides integers to an integer; ``time`` has a place for milliseconds since 1970 and
    makes a timestamp of them.
    """

    def __init__(self, feed: Feed, quotient: str, time: str) -> None:
        self._feed, self._by, self._time = feed, quotient, time

    def numbers(self, kind: str, place: str) -> str:
        """The event number of the row at a place among those of its kind."""
        share = KINDS[kind].share
        return f"({place} {self._by} {share} * {ROUND - share} + {place} + {KINDS[kind].first})"

    def columns(self, kind: str) -> dict[str, str]:
        """Names and formulas, in the order of the table."""
        return {"person": self._person, "auction": self._auction, "bid": self._bid}[kind]()

    def _draw(self, field: str, limit: str | int) -> str:
        return Draw(field).sql("n", limit, self._by)

    def _person(self) -> dict[str, str]:
        card = [f"LPAD(CAST({self._draw(f'person.card.{k}', 10_000)} AS STRING), 4, '0')" for k in range(4)]
        email = self._draw("person.email", texts.STARTS**2)
        who = self._cut_at(f"({email} {self._by} {texts.STARTS})", 7)
        where = self._cut_at(f"MOD({email}, {texts.STARTS})", 5)
        name, lasts = (
            self._draw("person.name", len(texts.FIRST_NAMES) * len(texts.LAST_NAMES)),
            len(texts.LAST_NAMES),
        )
        first = self._choice(f"({name} {self._by} {lasts})", texts.FIRST_NAMES)
        last = self._choice(f"MOD({name}, {lasts})", texts.LAST_NAMES)
        return {
            "id": f"r + {FIRST_ID}",
            "name": f"CONCAT({first}, ' ', {last})",
            "emailAddress": f"CONCAT({who}, '@', {where}, '.com')",
            "creditCard": "CONCAT({})".format(", ' ', ".join(card)),
            "city": self._one_of("person.city", texts.CITIES),
            "state": self._one_of("person.state", texts.STATES),
            "dateTime": self.times(),
            "extra": self._extra("person"),
        }

    def _auction(self) -> dict[str, str]:
        first = self._price("auction.first")
        return {
            "id": f"r * 3 + n - r * {ROUND} - 1 + {FIRST_ID}",
            "itemName": self._cut("auction.item", texts.NAME_LENGTH),
            "description": self._cut("auction.text", texts.DESCRIPTION_LENGTH),
            "initialBid": first,
            "reserve": f"{first} + {self._price('auction.reserve')}",
            "dateTime": self.times(),
            "expires": self._at(
                f"{self._millis()} + 1 + {self._draw('auction.length', self._feed.longest_ms)}"
            ),
            "seller": self._some_person("auction.seller", 0),
            "category": f"{self._draw('auction.category', CATEGORIES)} + {FIRST_CATEGORY}",
            "extra": self._extra("auction"),
        }

    def _bid(self) -> dict[str, str]:
        lowest = f"(CASE WHEN r * 3 + 3 < {IN_FLIGHT} THEN 0 ELSE r * 3 + 3 - {IN_FLIGHT} END)"
        near = f"(r * 3 + 3 - {lowest} + {AHEAD})"
        drawn = self._draw("bid.auction", f"({near} * 2)")
        hot = f"(r * 3 + 2) {self._by} {HOT_EACH} * {HOT_EACH}"
        channel, url = self._channel()
        return {
            "auction": f"(CASE WHEN {drawn} >= {near} THEN {hot} ELSE {lowest} + {drawn} END) + {FIRST_ID}",
            "bidder": self._some_person("bid.bidder", 1),
            "price": self._price("bid.price"),
            "channel": channel,
            "url": url,
            "dateTime": self.times(),
            "extra": self._extra("bid"),
        }

    def _channel(self) -> tuple[str, str]:
        number = self._draw("bid.channel", 2 * texts.CHANNELS)
        is_hot, which = f"{number} >= {texts.CHANNELS}", f"MOD({number}, {len(texts.HOT_CHANNELS)})"
        hot = self._choice(which, texts.HOT_CHANNELS)
        urls = self._choice(which, [texts.url(texts.CHANNELS + at) for at in range(len(texts.HOT_CHANNELS))])
        folders = (f"MOD({number}, 101)", f"MOD({number} {self._by} 7, 103)", f"MOD({number} * 3, 107)")
        cuts = ", '/', ".join(self._cut_at(start, 5) for start in folders)
        own = f"CONCAT('&channel_id=', CAST(MOD({number} * 7919 + 13, 1000003) AS STRING))"
        tail = f"CASE WHEN MOD({number}, 10) > 0 THEN {own} ELSE '' END"
        cold = f"CONCAT('https://www.nexmark.com/', {cuts}, '/item.htm?query=1', {tail})"
        named = f"CONCAT('channel-', CAST({number} AS STRING))"
        return (
            f"CASE WHEN {is_hot} THEN {hot} ELSE {named} END",
            f"CASE WHEN {is_hot} THEN {urls} ELSE {cold} END",
        )

    def _millis(self, number: str = "n") -> str:
        return f"{self._feed.start_ms} + {number} * 1000 {self._by} {self._feed.per_second}"

    def times(self, number: str = "n") -> str:
        """The column with event times."""
        return self._at(self._millis(number))

    def _at(self, millis: str) -> str:
        return self._time.format(millis)

    def _price(self, field: str) -> str:
        drawn = self._draw(field, 6 * 900_000)
        powers = " ".join(f"WHEN {k} THEN {10**k}" for k in range(5))
        power = f"(CASE {drawn} {self._by} 900000 {powers} ELSE 100000 END)"
        return f"((CAST(MOD({drawn}, 900000) AS BIGINT) + 100000) * {power} {self._by} 1000)"

    def _some_person(self, field: str, hot_place: int) -> str:
        active = f"(CASE WHEN r + 1 < {ACTIVE} THEN r + 1 ELSE {ACTIVE} END)"
        drawn = self._draw(field, f"(({active} + {AHEAD}) * 4)")
        hot = f"r {self._by} {HOT_EACH} * {HOT_EACH} + {hot_place}"
        cold = f"r + 1 - {active} + {drawn}"
        return f"(CASE WHEN {drawn} >= {active} + {AHEAD} THEN {hot} ELSE {cold} END) + {FIRST_ID}"

    def _extra(self, kind: str) -> str:
        drawn = self._draw(f"{kind}.extra", texts.STARTS * texts.EXTRA_LENGTHS)
        length = f"{texts.EXTRA_LEAST} + MOD({drawn}, {texts.EXTRA_LENGTHS})"
        return self._cut_at(f"({drawn} {self._by} {texts.EXTRA_LENGTHS})", length)

    def _cut(self, field: str, length: int) -> str:
        return self._cut_at(self._draw(field, texts.STARTS), length)

    def _cut_at(self, start: str, length: str | int) -> str:
        numbers = f"CAST({start} AS INTEGER) + 1, CAST({length} AS INTEGER)"
        return f"SUBSTRING('{texts.LETTERS}', {numbers})"

    def _one_of(self, field: str, names: tuple[str, ...]) -> str:
        return self._choice(self._draw(field, len(names)), names)

    def _choice(self, number: str, names: list[str] | tuple[str, ...]) -> str:
        *most, last = names
        cases = " ".join(f"WHEN {at} THEN '{name}'" for at, name in enumerate(most))
        return f"(CASE {number} {cases} ELSE '{last}' END)"
