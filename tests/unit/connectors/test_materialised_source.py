"""A table that is written once and read from files."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.combinators.materialized import MaterialisedSource
from penstock.connectors.source import Source
from penstock.core.row import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.conformance.source_suite import SourceConformance
from penstock.testing.local import local_cluster


class Table:
    """Writes the numbers it holds at that time, in two files."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.written = 0

    def __call__(self, directory: str) -> Sequence[str]:
        self.written += 1
        half = len(self.numbers) // 2
        for name, part in (("a", self.numbers[:half]), ("b", self.numbers[half:])):
            pq.write_table(pa.table({"n": part}), f"{directory}/{name}")
        return ["a", "b"]

    def __reduce__(self) -> Any:
        raise AssertionError("what writes the table does not travel")


class TestConformance(SourceConformance):
    def make_source(self, directory: Path) -> Source:
        return MaterialisedSource(Table(list(range(40))), str(directory))

    def expected(self) -> list[Any]:
        return [Row(n=i) for i in range(40)]


def test_written_once_and_only_when_asked_for(tmp_path: Path) -> None:
    table = Table([1, 2])
    source = MaterialisedSource(table, str(tmp_path / "home"))
    cloudpickle.dumps(source)
    assert table.written == 0 and not (tmp_path / "home").exists()
    for _ in range(3):
        assert len(list(source.create_enumerator(2).discover())) == 2
    assert table.written == 1


def test_a_new_driver_reads_what_the_first_one_wrote(tmp_path: Path) -> None:
    enumerator = MaterialisedSource(Table([1, 2]), str(tmp_path)).create_enumerator(2)
    enumerator.discover()
    state = pickle.dumps(enumerator.snapshot())
    changed = Table([7, 8, 9])
    source = MaterialisedSource(changed, str(tmp_path))
    restored = source.create_enumerator(1)
    restored.restore(pickle.loads(state))
    assert list(restored.discover()) == [] and changed.written == 0
    before = sorted(tmp_path.rglob("*"))
    source.discard()
    assert len(before) == 3 and sorted(tmp_path.rglob("*")) == before, "a savepoint may refer to them"
    source.files()
    source.discard()
    assert sorted(tmp_path.rglob("*")) == before, "what this driver wrote is its own to remove"


def test_a_restart_by_the_same_driver_and_files_of_tasks_that_did_not_count(tmp_path: Path) -> None:
    source = MaterialisedSource(Table([1, 2]), str(tmp_path))
    enumerator = source.create_enumerator(1)
    enumerator.discover()
    directory, _ = enumerator.snapshot()
    (Path(directory) / "of a task that ran twice").write_bytes(b"")
    source.create_enumerator(1).restore(pickle.loads(pickle.dumps(enumerator.snapshot())))
    source.discard()
    assert list(tmp_path.iterdir()) == []


def test_discarding_what_is_gone_is_no_error(tmp_path: Path) -> None:
    table = Table([1, 2])
    source = MaterialisedSource(table, str(tmp_path))
    source.discard()
    for _ in range(2):
        source.files()
        source.discard()
        source.discard()
    assert list(tmp_path.iterdir()) == [] and table.written == 2, "a next job writes the table anew"


def test_a_job_begun_anew_reads_the_table_as_it_is(tmp_path: Path) -> None:
    table = Table([1, 2, 3])
    with local_cluster(slots=2):
        for numbers in ([1, 2, 3], [4, 5]):
            table.numbers = numbers
            config = Configuration()
            config.set_string("execution.checkpointing.dir", str(tmp_path / "chk"))
            config.set_string("execution.checkpointing.interval", "20 ms")
            env = StreamExecutionEnvironment.get_execution_environment(config)
            source = MaterialisedSource(table, str(tmp_path / "home"))
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "table")
            assert sorted(row["n"] for row in stream.execute_and_collect()) == numbers
