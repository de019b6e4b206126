"""Savepoints made without a job, and jobs that go on from them."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pyarrow as pa
import pytest
from click_job import COUNT, HOURS, TIMER, click, run_until, settings, start

from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import ClusterError, ConfigError, KeyError_, SnapshotError
from penstock.core.keygroups import hash_value
from penstock.core.row import Row
from penstock.operators.window.windows import TimeWindow
from penstock.state_processor import SavepointWriter, open_snapshot
from penstock.testing.local import local_cluster

CLICKS = [("ann", 1), ("bob", 2), ("ann", 3), ("dora", 4)]


def counts(**values):
    return pa.table({"key": list(values), "value": pa.array(values.values(), pa.int64())})


def as_dict(table):
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def goes_on(place, savepoint, clicks=CLICKS):
    """The results of the click job, started from a savepoint."""
    click(place, clicks)
    with local_cluster(slots=2):
        return run_until(place, start(place, settings(place, savepoint)), len(clicks))


@pytest.fixture
def existing(tmp_path):
    """The directory of the click job after it counted."""
    place = tmp_path / "first"
    click(place, CLICKS)
    with local_cluster(slots=2):
        run_until(place, start(place, settings(place)), len(CLICKS))
    return place


@pytest.mark.parametrize("key", ["count", COUNT], ids=["by name", "by descriptor"])
def test_a_job_counts_on_from_a_bootstrapped_savepoint(tmp_path, key):
    savepoint = SavepointWriter.new().with_operator("counting", {key: counts(ann=10, bob=20)})
    where = savepoint.write(str(tmp_path / "savepoint"))
    assert sorted(goes_on(tmp_path, where)) == ["ann 11", "ann 12", "bob 21", "dora 1"]
    after = open_snapshot(str(tmp_path / "checkpoints" / job_directory("click job"))).read(
        "counting", "count"
    )
    assert as_dict(after) == {"ann": 12, "bob": 21, "dora": 1}


class RemoteFrame:
    """A DataFrame of Spark Connect, as far as it is looked at."""

    __module__ = "pyspark.sql.connect.dataframe"


def test_frames_of_connect_are_refused_with_the_way_out(tmp_path):
    existing = SavepointWriter.new().with_operator("counting", {"count": counts(ann=1)})
    where = existing.write(str(tmp_path / "savepoint"))
    for tried in (
        lambda: SavepointWriter.new().with_operator("counting", {"count": RemoteFrame()}),
        lambda: SavepointWriter.new().with_timers("counting", RemoteFrame()),
        lambda: SavepointWriter.from_existing(where).change("counting", "count", RemoteFrame()),
    ):
        with pytest.raises(ClusterError, match=r"'counting'.*Spark Connect.*frame\.toArrow\(\)"):
            tried()


def test_every_kind_of_rows(tmp_path):
    frame = pd.DataFrame({"key": ["a", "b"], "value": [1, 2]})
    pairs = [(("a", 1), {"any": "object"}), (("b", 2), TimeWindow(0, 5))]
    structs = pa.table({"key": [{"x": 1, "y": "a"}], "value": [{"name": "n", "size": 3}]})
    windows = pa.table({"key": ["a"], "namespace": [{"start": 0, "end": 10}], "value": [1.5]})
    states = {"pandas": frame, "pairs": pairs, "structs": structs, "windows": windows}
    where = SavepointWriter.new(16).with_operator("op", states, parallelism=3).write(str(tmp_path / "s"))
    snapshot = open_snapshot(where, trusted=True)
    assert as_dict(snapshot.read("op", "pandas")) == {"a": 1, "b": 2}
    assert snapshot.read("op", "pairs").schema.field("value").type == pa.string()
    assert snapshot.read("op", "structs").to_pylist() == [
        {"key": {"f0": 1, "f1": "a"}, "value": {"name": "n", "size": 3}}
    ]
    assert snapshot.read("op", "windows")["namespace"].to_pylist() == [{"start": 0, "end": 10}]
    assert snapshot.operator("op").max_parallelism == 16
    assert {row["subtask"] for row in snapshot.sizes().to_pylist()} <= {0, 1, 2}


def test_rows_are_where_the_job_looks_for_them(tmp_path):
    keys = [f"user {number}" for number in range(500)]
    rows = pa.table({"key": keys, "value": range(500)})
    where = SavepointWriter.new(64).with_operator("op", {"s": rows}, parallelism=4).write(str(tmp_path / "s"))
    snapshot = open_snapshot(where)
    for found in snapshot.survey(snapshot.operator("op")):
        first, last = found.handle.key_groups
        scan = snapshot.scan("op", "s")
        (piece,) = [piece for piece in scan.pieces if piece.handle == found.handle]
        held = [key for batch in scan.batches(snapshot.store, piece) for key in batch["key"].to_pylist()]
        assert held and all(first <= hash_value(key) % 64 <= last for key in held)
    assert snapshot.read("op", "s").num_rows == 500


def test_declared_types_are_stored_and_not_pickled(tmp_path):
    kind = pa.map_(pa.int64(), pa.int64())
    rows = pa.table({"key": ["ann"], "value": pa.array([[(1, 2), (3, 4)]], kind)})
    where = SavepointWriter.new().with_operator("counting", {HOURS: rows}).write(str(tmp_path / "s"))
    assert dict(as_dict(open_snapshot(where).read("counting", "hours"))["ann"]) == {1: 2, 3: 4}
    goes_on(tmp_path, where, [("ann", 3)])
    after = open_snapshot(str(tmp_path / "checkpoints" / job_directory("click job"))).read(
        "counting", "hours"
    )
    assert dict(as_dict(after)["ann"]) == {1: 2, 3: 5}
    text = pa.table({"key": ["ann"], "value": ["no map"]})
    wrong = SavepointWriter.new().with_operator("counting", {HOURS: text})
    with pytest.raises(SnapshotError, match="descriptor declares"):
        wrong.write(str(tmp_path / "wrong"))


def test_timers_fire_where_they_were_put(tmp_path):
    timers = pa.table({"time": [TIMER], "key": ["ann"]})
    writer = SavepointWriter.new().with_operator("counting", {"count": counts(ann=1)})
    where = writer.with_timers("counting", timers).write(str(tmp_path / "s"))
    assert open_snapshot(where).timers("counting").to_pylist() == [
        {"domain": "event", "time": TIMER, "key": "ann", "namespace": None}
    ]
    goes_on(tmp_path, where, [("ann", 3)])
    after = open_snapshot(str(tmp_path / "checkpoints" / job_directory("click job"))).timers("counting")
    assert sorted(after["time"].to_pylist()) == [TIMER, TIMER + 3]


def test_an_existing_snapshot_is_changed(existing, tmp_path):
    job = str(existing / "checkpoints" / job_directory("click job"))
    writer = SavepointWriter.from_existing(job).change("counting", "count", lambda key, value: value * 100)
    where = writer.write(str(tmp_path / "s"))
    assert as_dict(open_snapshot(where).read("counting", "count")) == {"ann": 200, "bob": 100, "dora": 100}
    assert as_dict(open_snapshot(job).read("counting", "count")) == Counter(user for user, _ in CLICKS)
    untouched = ("hours", "_timers/event")
    for state in untouched:
        before, after = open_snapshot(job).states("counting"), open_snapshot(where).states("counting")
        assert [r for r in before.to_pylist() if r["state"] == state] == [
            r for r in after.to_pylist() if r["state"] == state
        ]


def test_a_changed_snapshot_is_started_from(existing, tmp_path):
    job = str(existing / "checkpoints" / job_directory("click job"))
    rows = counts(ann=1000)
    where = SavepointWriter.from_existing(job).change("counting", "count", rows).write(str(tmp_path / "s"))
    click(existing, [("ann", 5), ("bob", 6)])
    (existing / "checkpoints").rename(tmp_path / "gone")
    with local_cluster(slots=1):
        results = run_until(existing, start(existing, settings(existing, where)), len(CLICKS) + 2)
    assert sorted(results[len(CLICKS) :]) == ["ann 1001", "bob 1"]


def test_keys_and_operators_are_removed(existing, tmp_path):
    job = str(existing / "checkpoints" / job_directory("click job"))
    with pytest.raises(SnapshotError, match="trusted=True"):
        SavepointWriter.from_existing(job).delete_keys("counting", ["ann"]).write(str(tmp_path / "no"))
    writer = SavepointWriter.from_existing(job, trusted=True).delete_keys("counting", ["ann"])
    snapshot = open_snapshot(writer.write(str(tmp_path / "s")), trusted=True)
    assert sorted(snapshot.keys("counting")["key"].to_pylist()) == ["bob", "dora"]
    assert set(snapshot.timers("counting")["key"].to_pylist()) == {"bob", "dora"}
    assert sorted(snapshot.read("counting", "seen")["key"].to_pylist()) == ["bob", "dora"]
    smaller = SavepointWriter.from_existing(job).remove_operator("counting").write(str(tmp_path / "t"))
    assert "counting" not in open_snapshot(smaller).operators()["operator"].to_pylist()


def test_a_savepoint_needs_nothing_else(existing, tmp_path):
    where = tmp_path / "s"
    SavepointWriter.from_existing(str(existing / "checkpoints" / job_directory("click job"))).write(
        str(where)
    )
    (existing / "checkpoints").rename(tmp_path / "gone")
    moved = where.rename(tmp_path / "moved")
    snapshot = open_snapshot(str(moved), trusted=True)
    assert as_dict(snapshot.read("counting", "count")) == {"ann": 2, "bob": 1, "dora": 1}
    assert snapshot.read("clicks", "_enumerator").num_rows == 1


def test_mistakes_are_told(tmp_path, existing):
    new = SavepointWriter.new
    twice = pa.table({"key": ["a", "a"], "value": [1, 2]})
    with pytest.raises(SnapshotError, match="'a' comes twice"):
        new().with_operator("op", {"s": twice}).write(str(tmp_path / "1"))
    with pytest.raises(SnapshotError, match="no value"):
        new().with_operator("op", {"s": pa.table({"key": ["a"], "value": [None]})}).write(str(tmp_path / "2"))
    with pytest.raises(KeyError_):
        new().with_operator("op", {"s": [(None, 1)]}).write(str(tmp_path / "3"))
    with pytest.raises(SnapshotError, match="key and value"):
        new().with_operator("op", {"s": pa.table({"user": ["a"]})}).write(str(tmp_path / "4"))
    with pytest.raises(SnapshotError, match="already has a state"):
        new().with_operator("op", {"s": twice}).with_operator("op", {"s": twice})
    with pytest.raises(SnapshotError, match="no operator 'nobody'"):
        new().change("nobody", "s", twice)
    with pytest.raises(ConfigError):
        new(40_000).with_operator("op", {})
    base = SavepointWriter.from_existing(str(existing / "checkpoints" / job_directory("click job")))
    with pytest.raises(SnapshotError, match=r"it has count, hours"):
        base.change("counting", "nothing", twice)
    written = new().with_operator("op", {"s": counts(a=1)})
    written.write(str(tmp_path / "5"))
    with pytest.raises(SnapshotError, match="already holds a savepoint"):
        written.write(str(tmp_path / "5"))
    assert not (tmp_path / "1" / "_metadata").exists()


def test_rows_in_values_come_back_as_rows(tmp_path):
    rows = pa.table({"key": [1], "value": [{"name": "n", "size": 3}]})
    where = SavepointWriter.new().with_operator("op", {"s": rows}).write(str(tmp_path / "s"))
    seen = []
    writer = SavepointWriter.from_existing(where, trusted=True)
    writer.change("op", "s", lambda key, value: seen.append((key, value))).write(str(tmp_path / "t"))
    assert seen == [(1, Row(name="n", size=3))]
    assert open_snapshot(str(tmp_path / "t")).states("op").num_rows == 0


def test_values_must_be_what_the_descriptor_declares(tmp_path):
    for rows in ([("ann", "one")], pa.table({"key": ["ann"], "value": ["one"]})):
        writer = SavepointWriter.new().with_operator("counting", {COUNT: rows})
        with pytest.raises(SnapshotError, match="'one' cannot be what its descriptor declares, LONG"):
            writer.write(str(tmp_path / "s"))


def test_what_is_not_ours_stays(tmp_path):
    """A failed attempt is cleaned up by the next one; other files in the directory are not touched."""
    place = tmp_path / "s" / "state"
    place.mkdir(parents=True)
    (place / "mine.state").write_text("keep")
    twice = pa.table({"key": ["a", "a"], "value": [1, 2]})
    with pytest.raises(SnapshotError):
        SavepointWriter.new().with_operator("op", {"ok": counts(a=1), "s": twice}).write(str(tmp_path / "s"))
    assert len(list(place.iterdir())) == 2
    SavepointWriter.new().with_operator("op", {"ok": counts(a=1)}).write(str(tmp_path / "s"))
    assert len(list(place.iterdir())) == 2 and (place / "mine.state").exists()
