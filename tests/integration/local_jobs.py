"""Helpers to run, disturb and resume jobs on the in-process cluster."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flow_graphs import GRAPHS, SINKS, Pace, sink_of

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.job_client import JobClient
from penstock.core.clock import SystemClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import LocalLauncher
from tests.patience import PATIENCE_S

TIMEOUT_S = PATIENCE_S


class LookedAt:
    """A clock that moves a millisecond whenever somebody looks: what happens between two looks costs no time.

    However long the machine takes for a step, the sources see the same time go by.
    """

    def __init__(self) -> None:
        self._looks = itertools.count()

    def now_ms(self) -> int:
        return next(self._looks)

    def monotonic(self) -> float:
        return next(self._looks) / 1000


class Stoppable(SystemClock):
    """The machine's clock, which a test can stop: no checkpoint, no restart becomes due meanwhile."""

    def __init__(self) -> None:
        self._stopped_at: tuple[int, float] | None = None

    def now_ms(self) -> int:
        stopped = self._stopped_at
        return super().now_ms() if stopped is None else stopped[0]

    def monotonic(self) -> float:
        stopped = self._stopped_at
        return super().monotonic() if stopped is None else stopped[1]

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Time stands still, and jumps forward at the end."""
        self._stopped_at = super().now_ms(), super().monotonic()
        yield
        self._stopped_at = None


def until(condition: Callable[[], Any], what: str, timeout_s: float = TIMEOUT_S) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.002)
    raise AssertionError(f"gave up after {timeout_s:g} s waiting until {what}")


def environment(checkpoints: Path | None = None, **settings: str) -> StreamExecutionEnvironment:
    """An environment with fast snapshots and fast restarts; ``a__b_c`` stands for the key ``a.b-c``."""
    config = Configuration()
    if checkpoints is not None:
        config.set_string("execution.checkpointing.interval", "15 ms")
        config.set_string("execution.checkpointing.dir", str(checkpoints))
    config.set_string("restart-strategy.type", "fixed-delay")
    config.set_string("restart-strategy.fixed-delay.attempts", "10")
    config.set_string("restart-strategy.fixed-delay.delay", "5 ms")
    config.set_string("pipeline.auto-watermark-interval", "5 ms")
    for key, value in settings.items():
        config.set_string(key.replace("__", ".").replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(config)


def published(launcher: LocalLauncher) -> int:
    """The newest published snapshot of the newest job; 0 if none."""
    return int(launcher.jobs[-1].coordinator.checkpoints.last_published or 0)


def wait_for_snapshots(launcher: LocalLauncher, count: int) -> None:
    """Until ``count`` more snapshots are published, or the job is over."""
    target = published(launcher) + count
    until(
        lambda: published(launcher) >= target or launcher.jobs[-1].result().done(),
        f"snapshot {target} is published",
    )


def kill_slot(launcher: LocalLauncher, slot: int = 0) -> None:
    """Let a slot of the newest job vanish, and wait until the job has noticed.

    The job must not be able to end before that: hold its source back with a gate, and open it afterwards.
    """
    driver = launcher.jobs[-1].driver
    before = driver.restarts
    launcher.clusters[-1].kill(slot)
    until(lambda: driver.restarts > before, "the loss is noticed")


def finish(client: JobClient, timeout_s: float = TIMEOUT_S) -> None:
    """The job's end; raises what it failed with."""
    client.get_job_execution_result().result(timeout_s)


def start_graph(
    graph: str, out: Path, checkpoints: Path, parallelism: int, count: int, pace: Pace, **settings: str
) -> JobClient:
    """Start one of the five graphs."""
    settings.setdefault(
        "execution__checkpointing__externalized_checkpoint_retention", "RETAIN_ON_CANCELLATION"
    )
    env = environment(checkpoints, **settings)
    env.set_parallelism(parallelism)
    build, _ = GRAPHS[graph]
    make_sink, _ = SINKS[sink_of(graph)]
    build(env, lambda: make_sink(out), count, pace)
    return env.execute_async(f"job {graph}")


def output(graph: str, out: Path) -> list[str]:
    """What is committed."""
    return SINKS[sink_of(graph)][1](out)


def collect(stream: Any) -> list[Any]:
    """All records of a stream, sorted."""
    return sorted(stream.execute_and_collect())


NO_TIME = WatermarkStrategy.no_watermarks()


def number_stream(
    env: Any, count: int, parallelism: int = 2, rate: float | None = None, gate: Path | None = None
) -> Any:
    """A stream of the numbers from 0, paced and gated."""
    source = Pace(rate, gate).source(lambda i: i, count)
    return env.from_source(source, NO_TIME, "numbers").set_parallelism(parallelism)
