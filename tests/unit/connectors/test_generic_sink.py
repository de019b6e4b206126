"""A sink made of two functions: the conformance suite, and what is special about it."""

from __future__ import annotations

import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.builtin.generic import GenericSink, Handles
from penstock.connectors.sink import CommitOutcome, Sink
from penstock.core.batch import Batch
from penstock.core.errors import ConfigError
from penstock.core.ids import Epoch
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.conformance.sink_suite import SinkConformance
from penstock.testing.local import local_cluster


def write(directory: Path, epoch: int, batch: Batch) -> str:
    """A part under a name of its own: attempts may use a number twice."""
    name = f"{epoch}-{uuid.uuid4().hex}"
    directory.mkdir(exist_ok=True)
    (directory / f".{name}").write_text(json.dumps(batch.to_rows()))
    return name


def publish(directory: Path, epoch: int, handles: list[str]) -> None:
    for name in handles:
        if not (directory / name).exists():
            (directory / f".{name}").rename(directory / name)


def published(directory: Path) -> list[Any]:
    return [row for path in directory.glob("[!.]*") for row in json.loads(path.read_text())]


class TestConformance(SinkConformance):
    def make_sink(self, directory: Path) -> Sink:
        place = directory / "out"
        return GenericSink(partial(write, place), partial(publish, place))

    def visible(self, sink: Sink, directory: Path) -> list[Any]:
        return published(directory / "out")


def committed(sink: GenericSink, *items: Handles) -> list[CommitOutcome]:
    committer = sink.create_committer()
    assert committer is not None
    return list(committer.commit(items))


def test_one_call_per_epoch_oldest_first() -> None:
    calls: list[Any] = []
    sink = GenericSink(lambda epoch, batch: None, lambda epoch, handles: calls.append((epoch, handles)))
    items = [Handles(Epoch(1), 0, ("a",)), Handles(Epoch(1), 1, ("b",)), Handles(Epoch(2), 0, ())]
    assert committed(sink, *items) == [CommitOutcome.COMMITTED] * 3
    assert calls == [(1, ["a", "b"]), (2, [])]


def test_commit_may_take_the_epoch_alone() -> None:
    calls: list[int] = []
    committed(GenericSink(lambda epoch, batch: None, calls.append), Handles(Epoch(7), 0, ()))
    assert calls == [7]


def test_without_commit_there_is_nothing_to_commit() -> None:
    """Writes at barriers only, and what was prepared is not counted as dropped."""
    seen: list[Any] = []

    def gather(epoch: int, batch: Batch) -> None:
        seen.extend(batch.to_rows())

    sink = GenericSink(gather)
    assert sink.create_committer() is None
    writer = sink.create_writer(type("Context", (), {"subtask": 0})())  # type: ignore[arg-type]
    writer.write(Batch.of_rows([1, 2]))
    assert seen == []
    assert writer.prepare_commit(Epoch(1)) == [] and seen == [1, 2]


def test_batches_of_an_epoch_come_together() -> None:
    sizes: list[int] = []
    sink = GenericSink(lambda epoch, batch: sizes.append(len(batch)))
    writer = sink.create_writer(type("Context", (), {"subtask": 0})())  # type: ignore[arg-type]
    for _ in range(10):
        writer.write(Batch.of_rows([1] * 10))
    writer.write(Batch.of_columns(pa.record_batch({"a": [1, 2]})))
    for _ in range(3):
        writer.write(Batch.of_rows([0] * 60_000))
    writer.prepare_commit(Epoch(1))
    assert sizes == [100, 2, 60_000, 60_000, 60_000]


@pytest.mark.parametrize("commit", [lambda: None, lambda a, b, c: None, 5])
def test_wrong_functions_are_refused(commit: Any) -> None:
    with pytest.raises(ConfigError, match="commit"):
        GenericSink(lambda epoch, batch: None, commit)


def test_in_a_job(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.enable_checkpointing(20)
        stream = env.from_collection(list(range(1000))).rebalance().map(lambda i: i * 2)
        stream.sink_to(GenericSink(partial(write, place), partial(publish, place)))
        env.execute()
    assert sorted(published(place)) == [i * 2 for i in range(1000)]
