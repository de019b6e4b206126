"""Program: running sums by key into a sink, with kills on the way; one job per sink, all at the same time.

    fault_matrix_job.py WORK worker|driver|server SINK ...

``WORK/<sink>`` is the job's directory, ``server.json`` in it says where the sink's server is.  Started again
with the same arguments, the jobs go on from their newest checkpoints.  Prints ``done <sink> restarts=<n>`` or
``failed <sink>`` for each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fault_matrix_kills import KillingSink, Kills
from fault_matrix_sinks import COUNT, KEYS, ROW, SINKS, server_of
from progress import environment

from penstock.common import Row, Types, WatermarkStrategy
from penstock.connectors.source import Split, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor

PARALLELISM = 2
STRIDE = 10
"""Records of a split between two checkpoints, as long as kills are to come."""


class SteppingSource(DataGeneratorSource):
    """Gives some records, waits until a checkpoint holds them, gives more; after the last kill, all."""

    def __init__(self, kills: Kills) -> None:
        super().__init__(lambda number: number, COUNT)
        self._kills = kills

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return _SteppingReader(super().open_split(split, position, clock), self._kills, split.info[1])


class _SteppingReader(SplitReader):
    def __init__(self, reader: SplitReader, kills: Kills, step: int) -> None:
        self._reader, self._kills = reader, kills
        self._stride = STRIDE * step
        self._stop = reader.position() + self._stride
        self._over = False

    def poll(self, max_rows: int) -> Batch | None:
        if self._over:
            return self._reader.poll(max_rows)
        if self._reader.position() >= self._stop:
            return None
        return self._reader.poll(min(max_rows, STRIDE))

    def on_checkpoint_complete(self, position: Any) -> None:
        self._stop = max(self._stop, position + self._stride)
        self._over = self._over or self._kills.over()

    def position(self) -> Any:
        return self._reader.position()

    def next_poll_ms(self) -> int | None:
        return self._reader.next_poll_ms()


class RunningSum(KeyedProcessFunction):
    """A key's records come from one split, in order: their sums do not depend on timing."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[Row]:
        total = (self._total.value() or 0) + value
        self._total.update(total)
        yield Row(id=value, k=value % KEYS, total=total)


def start(work: Path, name: str, kills: Kills, slots: int) -> Any:
    """Start the job of one sink."""
    sink = SINKS[name]
    made = sink.make(work, server_of(work))
    patience = {"restart_strategy__fixed_delay__attempts": "50"}
    env = environment(f"local[{slots}]", work / "chk", **patience).set_parallelism(PARALLELISM)
    source = SteppingSource(kills)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = numbers.key_by(lambda number: number % KEYS).process(RunningSum(), ROW).uid("sums")
    out = sums.map(lambda row: f"{row.id},{row.k},{row.total}", Types.STRING()) if sink.lines else sums
    out.sink_to(KillingSink(made, kills)).uid("out")
    return env.execute_async(f"matrix {name}")


def main(work: Path, victim: str, names: list[str]) -> int:
    """Run all jobs; how many failed."""
    peers = tuple(work / name / "kills" for name in names)
    clients = {}
    for name, place in zip(names, peers, strict=True):
        kills = Kills(place, victim, peers if victim == "driver" else ())
        kills.enlist_driver()
        clients[name] = start(work / name, name, kills, PARALLELISM * len(names))
    failed = 0
    for name, client in clients.items():
        try:
            client.get_job_execution_result().result(1500)
            print(f"done {name} restarts={client._handle.driver.restarts}", flush=True)
        except Exception as error:
            failed += 1
            print(f"failed {name}: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
