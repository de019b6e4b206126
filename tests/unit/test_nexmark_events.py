"""The events of Nexmark: the same however they are cut, the same by SQL, and spread as they should be."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.nexmark.draws import Draw
from benchmarks.nexmark.events import KINDS, Feed
from benchmarks.nexmark.sql_tables import Formulas
from benchmarks.nexmark.tables import Rows, generated, table
from penstock.core.clock import SystemClock

FEED = Feed(events=30_000, per_second=1000)


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_gives_the_same_events(kind: str) -> None:
    whole, rows = table(kind, FEED), Rows(kind, FEED)
    numbers = np.random.default_rng(7).permutation(len(whole))
    assert pa.Table.from_batches([rows(numbers)]).equals(whole.take(pa.array(numbers)))
    for step in (1, 3):
        parts = [rows(np.arange(first, len(whole), step)) for first in range(step)]
        order = np.concatenate([np.arange(first, len(whole), step) for first in range(step)])
        assert pa.Table.from_batches(parts).take(pa.array(np.argsort(order))).equals(whole)
    some = Rows(kind, FEED, ["extra", "dateTime"])
    assert some(numbers).equals(rows(numbers).select(["extra", "dateTime"]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_goes_on_where_another_was(kind: str) -> None:
    count = KINDS[kind].count(FEED.events)
    source = generated(Rows(kind, FEED), count, None)
    splits = list(source.create_enumerator(2).discover())
    found = []
    for split in splits:
        before = source.open_split(split, None, SystemClock())
        first = before.poll(100)
        after = source.open_split(split, before.position(), SystemClock())
        found += [first.columns, after.poll(10**6).columns]
    assert sorted(pa.Table.from_batches(found)["dateTime"].to_pylist()) == sorted(
        table(kind, FEED)["dateTime"].to_pylist()
    )
    assert sum(len(part) for part in found) == count


def test_kinds_take_turns() -> None:
    for events in (0, 1, 3, 4, 5, 49, 50, 53, 100, 117):
        numbers = [kind.numbers(np.arange(kind.count(events))).tolist() for kind in KINDS.values()]
        assert sorted(itertools.chain(*numbers)) == list(range(events))
    people, items, bids = (table(kind, FEED) for kind in KINDS)
    assert (len(people), len(items), len(bids)) == (600, 1800, 27_600)
    assert people["id"].to_pylist() == list(range(1000, 1600))
    assert items["id"].to_pylist() == list(range(1000, 2800))


def duck(kind: str, feed: Feed) -> pa.Table:
    formulas = Formulas(feed, "//", "make_timestamp_ms({})")
    chosen = ", ".join(f'{text} AS "{name}"' for name, text in formulas.columns(kind).items())
    places = f"range({KINDS[kind].count(feed.events)}) AS p(place)"
    numbers = f"SELECT {formulas.numbers(kind, 'place')} AS n FROM {places}"
    with duckdb.connect(config={"threads": 1}) as db:
        found = db.sql(f"SELECT {chosen} FROM (SELECT n, n // 50 AS r FROM ({numbers})) ORDER BY n")
        return found.to_arrow_table().cast(KINDS[kind].schema)


@pytest.mark.parametrize("kind", KINDS)
def test_sql_makes_the_same_events(kind: str) -> None:
    """What another engine computes of the formulas is what NumPy computes."""
    assert duck(kind, FEED).equals(table(kind, FEED).combine_chunks())


def share(mask: Any) -> float:
    return float(pc.mean(pc.cast(mask, pa.float64())).as_py())


def test_bids_are_spread_as_they_should_be() -> None:
    bids = table("bid", Feed(events=500_000))
    hot = pc.is_in(bids["channel"], pa.array(["Google", "Facebook", "Baidu", "Apple"]))
    assert share(hot) == pytest.approx(0.5, abs=0.01)
    assert len(pc.unique(bids["channel"])) == 10_004
    assert share(pc.match_substring(bids["url"], "channel_id=")) == pytest.approx(0.45, abs=0.01)
    auction, bidder = bids["auction"].to_numpy(), bids["bidder"].to_numpy()
    assert np.mean(auction % 100 == 0) == pytest.approx(0.5, abs=0.01)
    assert np.mean(bidder % 100 == 1) == pytest.approx(0.75, abs=0.01)
    digits = np.log10(bids["price"].to_numpy()).astype(int)
    assert np.bincount(digits).tolist()[:2] == [0, 0]
    assert np.bincount(digits)[2:] / len(digits) == pytest.approx(np.full(6, 1 / 6), abs=0.01)
    assert min(np.diff(bids["dateTime"].to_numpy().astype(np.int64))) == 0


def test_draws_do_not_follow_each_other() -> None:
    numbers = np.arange(1 << 17, dtype=np.uint32)
    fields = [Draw(name).below(numbers, 16) for name in ("a", "b", "bid.price", "bid.auction")]
    beside = [one * 16 + other for one, other in itertools.combinations(fields, 2)]
    behind = [field[:-1] * 16 + field[1:] for field in fields]
    counts = np.array([np.bincount(pairs, minlength=256) for pairs in beside + behind])
    assert counts.shape == (10, 256) and np.abs(counts / 512 - 1).max() < 0.35
