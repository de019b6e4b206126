"""Signed snapshots: where a key is set, nothing is restored that was not signed with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from snap_fixtures import make_manifest

from penstock.common import Configuration, WatermarkStrategy
from penstock.coordinator.running_job import RunningJob
from penstock.core.errors import ConfigError, SnapshotError
from penstock.core.handles import digest
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.snapshot.decode import from_json
from penstock.snapshot.recovery import read_manifest, signing_of
from penstock.snapshot.signing import KEY_VARIABLE, UNSIGNED, Signing
from penstock.snapshot.strict_json import canonical
from penstock.snapshot.verification import check_snapshot
from penstock.storage.own_files import read_key
from penstock.testing.local import local_cluster
from penstock.testing.scripted_source import Pause, cued_source
from tests.integration.local_jobs import until
from tests.patience import PATIENCE_S

MINE, OTHER = Signing(b"m" * 32), Signing(b"o" * 32)
PLAIN = make_manifest(1).to_json()


def test_a_signed_manifest_is_read_as_it_was() -> None:
    signed = MINE.signed(PLAIN)
    assert signed != PLAIN and from_json(signed) == from_json(PLAIN)
    MINE.check(signed, "it")
    UNSIGNED.check(signed, "it")
    assert MINE.signed(PLAIN) == signed, "a publication that is tried again writes the same bytes"


def test_without_a_key_nothing_changes() -> None:
    assert UNSIGNED.signed(PLAIN) == PLAIN
    UNSIGNED.check(PLAIN, "it")


def test_another_key_is_refused() -> None:
    with pytest.raises(SnapshotError, match="x/_metadata is signed with another key") as refused:
        MINE.check(OTHER.signed(PLAIN), "x/_metadata")
    assert "penstock.snapshots.key-file" in str(refused.value) and "\n" not in str(refused.value)


def test_one_without_a_signature_is_refused_unless_told_otherwise() -> None:
    with pytest.raises(SnapshotError, match="x/_metadata is not signed") as refused:
        MINE.check(PLAIN, "x/_metadata")
    assert "penstock.snapshots.unsigned-too" in str(refused.value)
    Signing(b"m" * 32, unsigned_too=True).check(PLAIN, "it")
    with pytest.raises(SnapshotError, match="another key"):
        Signing(b"m" * 32, unsigned_too=True).check(OTHER.signed(PLAIN), "it")


@pytest.mark.parametrize("field", json.loads(PLAIN))
def test_every_field_is_covered(field: str) -> None:
    document = json.loads(MINE.signed(PLAIN))
    document[field] = "changed"
    if field != "checksum":  # with a checksum that is right again
        body = {name: value for name, value in document.items() if name not in ("checksum", "signature")}
        document["checksum"] = digest(canonical(body))
    with pytest.raises(SnapshotError, match="signed with another key, or was changed"):
        MINE.check(canonical(document), "it")


@pytest.mark.parametrize("signature", [None, 1, [], "", "00" * 32, {"a": 1}])
def test_nonsense_for_a_signature_is_refused(signature: object) -> None:
    with pytest.raises(SnapshotError, match="not signed|another key"):
        MINE.check(canonical({**json.loads(PLAIN), "signature": signature}), "it")


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_bytes_that_are_no_manifest_are_not_signed(raw: bytes) -> None:
    with pytest.raises(SnapshotError, match="not signed"):
        MINE.check(raw, "it")


def test_the_key_is_not_shown() -> None:
    assert "mmm" not in repr(MINE) and "set" in repr(MINE)


# --- key files ------------------------------------------------------------------------------------


def key_file(place: Path, content: bytes = b"k" * 32, mode: int = 0o600) -> str:
    place.write_bytes(content)
    place.chmod(mode)
    return str(place)


def test_a_key_file_that_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = key_file(tmp_path / "key")
    assert read_key(path, "setting") == b"k" * 32
    assert signing_of(path, True) == Signing(b"k" * 32, True) and signing_of(None) == UNSIGNED
    monkeypatch.setenv(KEY_VARIABLE, path)
    assert signing_of(None) == Signing(b"k" * 32)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
def test_a_key_file_that_others_can_read(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match=r"the-setting: .* is not yours alone .*chmod 600"):
        read_key(key_file(tmp_path / "key", mode=mode), "the-setting")


def test_key_files_that_hold_no_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds 31 bytes, and a key has at least 32; make one with"):
        read_key(key_file(tmp_path / "key", b"k" * 31), "setting")
    with pytest.raises(ConfigError, match="cannot be read .*make one with"):
        read_key(str(tmp_path / "none"), "setting")


# --- jobs -----------------------------------------------------------------------------------------


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> object:
        self.seen.update((self.seen.value() or 0) + 1)
        yield self.seen.value()


def seen(job: RunningJob) -> float:
    """How many records the step with state has had."""
    metrics, subtasks = job.history.view().metrics, job.job.plan.vertices[1].subtasks()
    return sum(metrics.get(subtask, {}).get("numRecordsIn", 0) for subtask in subtasks)


def run(place: Path, key: str | None, start: str | None = None, **settings: str) -> str:
    """A job that is stopped with a savepoint when it has seen its records; where that is."""
    config = Configuration()
    config.set_string("execution.checkpointing.dir", str(place / "chk"))
    config.set_string("execution.checkpointing.interval", "1 h")
    for name, value in settings.items():
        config.set_string(f"penstock.snapshots.{name}", value)
    if key is not None:
        config.set_string("penstock.snapshots.key-file", key)
    if start is not None:
        config.set_string("execution.state-recovery.path", start)
    with local_cluster() as launcher:
        env = StreamExecutionEnvironment.get_execution_environment(config)
        numbers = cued_source([1, 2, 3, Pause(10**9)])
        source = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        source.key_by(lambda value: 0).process(Count()).uid("count").print().uid("out")
        client = env.execute_async("signed")
        if start is None:
            until(lambda: seen(launcher.jobs[-1]) == 3, "the records are counted")
        return client.stop_with_savepoint(False, str(place / "sp")).result(PATIENCE_S)


def test_a_job_signs_and_restores_only_what_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = key_file(tmp_path / "mine"), key_file(tmp_path / "other", b"o" * 32)
    plain, signed = run(tmp_path / "a", None), run(tmp_path / "b", mine)
    with pytest.raises(SnapshotError, match="is not signed"):
        run(tmp_path / "c", mine, plain)
    with pytest.raises(SnapshotError, match="signed with another key"):
        run(tmp_path / "c", other, signed)
    run(tmp_path / "d", mine, signed)
    run(tmp_path / "e", None, signed)
    run(tmp_path / "f", mine, plain, **{"unsigned-too": "true"})
    monkeypatch.setenv(KEY_VARIABLE, mine)
    assert read_manifest(signed).manifest.job_name == "signed"
    assert all(not file.problems for file in check_snapshot(signed))
    for path in (plain, run(tmp_path / "g", other)):
        with pytest.raises(SnapshotError, match="sign"):
            read_manifest(path)
        with pytest.raises(SnapshotError, match="sign"):
            list(check_snapshot(path))


def test_files_that_were_changed_do_not_fit_a_signed_manifest(tmp_path: Path) -> None:
    """The signature covers files by their checksums."""
    found = json.loads(
        Path(run(tmp_path, key_file(tmp_path / "key")).removeprefix("file://"), "_metadata").read_text()
    )
    assert found["signature"] and os.path.sep not in found["signature"]
    blobs = [
        piece["blob"] for operator in found["operators"] for s in operator["subtasks"] for piece in s["keyed"]
    ]
    assert blobs and all(len(blob["checksum"]) == 32 for blob in blobs)
