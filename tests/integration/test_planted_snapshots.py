"""A snapshot that somebody has changed, with all its checksums right, runs nothing of theirs."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import Pace, log_sink
from local_jobs import NO_TIME, environment, finish, number_stream, until, wait_for_snapshots

from penstock.common import Configuration
from penstock.connectors.source import Split
from penstock.coordinator.job_directory import job_directory
from penstock.core.batch import Batch
from penstock.core.documents import MARK
from penstock.core.errors import ConfigError, JobFailedError, SnapshotError
from penstock.core.handles import Blob
from penstock.core.packed import pack
from penstock.core.plain_data import Codec
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.exchange.channel_state import encode
from penstock.snapshot.decode import from_json
from penstock.snapshot.manifest import sign
from penstock.snapshot.recovery import latest_valid
from penstock.snapshot.storage import SnapshotStore
from penstock.storage.own_files import write_file
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S


class Planted:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


class Keep(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        self.seen.update({value})
        yield value


def noted(file: Path, value: int) -> int:
    file.touch()
    return value


def start(place: Path, savepoint: str | None) -> Any:
    """A source that is held in the middle; there is a file ``kept`` beside ``place`` once there is state."""
    config = Configuration()
    config.set_string("execution.checkpointing.dir", str(place))
    config.set_string("execution.checkpointing.interval", "1 h")
    config.set_string("restart-strategy.type", "disable")
    if savepoint is not None:
        config.set_string("execution.state-recovery.path", savepoint)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    numbers = number_stream(env, 5, 1, gate=place.with_name("gate")).uid("in")
    kept = numbers.key_by(lambda value: 0).process(Keep()).uid("keep")
    kept.map(partial(noted, place.with_name("kept"))).uid("noted").print().uid("out")
    return env.execute_async("planted")


def stored(data: bytes) -> dict[str, Any]:
    blob = Blob.of(data)
    return {"length": blob.length, "checksum": blob.checksum, "inline": base64.b64encode(data).decode()}


def plant(document: dict[str, Any], where: str, evil: bytes) -> None:
    """Put a pickle where the snapshot has one, or could."""
    subtasks = [subtask for operator in document["operators"] for subtask in operator["subtasks"]]
    if where == "enumerator":
        document["enumerators"] = {name: stored(evil) for name in document["enumerators"]}
        assert document["enumerators"]
    elif where == "operator state":
        assert subtasks
        for subtask in subtasks:
            subtask["lists"] = stored(evil)
    else:
        pieces = [piece for subtask in subtasks for piece in subtask["keyed"]]
        assert pieces
        for piece in pieces:
            piece["pickled"] = True
            piece["blob"] = stored(with_pickle(base64.b64decode(piece["blob"]["inline"]), evil))


def with_pickle(block: bytes, evil: bytes) -> bytes:
    """The first block of keyed state with another pickle behind its columns."""
    head = int.from_bytes(block[:4], "little")
    header = json.loads(block[4 : 4 + head])
    body = block[12 + head : 12 + head + int.from_bytes(block[4 + head : 12 + head], "little")]
    assert header["pickled"] == ["value"]
    changed = json.dumps(header).encode()
    body = body[: header["arrow"]] + evil
    return len(changed).to_bytes(4, "little") + changed + len(body).to_bytes(8, "little") + body


@pytest.mark.parametrize("where", ["enumerator", "operator state", "keyed state"])
def test_what_was_planted_is_refused_by_name(where: str, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    with local_cluster():
        client = start(tmp_path / "chk", None)
        until((tmp_path / "kept").exists, "there is state")
        savepoint = client.stop_with_savepoint(False, str(tmp_path / "sp")).result(PATIENCE_S)
        file = Path(savepoint.removeprefix("file://")) / "_metadata"
        document = json.loads(file.read_text())
        plant(document, where, pickle.dumps(Planted(f"touch {proof}"), 5))
        file.write_bytes(sign(document))
        client = start(tmp_path / "other", savepoint)
        with pytest.raises(JobFailedError, match=r"names \w+\.system, which is no class of this program"):
            client.get_job_execution_result().result(PATIENCE_S)
    assert not proof.exists()


# --- checkpoints ----------------------------------------------------------------------------------


def job(place: Path, out: Path, start_from: str | None = None, **more: str) -> Any:
    """A source that is held in the middle, keyed state, and a sink that commits; unaligned checkpoints."""
    if start_from is not None:
        more["execution__state_recovery__path"] = start_from
    env = environment(
        place,
        execution__checkpointing__unaligned__enabled="true",
        execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
        restart_strategy__type="disable",
        **more,
    ).set_parallelism(1)
    gate = None if start_from is not None else out.with_name("gate")
    numbers = env.from_source(Pace(2500.0, gate).source(lambda i: i, 90_000), NO_TIME, "numbers").uid("in")
    kept = numbers.key_by(lambda value: value % 7).process(Keep()).uid("keep")
    kept.map(str).uid("text").sink_to(log_sink(out)).uid("out")
    return env.execute_async("planted")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpointed(tmp_path_factory.mktemp("planted"))


def checkpointed(place: Path, **more: str) -> Path:
    """The manifest of a retained checkpoint, before which the sink wrote something."""
    root = place / "chk" / job_directory("planted")
    with local_cluster() as launcher:
        client = job(place / "chk", place / "out", **more)
        wait_for_snapshots(launcher, 3)
        client.cancel().result()
    found = latest_valid(SnapshotStore(str(root)))
    assert found is not None
    manifest = Path(found.location.root.removeprefix("file://")) / found.location.manifest
    if from_json(manifest.read_bytes()).committables:
        return manifest
    for made in (place / "chk", place / "out"):  # no record came between two of them
        shutil.rmtree(made)
    return checkpointed(place, **more)


def evil_committables(document: dict[str, Any], evil: Planted) -> None:
    sinks = {item["operator_id"] for item in document["committables"]}
    assert len(sinks) == 1, "the sink has prepared something"
    payload = base64.b64encode(pickle.dumps(evil, 5)).decode()
    document["committables"] = [
        {"operator_id": sink, "epoch": document["epoch"], "subtask_index": 0, "payload": payload}
        for sink in sinks
    ]


def evil_records(document: dict[str, Any], evil: Planted) -> None:
    ids = {operator["uid"]: operator["operator_id"] for operator in document["operators"]}
    data = b"".join(encode([Batch(rows=[1, evil], keys=[1, 2])]))
    edge = f"{ids['in']}>{ids['keep']}/0.0"
    document["channels"] = [{"edge": edge, "sender": 0, "receiver": 0, "blob": stored(data)}]


def evil_splits(document: dict[str, Any], item: tuple[Any, ...]) -> None:
    source = next(operator for operator in document["operators"] if operator["uid"] == "in")
    assert source["subtasks"][0]["lists"]
    source["subtasks"][0]["lists"] = stored(pickle.dumps({"splits": ("union", [item])}, 5))


def evil_position(document: dict[str, Any], evil: Planted) -> None:
    evil_splits(document, (Split("0"), evil, False, 0, 1))


def evil_lot(document: dict[str, Any], evil: Planted) -> None:
    """Positions within a lot, which no driver opens: a slot does."""
    evil_splits(document, (None, pack([(Split("0"), evil, False, 0, 1)]), False, 0, 1))


@pytest.mark.parametrize("planted", [evil_committables, evil_records, evil_position, evil_lot])
def test_a_checkpoint_with_something_planted_names_itself_and_the_reason(
    planted: Callable[[dict[str, Any], Planted], None], checkpoint: Path, tmp_path: Path
) -> None:
    proof = tmp_path / "ran"
    shutil.copytree(checkpoint.parents[1], tmp_path / "copy")
    shutil.copytree(checkpoint.parents[3] / "out", tmp_path / "out")
    file = tmp_path / "copy" / checkpoint.parent.name / checkpoint.name
    document = json.loads(file.read_text())
    planted(document, Planted(f"touch {proof}"))
    file.write_bytes(sign(document))
    with local_cluster():
        client = job(tmp_path / "other", tmp_path / "out", str(file))
        with pytest.raises(
            JobFailedError, match=r"names \w+\.system, which is no class of this prog"
        ) as told:
            finish(client)
    assert not proof.exists()
    assert f"{tmp_path}/copy" in str(told.value), "which snapshot it was"
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("what", ["_metadata", "", "owner"])
def test_what_was_put_there_while_a_directory_was_open_is_not_restored(
    what: str, checkpoint: Path, tmp_path: Path
) -> None:
    """The directory was set right since, as the error says; what lies in it is as it was."""
    if what == "owner" and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    place = tmp_path / "chk"
    shutil.copytree(checkpoint.parents[2], place)
    planted = place / checkpoint.parents[1].name / checkpoint.parent.name / what.replace("owner", "_metadata")
    if what == "owner":
        os.chown(planted, 65534, -1)
    else:
        planted.chmod(0o777)
    with local_cluster(), pytest.raises(ConfigError, match=f"the snapshot in .* is not restored: {planted}"):
        job(place, tmp_path / "out")
    with local_cluster(), pytest.raises(ConfigError, match="is not restored"):
        job(tmp_path / "other", tmp_path / "out", str(place / checkpoint.parents[1].name))


def test_our_own_connectors_store_no_pickles(checkpoint: Path) -> None:
    """Splits, positions, what the enumerator remembers, committables: all of it is in the data format."""
    manifest = from_json(checkpoint.read_bytes())
    states = [subtask.state for operator in manifest.operators for subtask in operator.subtasks]
    lists = [state.lists for state in states if state.lists is not None]
    found = [blob.inline or b"" for blob in (*lists, *manifest.enumerators.values())]
    found += [item.payload for item in manifest.committables]
    assert lists and manifest.enumerators and manifest.committables
    for data in found:
        assert data[:1] == MARK
        Codec().decode(data[1:])  # which knows no pickles


# --- signed ones ----------------------------------------------------------------------------------


def change_in_place(file: Path, at: int) -> None:
    """One bit; length and name stay."""
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(bytes(data))


def blobs_in_files(manifest: Path) -> dict[str, Blob]:
    """The first blob of each file that a snapshot names."""
    found = from_json(manifest.read_bytes()).blobs()
    return {str(blob.path): blob for blob in found if blob.path is not None}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_changed_data_file_of_a_signed_checkpoint_is_refused(backend: str, tmp_path: Path) -> None:
    """The manifest, which nobody has touched, holds a checksum of each: the signature covers them all."""
    key = tmp_path / "key"
    write_file(key, b"k" * 32)
    more = {
        "penstock__snapshots__key_file": str(key),
        "state__backend__type": backend,
        "execution__checkpointing__data_inline_threshold": "0 b",
    }
    manifest = checkpointed(tmp_path / "first", **more)
    files = blobs_in_files(manifest)
    assert any(name.startswith("shared/") for name in files) is (backend == "rocksdb")
    for number, (name, blob) in enumerate(sorted(files.items())):
        place = tmp_path / f"try-{number}"
        shutil.copytree(manifest.parents[1], place / "copy")
        shutil.copytree(tmp_path / "first" / "out", place / "out")
        change_in_place(place / "copy" / name, blob.offset + blob.length // 2)
        with local_cluster(), pytest.raises((SnapshotError, JobFailedError)) as refused:
            finish(job(place / "chk", place / "out", str(place / "copy" / manifest.parent.name), **more))
        assert f"{place}/copy/{name} is damaged" in str(refused.value)
