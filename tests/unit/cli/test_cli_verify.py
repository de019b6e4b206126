"""``penstock checkpoint verify``: every file is read, every damage reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.core.handles import Blob, KeyedHandle, OperatorSnapshot
from penstock.core.ids import Epoch, Generation, OperatorId, SubtaskIndex, VertexId
from penstock.core.signals import SnapshotKind
from penstock.snapshot.manifest import Manifest, OperatorEntry, SubtaskEntry
from penstock.snapshot.repository import Repository, write_savepoint
from penstock.snapshot.storage import SnapshotStore


def manifest_of(epoch: int, generation: int, kind: SnapshotKind, blobs: list[Blob]) -> Manifest:
    operator = OperatorId("op")
    keyed = tuple(KeyedHandle(blob, (0, 127), False) for blob in blobs)
    subtask = SubtaskEntry(SubtaskIndex(0), OperatorSnapshot(operator, keyed), False)
    entry = OperatorEntry(operator, "op", "Op", VertexId("v"), 1, 128, (subtask,))
    return Manifest("id", "job", Epoch(epoch), Generation(generation), kind, 0, (entry,), {}, (), "0")


def two_blobs(store: SnapshotStore, path: str) -> list[Blob]:
    whole = store.write_file(path, [b"first part ", b"second part"])
    assert whole.length == 22
    first, second = Blob.of(b"first part "), Blob.of(b"second part")
    return [Blob(11, first.checksum, path, 0), Blob(11, second.checksum, path, 11)]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Two published checkpoints of two files each."""
    repository = Repository(SnapshotStore(str(tmp_path)), "job")
    generation, _ = repository.claim()
    root = SnapshotStore(str(tmp_path / "job"))
    for epoch in (1, 2):
        blobs = two_blobs(root, f"chk-{epoch}/a.state") + two_blobs(root, f"chk-{epoch}/b.state")
        repository.publish(manifest_of(epoch, generation, SnapshotKind.CHECKPOINT, blobs))
    return tmp_path / "job"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    store = SnapshotStore(str(tmp_path / "savepoint-1"))
    write_savepoint(store, manifest_of(7, 1, SnapshotKind.SAVEPOINT, two_blobs(store, "a.state")))
    return tmp_path / "savepoint-1"


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["checkpoint", "verify", *map(str, arguments)])


def flip(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 4
    file.write_bytes(bytes(data))


def test_a_whole_job_is_verified_with_its_journal(job: Path) -> None:
    result = verify(job)
    assert result.exit_code == 0, result.output
    for name in ("journal/0000000001.json", "chk-1/_metadata", "chk-2/a.state", "chk-2/b.state"):
        assert f"/{name}\n" in result.output
    assert "9 files" in result.output and "checksums right" in result.output


@pytest.mark.parametrize("place", ["chk-2", "chk-2/_metadata"])
def test_one_checkpoint_is_verified_alone(job: Path, place: str) -> None:
    flip(job / "chk-1" / "a.state", 0)
    result = verify(job / place)
    assert result.exit_code == 0 and "chk-1" not in result.output and "3 files" in result.output


def test_every_damage_is_reported_and_the_status_is_1(job: Path) -> None:
    flip(job / "chk-2" / "a.state", 3)
    flip(job / "chk-2" / "a.state", 13)
    (job / "chk-2" / "b.state").unlink()
    flip(job / "chk-1" / "_metadata", 30)
    flip(job / "journal" / "0000000001.json", 10)
    result = verify(job, "--json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)
    damaged = {row["name"].rsplit("/job/")[1]: row["problems"] for row in rows if row["problems"]}
    assert set(damaged) == {"chk-2/a.state", "chk-2/b.state", "chk-1/_metadata", "journal/0000000001.json"}
    assert len(damaged["chk-2/a.state"]) == 2, "both parts of the file"
    assert "missing" in damaged["chk-2/b.state"][0]
    assert f"4 of {len(rows)} files are damaged" in result.stderr


def test_damage_is_named_in_the_plain_report(job: Path) -> None:
    flip(job / "chk-2" / "a.state", 3)
    result = verify(job / "chk-2")
    assert result.exit_code == 1
    (line,) = [line for line in result.output.splitlines() if line.startswith("DAMAGED")]
    assert line.endswith("chk-2/a.state") and "do not have checksum" in result.output


def test_a_savepoint_is_verified_also_after_it_was_moved(savepoint: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.move(savepoint, moved)
    assert verify(moved).exit_code == 0
    flip(moved / "a.state", 21)
    result = verify(moved / "_metadata")
    assert result.exit_code == 1 and "a.state is damaged" in result.output


def test_a_snapshot_of_a_newer_penstock_is_reported(savepoint: Path) -> None:
    raw = (savepoint / "_metadata").read_bytes()
    (savepoint / "_metadata").write_bytes(raw.replace(b'"format_version":', b'"format_version":9'))
    result = verify(savepoint)
    assert result.exit_code == 1 and "snapshot format 9" in result.output


def test_nothing_to_verify(tmp_path: Path) -> None:
    result = verify(tmp_path)
    assert result.exit_code == 1 and "there is no snapshot" in result.stderr
