"""Unaligned checkpoints restored at a parallelism at which other steps form chains."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from flow_graphs import SINKS, Pace
from local_jobs import NO_TIME, environment, finish, published, until

from penstock.common.job_client import JobClient
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.testing.local import LocalLauncher, local_cluster

COUNT, KEYS = 900, 5


class Numbered(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterable[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % KEYS},{count}"


def start(out: Path, checkpoints: Path, parallelism: int, delay: float) -> JobClient:
    """Steps with a parallelism of their own beside steps with that of the job.

    The first map is chained to the source at parallelism 2, the second to the first at 3, the sink to the
    function before it at 1; else there is an exchange between them.
    """
    env = environment(
        checkpoints,
        execution__checkpointing__unaligned__enabled="true",
        execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
    )
    env.set_parallelism(parallelism)

    def slow(value: int) -> int:
        time.sleep(delay)
        return value

    source = env.from_source(Pace().source(lambda i: i, COUNT), NO_TIME, "numbers").uid("numbers")
    first = source.set_parallelism(2).map(slow).uid("first")
    second = first.map(slow).uid("second").set_parallelism(3)
    keyed = second.key_by(lambda value: value % KEYS).process(Numbered()).uid("numbered")
    last = keyed.map(lambda text: (time.sleep(delay), text)[1]).uid("last").set_parallelism(1)
    last.sink_to(SINKS["file"][0](out)).uid("out").set_parallelism(1)
    return env.execute_async("chains")


def persisted(launcher: LocalLauncher) -> float:
    """Bytes of records in flight in the newest snapshot of the newest job."""
    history = launcher.jobs[-1].coordinator.checkpoints.history
    return float(history[-1]["persisted_bytes"]) if history else 0.0


def in_flight(launcher: LocalLauncher, begun: int) -> bool:
    """Whether the newest job has stored records in flight; raises what it failed with."""
    result = launcher.jobs[-1].result()
    if result.done():
        result.result()
    return published(launcher) > begun + 1 and persisted(launcher) > 0


@pytest.mark.parametrize("order", [(1, 2, 3, 1), (3, 1, 2), (2, 3, 2), (3, 2, 1)], ids=str)
def test_records_in_flight_find_their_way_whatever_is_chained(order: tuple[int, ...], tmp_path: Path) -> None:
    out, checkpoints = tmp_path / "out", tmp_path / "chk"
    with local_cluster() as launcher:
        for parallelism in order[:-1]:
            client = start(out, checkpoints, parallelism, 0.001)
            begun = published(launcher)
            until(lambda seen=begun: in_flight(launcher, seen), "records are in flight")
            client.cancel().result()
        finish(start(out, checkpoints, order[-1], 0.0))
    expected = [f"{key},{count}" for key in range(KEYS) for count in range(1, COUNT // KEYS + 1)]
    assert sorted(SINKS["file"][1](out)) == sorted(expected)
