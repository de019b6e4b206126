"""DataFrames whose rows change, on the in-process cluster: what is left, how it changes, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock.dataframe as pf
from penstock.common import Configuration, RowKind
from penstock.connectors.builtin.discard import DiscardingSink
from penstock.connectors.builtin.driver_output import PrintSink
from penstock.core.changes import ChangeMode
from penstock.core.errors import ConfigError, PenstockError
from penstock.dataframe import DataFrame, Tumble, col
from penstock.dataframe.regular_join import regular_join
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment, _ported
from penstock.testing.local import local_cluster

NAN = float("nan")


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def bids(**more: Any) -> DataFrame:
    return pf.from_dict(
        {
            "auction": [1, 2, 1, 1, 2, 3],
            "bidder": ["ann", "bob", "bob", "ann", None, "cid"],
            "price": [10, 20, 30, 30, 5, 7],
            "ts": [1, 2, 3, 4, 5, 6],
        },
        **more,
    )


def in_order(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in frame.to_pylist()), key=repr)


def per_auction() -> DataFrame:
    return (
        bids()
        .group_by("auction")
        .agg(
            pf.count().alias("n"),
            (col("price").sum * 1.0 / col("price").count).alias("mean"),
            col("bidder").count.distinct.alias("bidders"),
            col("price").max.filter(col("bidder") == "ann").alias("ann"),
        )
    )


def test_groups_are_upserts_by_their_keys() -> None:
    found = per_auction()
    assert (found.changes, found.key) == (ChangeMode.UPSERT, ("auction",))
    assert found.columns == ["auction", "n", "mean", "bidders", "ann"]
    wanted = [(1, 3, 70 / 3, 2, 30), (2, 2, 12.5, 1, None), (3, 1, 7.0, 1, None)]
    assert in_order(found) == wanted
    assert found.to_arrow().schema == found.schema


def test_the_same_in_batch_mode() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    rows = bids(env=env).group_by("bidder").agg(col("price").sum.alias("s"))
    kinds = [kind for kind, _ in rows.iter_rows(include_row_kind=True)]
    assert kinds == [RowKind.INSERT] * 4
    assert in_order(rows) == [("ann", 40), ("bob", 50), ("cid", 7), (None, 5)]
    top = bids(env=env).top_n(1, col("price").desc(), "auction")
    assert in_order(top.select("auction", "price")) == [(1, 30), (2, 20), (3, 7)]


def test_groups_of_groups_take_back() -> None:
    sizes = (
        per_auction()
        .group_by("n")
        .agg(pf.count().alias("auctions"), col("mean").min.alias("least"), col("auction").max.alias("last"))
    )
    assert in_order(sizes) == [(1, 1, 7.0, 3), (2, 1, 12.5, 2), (3, 1, 70 / 3, 1)]
    everything = per_auction().agg(col("n").sum.alias("bids"), col("n").max.alias("most"))
    assert everything.key == () and everything.to_pylist() == [{"bids": 6, "most": 3}]


def test_how_rows_change() -> None:
    parts = [pf.from_dict({"k": ["a"], "v": [number]}) for number in (1, 5, 5)]
    frame = parts[0].union(*parts[1:]).group_by("k").agg(col("v").sum.alias("s"))
    changes = list(frame.iter_rows(include_row_kind=True))
    net: dict[Any, int] = {}
    for kind, row in changes:
        added = kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        net[row["s"]] = net.get(row["s"], 0) + (1 if added else -1)
    assert changes[0][0] is RowKind.INSERT
    assert {total: count for total, count in net.items() if count} == {11: 1}
    rows = list(frame.to_changelog_stream().execute_and_collect())
    assert rows[0].get_row_kind() is RowKind.INSERT and rows[0].k == "a"
    upserts = list(frame.to_changelog_stream(upsert=True).execute_and_collect())
    assert RowKind.UPDATE_BEFORE not in {row.get_row_kind() for row in upserts}
    assert upserts[-1].s == 11


def test_filters_and_columns_of_changing_rows() -> None:
    found = per_auction()
    many = found.filter(col("n") > 1).select((col("auction") + 0).alias("plus"), "auction", "n")
    assert (many.changes, many.key) == (ChangeMode.UPSERT, ("auction",))
    assert in_order(many) == [(1, 1, 3), (2, 2, 2)]
    few = found.filter(col("n") < 3).rename({"auction": "id"})
    assert few.key == ("id",) and [row["id"] for row in few.to_pylist()] in ([2, 3], [3, 2])
    without = found.filter(col("auction") != 3).drop("auction")
    assert (without.changes, without.key) == (ChangeMode.RETRACT, ())
    assert in_order(without.select("n")) == [(2,), (3,)]
    both = found.select("auction", "n").union(pf.from_dict({"auction": [9], "n": [9]}))
    assert both.changes is ChangeMode.RETRACT and in_order(both)[-1] == (9, 9)


def test_first_and_last_rows() -> None:
    first = bids(time="ts").drop_duplicates("auction")
    assert first.changes is ChangeMode.APPEND and first.has_event_time
    assert sorted(row["auction"] for row in first.to_pylist()) == [1, 2, 3]
    last = bids().drop_duplicates("auction", keep="last", order_by="ts").select("auction", "ts")
    assert (last.changes, last.key) == (ChangeMode.UPSERT, ("auction",))
    assert in_order(last) == [(1, 4), (2, 5), (3, 6)]
    dearest = bids().drop_duplicates("auction", order_by=col("price").desc()).select("auction", "price")
    assert in_order(dearest) == [(1, 30), (2, 20), (3, 7)]
    assert len(bids().select("auction").drop_duplicates().to_pylist()) == 3


def test_top_rows() -> None:
    ranked = bids().top_n(2, [col("price").desc(), "ts"], "auction", rank="place")
    assert (ranked.changes, ranked.key) == (ChangeMode.UPSERT, ("auction", "place"))
    places = ranked.select("auction", "place", "ts")
    assert in_order(places) == [(1, 1, 3), (1, 2, 4), (2, 1, 2), (2, 2, 5), (3, 1, 6)]
    loose = bids().top_n(2, col("price") * -1).select("price")
    assert loose.changes is ChangeMode.RETRACT and in_order(loose) == [(30,), (30,)]
    best = per_auction().top_n(1, col("n").desc())
    assert best.key == () and [row["auction"] for row in best.to_pylist()] == [1]


def test_joins() -> None:
    names = pf.from_dict({"bidder": ["ann", "bob", "dan", None], "age": [30, 40, 50, 60]})
    joined = regular_join(bids().select("bidder", "price"), names, "bidder", "inner")
    assert joined.changes is ChangeMode.APPEND
    assert in_order(joined) == [("ann", 10, 30), ("ann", 30, 30), ("bob", 20, 40), ("bob", 30, 40)]
    totals = bids().group_by("bidder").agg(col("price").sum.alias("total"))
    full = regular_join(totals, names, "bidder", "full")
    assert full.changes is ChangeMode.RETRACT
    wanted = [("ann", 40, 30), ("bob", 50, 40), ("cid", 7, None), ("dan", None, 50)]
    assert in_order(full) == [*wanted, (None, 5, None), (None, None, 60)]
    renamed = names.rename({"bidder": "name"})
    right = regular_join(totals, renamed, [("bidder", "name")], "right").filter(col("age") > 40)
    assert in_order(right) == [(None, None, "dan", 50), (None, None, None, 60)]
    assert in_order(regular_join(totals, names, "bidder", "anti")) == [("cid", 7), (None, 5)]


def test_a_few_changes() -> None:
    rows = per_auction().take(2)
    assert 1 <= len(rows) <= 2 and set(rows[0]) == set(per_auction().columns)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: bids().group_by("auktion"), "there is no column 'auktion'"),
        (lambda: bids().group_by("auction").agg(), "at least one aggregate"),
        (lambda: bids().group_by("auction").agg(col("price")), "is no aggregate"),
        (lambda: bids().group_by("auction").agg(col("bidder").sum), "cannot be summed"),
        (lambda: bids().agg(col("price").distinct), "is no aggregate, so it has no distinct"),
        (lambda: bids().agg(col("price").filter(col("price") > 1)), "is no aggregate, so it has no filter"),
        (lambda: bids().agg(pf.count().filter(col("price"))), "not true or false"),
        (lambda: bids().agg(pf.count().alias("n"), col("price").sum.alias("n")), "two columns of agg"),
        (
            lambda: bids(time="ts").over("auction").agg(col("price").count.distinct),
            "over has no distinct values",
        ),
        (lambda: pf.from_dict({"l": [[1]]}).group_by("l"), None),
        (lambda: per_auction().window(Tumble("1 s")), "window takes rows that stay"),
        (
            lambda: per_auction().map_batches(lambda batch: batch, pa.schema({})),
            "map_batches takes rows that stay",
        ),
        (lambda: per_auction().to_data_stream(), "to_changelog_stream()"),
        (lambda: per_auction().iter_rows(), "include_row_kind=True"),
        (lambda: bids().to_changelog_stream(upsert=True), "not replaced by a key"),
        (lambda: per_auction().sink_to(Keyed(())), "Keyed adds rows only"),
        (lambda: per_auction().sink_to(Keyed(("other",))), "replaces rows by other"),
        (lambda: per_auction().drop("auction").sink_to(Keyed(("n",))), "by no key"),
        (lambda: bids().drop_duplicates("auction", keep="any"), "'first' or the 'last'"),
        (lambda: bids().top_n(0, "price"), "from 1 to"),
        (lambda: bids().top_n(1, []), "to order by"),
        (lambda: bids().top_n(1, "price", rank="ts"), "column 'ts' already"),
        (lambda: regular_join(bids(), bids(), "auction", "cross"), "join knows inner"),
        (lambda: regular_join(bids(), bids(), "auction", "inner"), "both sides of the join have a column"),
        (lambda: regular_join(bids(), bids(), [], "inner"), "columns that are equal"),
        (lambda: regular_join(bids(), bids(), [("auction", "bidder")], "semi"), "cast one of them"),
        (lambda: regular_join(bids(), bids(), "auction", "left", "1 min"), "both sides"),
        (lambda: regular_join(bids(), bids(), "auction", "anti", "1 min"), "only forgotten"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], told: str | None) -> None:
    if told is None:
        made, told = make(), "cannot be compared"
        with pytest.raises(ConfigError, match=told):
            made.agg(pf.count())
        return
    with pytest.raises(PenstockError, match=told.replace("(", r"\(").replace(")", r"\)")):
        make()


class Keyed(DiscardingSink):
    takes_changes = False

    def __init__(self, key: tuple[str, ...]) -> None:
        self._key = key

    @property
    def upsert_key(self) -> tuple[str, ...]:
        return self._key


def test_sinks_that_replace_rows_take_changes(capsys: pytest.CaptureFixture[str]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    per_auction().sink_to(Keyed(("auction",)), env)
    per_auction().select("auction").sink_to(PrintSink(), env)
    bids().sink_to(Keyed(()), env)
    env.execute("sinks")
    lines = {line.partition("> ")[2] for line in capsys.readouterr().out.splitlines()}
    assert {"Row(auction=1)", "Row(auction=2)", "Row(auction=3)"} <= lines


@pytest.mark.parametrize(("backend", "told"), [("rocksdb", True), ("hashmap", False)])
def test_a_job_on_rocksdb_says_what_stays_in_memory(
    backend: str, told: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ported, "_said", set())
    config = Configuration()
    config.set_string("state.backend.type", backend)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    windows = bids(time="ts").window(Tumble("1 s")).group_by("auction").agg(pf.count().alias("n"))
    for frame in (per_auction(), windows):
        frame.sink_to(Keyed(("auction",)), env)
    env.execute("backends")
    said = "RocksDB is not used by the steps 'Group Aggregate': results that change"
    assert (said in caplog.text) is told
