"""A snapshot that somebody has changed, with all its checksums right, runs nothing of theirs."""

from __future__ import annotations

import base64
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration
from penstock.core.errors import JobFailedError
from penstock.core.handles import Blob
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.snapshot.manifest import sign
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


def start(place: Path, savepoint: str | None) -> Any:
    config = Configuration()
    config.set_string("execution.checkpointing.dir", str(place))
    config.set_string("execution.checkpointing.interval", "1 h")
    config.set_string("restart-strategy.type", "disable")
    if savepoint is not None:
        config.set_string("execution.state-recovery.path", savepoint)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.from_collection([1, 2, 3]).uid("in").key_by(lambda value: 0).process(Keep()).uid("keep").print().uid(
        "out"
    )
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
        savepoint = (
            start(tmp_path / "chk", None).stop_with_savepoint(False, str(tmp_path / "sp")).result(PATIENCE_S)
        )
        file = Path(savepoint.removeprefix("file://")) / "_metadata"
        document = json.loads(file.read_text())
        plant(document, where, pickle.dumps(Planted(f"touch {proof}"), 5))
        file.write_bytes(sign(document))
        client = start(tmp_path / "other", savepoint)
        with pytest.raises(JobFailedError, match=r"names \w+\.system, which is no class of this program"):
            client.get_job_execution_result().result(PATIENCE_S)
    assert not proof.exists()
