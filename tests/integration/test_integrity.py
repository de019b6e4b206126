"""Damaged snapshots: found out, gone back from loudly, never restored."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import Pace, log_sink, read_log
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from local_jobs import Stoppable, environment, finish, kill_slot, until

from penstock.common import Types, WatermarkStrategy
from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import JobFailedError, SnapshotError
from penstock.core.handles import Blob
from penstock.datastream import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.snapshot.recovery import Found, latest_valid
from penstock.snapshot.storage import SnapshotStore
from penstock.snapshot.store import open_store
from penstock.snapshot.verification import check_snapshot
from penstock.testing.local import LocalLauncher, local_cluster

COUNT = 900
KEYS = 7
NO_SHRINKING = (Phase.explicit, Phase.generate)


class Running(KeyedProcessFunction):
    """Key, how many of it were seen, and their sum: one line per record, the last per key is the truth."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        seen, total = self._sum.value() or (0, 0)
        self._sum.update((seen + 1, total + value))
        yield f"{value % KEYS} {seen + 1} {total + value}"


class Remembers(MapFunction):
    """Operator state, which the driver reads when it restores."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state = runtime_context.get_operator_list_state("seen")

    def map(self, value: int) -> int:
        self._state.update([value])
        return value


def start(place: Path, **more: str) -> Any:
    more.setdefault("execution__checkpointing__num_retained", "4")
    env = environment(
        place / "chk",
        execution__checkpointing__data_inline_threshold="0 b",
        execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
        **more,
    ).set_parallelism(2)
    source = Pace(2500.0, place / "gate").source(lambda i: i, COUNT)
    numbers = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .set_parallelism(1)
    )
    mapped = numbers.map(Remembers()).uid("remembers").set_parallelism(1).key_by(lambda value: value % KEYS)
    mapped.process(Running()).uid("sum").sink_to(log_sink(place / "out")).uid("out")
    return env.execute_async("integrity")


def expected() -> list[str]:
    lines = []
    for key in range(KEYS):
        values = range(key, COUNT, KEYS)
        lines += [f"{key} {n + 1} {sum(values[: n + 1])}" for n in range(len(values))]
    return sorted(lines)


def wait_for(launcher: LocalLauncher, count: int) -> None:
    until(lambda: launcher.jobs[-1].facts()["checkpoints"] >= count, f"{count} snapshots are published")


def state_files(found: Found) -> dict[str, list[Blob]]:
    files: dict[str, list[Blob]] = {}
    for blob in found.manifest.blobs():
        if blob.path is not None:
            files.setdefault(blob.path, []).append(blob)
    return files


def newest(root: Path) -> Found:
    found = latest_valid(SnapshotStore(str(root)))
    assert found is not None
    return found


def flip(file: Path, offset: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 1 << bit
    file.write_bytes(bytes(data))


def stopped_job(place: Path) -> Path:
    """A job in the middle of its work, cancelled, with checkpoints kept; the job's directory."""
    with local_cluster() as launcher:
        client = start(place)
        wait_for(launcher, 6)
        until(lambda: len(read_log(place / "out")) > 100, "output is committed")
        client.cancel().result()
    return place / "chk" / job_directory("integrity")


# --- going back ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["keyed", "lists"])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(
    part: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """State is exact; output committed since is repeated with the same contents, and the log says so."""
    root = stopped_job(tmp_path)
    found = newest(root)
    states = [entry.state for operator in found.manifest.operators for entry in operator.subtasks]
    blobs = (
        [state.lists for state in states] if part == "lists" else [h.blob for s in states for h in s.keyed]
    )
    for blob in blobs:
        if blob is not None and blob.path is not None:
            flip(root / blob.path, blob.offset + blob.length // 2)
    (tmp_path / "gate").touch()
    with caplog.at_level(logging.WARNING), local_cluster() as launcher:
        client = start(tmp_path)
        finish(client)
        restored = launcher.jobs[-1].coordinator._restored
    assert restored is not None and restored.epoch < found.manifest.epoch
    assert f"SNAPSHOT {found.manifest.epoch} IS NOT USED" in caplog.text
    assert f"GOES BACK TO SNAPSHOT {restored.epoch}" in caplog.text
    assert "IS PRODUCED AGAIN" in caplog.text
    lines = read_log(tmp_path / "out")
    assert sorted(set(lines)) == expected(), "seen idempotently, the output is exact"


def test_a_running_job_that_crashes_falls_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Stoppable()
    with caplog.at_level(logging.WARNING), local_cluster(clock=clock) as launcher:
        client = start(tmp_path)
        wait_for(launcher, 3)
        root = tmp_path / "chk" / job_directory("integrity")
        with clock.stopped():
            until(lambda: not launcher.jobs[-1].coordinator.checkpoints.pending(), "no snapshot is under way")
            found = newest(root)
            for path, blobs in state_files(found).items():
                flip(root / path, blobs[0].offset)
            kill_slot(launcher)
        (tmp_path / "gate").touch()
        finish(client)
    assert f"SNAPSHOT {found.manifest.epoch} IS NOT USED" in caplog.text
    assert sorted(set(read_log(tmp_path / "out"))) == expected()


def test_a_job_whose_every_checkpoint_is_damaged_does_not_start(tmp_path: Path) -> None:
    root = stopped_job(tmp_path)
    for file in root.glob("chk-*/*.state"):
        flip(file, 0)
    with local_cluster(), pytest.raises(JobFailedError, match="none of the 4 snapshots"):
        finish(start(tmp_path))


def test_a_journal_without_a_readable_entry_is_no_reason_to_start_from_nothing(tmp_path: Path) -> None:
    root = stopped_job(tmp_path)
    for file in (root / "journal").iterdir():
        flip(file, file.stat().st_size // 2)
    with pytest.raises(SnapshotError, match="may have announced a snapshot"):
        latest_valid(SnapshotStore(str(root)))


# --- a flipped bit anywhere ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_job(tmp_path_factory.mktemp("whole"))


def test_a_whole_job_is_found_whole(whole: Path) -> None:
    checked = list(check_snapshot(str(whole)))
    names = [Path(file.name).name for file in checked]
    assert "_metadata" in names and any(name.endswith(".state") for name in names)
    assert not [file for file in checked if file.problems]
    covered = {Path(file.name.removeprefix("file://")) for file in checked}
    manifests = {path for path in whole.glob("chk-*/_metadata")}
    beside = {path for path in whole.rglob("*.state") if path.parent / "_metadata" in manifests}
    assert covered == manifests | beside | set((whole / "journal").iterdir()), "every file is read"


@settings(
    max_examples=60,
    phases=NO_SHRINKING,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_flipped_bit_is_never_restored(
    data: st.DataObject, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Verification reports it; recovery gives the true newest snapshot, or goes back aloud, or refuses."""
    parts = sorted({part.name.removeprefix("file://") for part in check_snapshot(str(whole))})
    file = Path(data.draw(st.sampled_from(parts)))
    offset = data.draw(st.integers(0, file.stat().st_size - 1))
    bit = data.draw(st.integers(0, 7))
    before, true = file.read_bytes(), newest(whole)
    caplog.clear()
    flip(file, offset, bit)
    try:
        assert [part for part in check_snapshot(str(whole)) if part.problems], "verification reports it"
        try:
            found = latest_valid(SnapshotStore(str(whole)), checksums=True)
        except SnapshotError:
            return
        assert found is not None
        assert found == true or "GOES BACK TO SNAPSHOT" in caplog.text
        store = open_store(found.location.root, create=False)
        for blob in found.manifest.blobs():
            store.read_blob(blob)
    finally:
        file.write_bytes(before)


@settings(
    max_examples=8,
    phases=NO_SHRINKING,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_job_restored_from_a_damaged_directory_is_exact_or_refused(
    data: st.DataObject, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("copy") / "place"
    shutil.copytree(whole.parent.parent, place)
    root = place / "chk" / job_directory("integrity")
    last = candidates_paths(root)
    file = data.draw(st.sampled_from(last))
    flip(
        root / file, data.draw(st.integers(0, (root / file).stat().st_size - 1)), data.draw(st.integers(0, 7))
    )
    (place / "gate").touch()
    with local_cluster():
        try:
            finish(start(place))
        except (JobFailedError, SnapshotError):
            return
    assert sorted(set(read_log(place / "out"))) == expected()


def candidates_paths(root: Path) -> list[str]:
    """Files of the newest checkpoint and of the journal."""
    found = newest(root)
    journal = [f"journal/{file.name}" for file in (root / "journal").iterdir()]
    return sorted([found.location.manifest, *state_files(found), *journal])
