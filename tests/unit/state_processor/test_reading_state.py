"""Snapshots as Arrow tables, without Spark."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from click_job import HOUR, TIMER, click, run_until, settings, start

from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.state_processor import open_snapshot
from penstock.testing.local import local_cluster

CLICKS = [(user, hour) for hour in (100, 200, 1100) for user in ("ann", "bob", "ann", "cy")]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The job's directory, after it has counted and was cancelled."""
    place = tmp_path_factory.mktemp("clicks")
    click(place, CLICKS)
    with local_cluster(slots=2):
        run_until(place, start(place, settings(place), windows=True), len(CLICKS))
    return str(place / "checkpoints" / job_directory("click job"))


def as_dict(table):
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_operators_and_states_are_listed(job):
    snapshot = open_snapshot(job)
    operators = {row["operator"]: row for row in snapshot.operators().to_pylist()}
    assert {"clicks", "counting", "rows", "columns"} <= set(operators)
    counting = operators["counting"]
    assert counting["name"] == "counting clicks" and counting["uid"] == "counting"
    assert counting["parallelism"] == 2 and counting["bytes"] > 0 and counting["pickled"]
    states = {row["state"]: row for row in snapshot.states("counting").to_pylist()}
    assert set(states) == {"count", "hours", "seen", "_timers/event"}
    assert states["count"]["entries"] == 3 and states["count"]["kind"] == "keyed"
    assert states["count"]["pickled"] == [] and states["seen"]["pickled"] == ["value"]
    assert states["_timers/event"]["entries"] == 9 and states["_timers/event"]["kind"] == "timers"
    everything = snapshot.states().to_pylist()
    assert {row["kind"] for row in everything} >= {"keyed", "timers", "columns", "list", "keyed, per window"}


def test_typed_state_is_read_without_trust(job):
    snapshot = open_snapshot(job)
    counts = snapshot.read("counting", "count")
    assert counts.schema == pa.schema([("key", pa.string()), ("value", pa.int64())])
    assert as_dict(counts) == Counter(user for user, _ in CLICKS)


def test_map_state_is_a_map(job):
    hours = open_snapshot(job).read("counting", "hours")
    assert hours.schema.field("value").type == pa.map_(pa.int64(), pa.int64())
    assert dict(as_dict(hours)["ann"]) == {100: 2, 200: 2, 1100: 2}


def test_pickled_state_needs_trust(job):
    with pytest.raises(SnapshotError, match="trusted=True"):
        open_snapshot(job).read("counting", "seen")
    seen = open_snapshot(job, trusted=True).read("counting", "seen")
    fields = pa.struct([("f0", pa.int64()), ("f1", pa.string())])
    assert seen.schema.field("value").type == pa.list_(fields)
    assert [item["f0"] for item in as_dict(seen)["cy"]] == [100, 200, 1100]


def test_timers(job):
    timers = open_snapshot(job).timers("counting")
    assert timers.column_names == ["domain", "time", "key", "namespace"]
    assert set(timers["domain"].to_pylist()) == {"event"}
    assert sorted(set(timers["time"].to_pylist())) == [TIMER + 100, TIMER + 200, TIMER + 1100]
    with pytest.raises(SnapshotError, match="no timers"):
        open_snapshot(job).timers("totals")


def test_windows_of_rows_show_their_bounds(job):
    rows = open_snapshot(job, trusted=True).read("rows", "_window/contents")
    assert rows.column_names == ["key", "namespace", "value"]
    windows = {(row["key"], row["namespace"]["start"]) for row in rows.to_pylist()}
    assert windows == {("ann", HOUR), ("bob", HOUR), ("cy", HOUR)}


def test_windows_of_columns_are_columns(job):
    partials = open_snapshot(job).read("columns", "window-partials")
    assert {"user", "__pane"} <= set(partials.column_names)
    assert set(partials["user"].to_pylist()) == {"ann", "bob", "cy"}


def test_operator_state_and_enumerators_need_trust(job):
    guarded = open_snapshot(job)
    lumps = {row["state"] for row in guarded.states("clicks").to_pylist()}
    assert "_operator-state" in lumps
    trusted = open_snapshot(job, trusted=True)
    names = [row["state"] for row in trusted.states("clicks").to_pylist()]
    assert "_operator-state" not in names
    for name in names:
        assert trusted.read("clicks", name).num_rows > 0
        with pytest.raises(SnapshotError, match="pickled"):
            guarded.read("clicks", name)


def test_keys_and_sizes(job):
    snapshot = open_snapshot(job)
    assert sorted(snapshot.keys("counting")["key"].to_pylist()) == ["ann", "bob", "cy"]
    assert sorted(snapshot.keys("counting", "seen")["key"].to_pylist()) == ["ann", "bob", "cy"]
    sizes = [row for row in snapshot.sizes().to_pylist() if row["operator"] == "counting"]
    assert {(row["first_key_group"], row["last_key_group"]) for row in sizes} <= {(0, 63), (64, 127)}
    listed = sum(row["entries"] for row in snapshot.states("counting").to_pylist())
    assert sum(row["entries"] for row in sizes) == listed


def test_names_that_are_not_there(job):
    snapshot = open_snapshot(job)
    with pytest.raises(SnapshotError, match="it has .*counting"):
        snapshot.read("nobody", "count")
    with pytest.raises(SnapshotError, match="it has count, hours"):
        snapshot.read("counting", "nothing")
    assert snapshot.operator("counting clicks").uid == "counting"


def test_damage_is_noticed(job, tmp_path):
    snapshot = open_snapshot(job)
    (handle,) = {found.handle.blob.path for found in snapshot.survey(snapshot.operator("counting"))[:1]}
    original = snapshot.store.read(handle)
    try:
        snapshot.store.write_file(handle, [bytes(len(original))])
        with pytest.raises(CorruptSnapshotError):
            open_snapshot(job).read("counting", "count")
    finally:
        snapshot.store.write_file(handle, [original])
