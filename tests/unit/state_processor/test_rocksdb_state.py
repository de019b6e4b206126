"""Checkpoints of the RocksDB backend as tables, and as the base of a savepoint."""

from __future__ import annotations

import pytest
from click_job import TIMER, click, run_until, settings, start

from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import SnapshotError
from penstock.core.handles import NativeHandle
from penstock.state_processor import SavepointWriter, open_snapshot
from penstock.state_processor.lookup import Limits, NotThere, TooMuch, listed, rows_of_key
from penstock.state_processor.snapshot import label
from penstock.testing.local import local_cluster

CLICKS = [("ann", 1), ("bob", 2), ("ann", 3), ("cy", 4)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where the click job counted with RocksDB."""
    place = tmp_path_factory.mktemp("rocks")
    click(place, CLICKS)
    with local_cluster(slots=2):
        config = settings(place, **{"state.backend.type": "rocksdb"})
        run_until(place, start(place, config), len(CLICKS))
    return place


def as_dict(table):
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_rows_are_read_from_its_files(place):
    job = str(place / "checkpoints" / job_directory("click job"))
    snapshot = open_snapshot(job)
    handles = [found.handle for found in snapshot.survey(snapshot.operator("counting"))]
    assert handles and all(isinstance(handle, NativeHandle) for handle in handles)
    assert as_dict(snapshot.read("counting", "count")) == {"ann": 2, "bob": 1, "cy": 1}
    assert sorted(snapshot.timers("counting")["time"].to_pylist()) == [TIMER + hour for _, hour in CLICKS]
    states = {row["state"]: row for row in snapshot.states("counting").to_pylist()}
    assert states["count"]["entries"] == 3 and states["count"]["pickled"] == []
    assert sorted(snapshot.keys("counting")["key"].to_pylist()) == ["ann", "bob", "cy"]


def looked_up(snapshot, state, key, most=1 << 20):
    limits = Limits(most, 100, lambda: False)
    return list(rows_of_key(snapshot.manifest, snapshot.store, "counting", state, key, limits))


def test_one_key_is_looked_up_in_its_files(place):
    snapshot = open_snapshot(str(place / "checkpoints" / job_directory("click job")), trusted=True)
    assert [row["value"] for row in looked_up(snapshot, "count", "ann")] == [2]
    assert [len(row["value"]) for row in looked_up(snapshot, "seen", "ann")] == [2]
    assert looked_up(snapshot, "count", "nobody") == []
    with pytest.raises(NotThere, match="no keyed state 'other'; it has .*count"):
        looked_up(snapshot, "other", "ann")
    with pytest.raises(TooMuch, match="more than may be read here"):
        looked_up(snapshot, "count", "ann", most=10)


def test_states_are_listed_by_name_where_its_files_are_small(place):
    snapshot = open_snapshot(str(place / "checkpoints" / job_directory("click job")))
    counting = snapshot.operator("counting")

    def rows(most):
        found = listed(snapshot.manifest, snapshot.store, Limits(most, 100, lambda: False))
        return [row for row in found if row["operator"] == label(counting)]

    assert {"count", "seen"} <= {row["state"] for row in rows(1 << 20)}
    (unopened,) = [row for row in rows(10) if "own backend" in row["kind"]]
    assert unopened["bytes"] > 10 and unopened["state"] == ""


def test_pickled_rows_need_trust(place):
    job = str(place / "checkpoints" / job_directory("click job"))
    with pytest.raises(SnapshotError, match="trusted=True"):
        open_snapshot(job).read("counting", "seen")
    seen = as_dict(open_snapshot(job, trusted=True).read("counting", "seen"))
    assert [item["f0"] for item in seen["ann"]] == [1, 3]


def test_a_savepoint_for_any_backend_comes_out_of_it(place, tmp_path):
    job = str(place / "checkpoints" / job_directory("click job"))
    with pytest.raises(SnapshotError, match="trusted=True"):
        SavepointWriter.from_existing(job).write(str(tmp_path / "no"))
    writer = SavepointWriter.from_existing(job, trusted=True).remove_operator("clicks")
    writer.change("counting", "count", lambda key, value: value + 100).remove_operator("totals")
    savepoint = writer.write(str(tmp_path / "savepoint"))
    assert dict(as_dict(open_snapshot(savepoint).read("counting", "hours"))["ann"]) == {1: 1, 3: 1}
    click(tmp_path, [("ann", 7), ("cy", 8)])
    with local_cluster(slots=1):
        results = run_until(tmp_path, start(tmp_path, settings(tmp_path, savepoint)), 2)
    assert sorted(results) == ["ann 103", "cy 102"]
