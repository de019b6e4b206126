"""A query on Spark into files, left alone or disturbed in the middle: which rows there are in the end.

Rows are written as columns with the kind of change; whatever order the files are read in, the rows that came
more often than they went are left.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.nexmark.queries import CHANGING
from benchmarks.nexmark.tables import MakeSource, Rows
from benchmarks.usage import family
from penstock.connectors.source import Source, Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.changes import CHANGE, SIGNS, with_change
from penstock.core.clock import Clock
from penstock.dataframe import DataFrame
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSink

NOTICE_S = 60.0
PATIENCE_S = 900.0
RECOVERY = "execution.state-recovery.path"

MakeEnv = Callable[[Path, dict[str, str]], Env]
MakeFrame = Callable[[Env, MakeSource], DataFrame]


class Gated(DataGeneratorSource):
    """Waits at a good half of its rows until a file appears."""

    def __init__(self, rows: Rows, count: int, gate: Path) -> None:
        super().__init__(rows, count, columns=True)
        self._gate, self._limit = gate, count * 6 // 10

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        reader = super().open_split(split, position, clock)
        return _GatedReader(reader, self._gate, self._limit, split.info[1])


class _GatedReader(SplitReader):
    def __init__(self, reader: SplitReader, gate: Path, limit: int, step: int) -> None:
        self._reader, self._gate, self._limit, self._step = reader, gate, limit, step

    def poll(self, max_rows: int) -> Batch | None:
        allowed = (self._limit - self._reader.position()) // self._step
        if allowed < max_rows and self._gate.exists():
            allowed = max_rows
        return self._reader.poll(min(max_rows, allowed)) if allowed > 0 else None

    def position(self) -> Any:
        return self._reader.position()

    def next_poll_ms(self) -> int | None:
        return self._reader.next_poll_ms()


def gated(gate: Path, rows: Rows, count: int | None, rate: float | None) -> Source:
    """A source with a gate in the middle."""
    assert count is not None, "the rows end"
    return Gated(rows, count, gate)


@dataclass(frozen=True)
class Run:
    """One query in a folder of its own."""

    query: str
    work: Path
    make_env: MakeEnv
    make_frame: MakeFrame

    def alone(self) -> dict[str, Any]:
        """Nothing disturbs it."""
        self._gate.touch()
        self._start(2).get_job_execution_result().result(PATIENCE_S)
        return {}

    def killed(self) -> dict[str, Any]:
        """``kill -9`` of a Python worker behind the second snapshot."""
        client = self._start(2)
        job = client._handle
        _wait_for_snapshots(job)
        for pid in reversed(_workers()):
            os.kill(pid, signal.SIGKILL)
            if _until(lambda: job.driver.restarts > 0, NOTICE_S):
                break
        self._gate.touch()
        client.get_job_execution_result().result(PATIENCE_S)
        if job.driver.restarts == 0:
            raise AssertionError("no worker of the job was killed")
        return {"restarts": job.driver.restarts}

    def rescaled(self) -> dict[str, Any]:
        """Stopped with a savepoint behind the second snapshot, and resumed with one slot instead of two."""
        client = self._start(2)
        _wait_for_snapshots(client._handle)
        folder = str(self.work / "savepoint")
        savepoint = client.stop_with_savepoint(False, folder).result(PATIENCE_S)
        client.get_job_execution_result().result(PATIENCE_S)
        self._gate.touch()
        self._start(1, {RECOVERY: savepoint}).get_job_execution_result().result(PATIENCE_S)
        return {}

    def rows(self, into: Path) -> None:
        """Write what is left in the end as one Parquet file."""
        files = sorted(it for it in self._out.rglob("*") if it.is_file() and it.name[0] not in "._")
        found = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
        pq.write_table(left(found), into)

    @property
    def _gate(self) -> Path:
        return self.work / "gate"

    @property
    def _out(self) -> Path:
        return self.work / "out"

    def _start(self, parallelism: int, settings: dict[str, str] | None = None) -> Any:
        env = self.make_env(self.work / "checkpoints", settings or {}).set_parallelism(parallelism)
        frame = self.make_frame(env, partial(gated, self._gate))._as_retract()
        schema = with_change(frame.schema) if self.query in CHANGING else frame.schema
        frame._stream().sink_to(FileSink.parquet(str(self._out), schema))
        return env.execute_async(self.query)


def left(changes: pa.Table) -> pa.Table:
    """The rows that came more often than they went, each as often."""
    if CHANGE not in changes.column_names:
        return changes
    names = [name for name in changes.column_names if name != CHANGE]
    weights = pa.array(SIGNS[changes.column(CHANGE).to_numpy()])
    summed = (
        changes.select(names).append_column("$times", weights).group_by(names).aggregate([("$times", "sum")])
    )
    times = summed.column("$times_sum").to_numpy()
    if len(times) and times.min() < 0:
        raise AssertionError("a row went that had not come")
    return summed.select(names).take(pa.array(np.repeat(np.arange(len(times)), times)))


def _wait_for_snapshots(job: Any) -> None:
    def are_there() -> bool:
        return int(job.coordinator.checkpoints.last_published or 0) >= 2 or job.result().done()

    if not _until(are_there, PATIENCE_S):
        raise AssertionError(f"there are no two snapshots within {PATIENCE_S:g} s")


def _until(condition: Callable[[], bool], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _workers() -> list[int]:
    """The forked children of Spark's Python daemons."""

    def is_daemon(pid: int) -> bool:
        try:
            return b".daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    daemons = [pid for pid in family(os.getpid()) if is_daemon(pid)]
    return [pid for daemon in daemons for pid in family(daemon)[1:]]
