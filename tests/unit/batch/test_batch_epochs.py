"""The number of a BATCH job's output: functions that know by it what they did must not be misled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.common import Types
from penstock.connectors.staged import StagedEpochs
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.generic import GenericSink
from penstock.testing.local import local_cluster


@pytest.fixture(autouse=True)
def cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


def test_each_run_has_a_greater_epoch_than_the_one_before(tmp_path: Path) -> None:
    """A function that is idempotent in the epoch, as it is told to be, loses no run's rows."""
    done: dict[int, list[int]] = {}
    table: dict[int, list[int]] = {}

    def commit(epoch: int, handles: list[list[int]]) -> None:
        if epoch not in done:
            done[epoch] = sorted(value for handle in handles for value in handle)

    def deliver(epoch: int, files: list[str]) -> None:
        if epoch not in table:
            table[epoch] = sorted(v for file in files for v in pq.read_table(file).column(0).to_pylist())

    for night in range(2):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        numbers = env.from_collection([night * 10 + i for i in range(5)], Types.LONG())
        numbers.sink_to(GenericSink(lambda epoch, batch: batch.to_rows(), commit)).uid("generic")
        numbers.sink_to(StagedEpochs(deliver, str(tmp_path))).uid("staged")
        env.execute("nightly")
    wanted = [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]]
    assert [done[epoch] for epoch in sorted(done)] == wanted
    assert [table[epoch] for epoch in sorted(table)] == wanted
