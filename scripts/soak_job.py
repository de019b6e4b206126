"""The program that ``soak.py`` keeps running: one job with keyed state, windows, timers and a log.

    soak_job.py MASTER WORK

Prints ``published <n>`` for each checkpoint.  When ``WORK/stop`` appears the job stops with a savepoint,
the last lines are committed, and the program prints ``stopped``.  Started again after it was killed, it
goes on from its newest checkpoint.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "spark" / "jobs")]

from progress import environment, published  # noqa: E402
from soak_ledger import KEYS, TIMER_EVERY, WINDOW_MS, described  # noqa: E402

from penstock.common import Time, WatermarkStrategy  # noqa: E402
from penstock.connectors.log import LogSink, Text  # noqa: E402
from penstock.datastream import (  # noqa: E402
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.data_gen import DataGeneratorSource  # noqa: E402
from penstock.datastream.state import ValueStateDescriptor  # noqa: E402
from penstock.datastream.window import TumblingEventTimeWindows  # noqa: E402

PARALLELISM = 2
RATE = 500.0


class Count(KeyedProcessFunction):
    """Numbers the records of a key; a timer follows now and then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[str]:
        seen = self._seen.value() or 0
        self._seen.update(seen + 1)
        if seen % TIMER_EVERY == 0:
            ctx.timer_service().register_event_time_timer(seen * KEYS + value[0] + WINDOW_MS)
        yield described(value[1], seen)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        key = ctx.get_current_key()
        yield f"t {key} {(timestamp - WINDOW_MS - key) // KEYS}"


class CountWindow(ProcessWindowFunction):
    """How many there were."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[str]:
        yield f"w {key} {context.window().start} {len(list(elements))}"


def build(env: StreamExecutionEnvironment, log: Path) -> None:
    """Record ``i`` belongs to key ``i % KEYS`` and happens at millisecond ``i``."""
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    source = DataGeneratorSource(lambda i: (i % KEYS, i), None, RATE)
    records = env.from_source(source, timed, "records").uid("records").key_by(lambda value: value[0])
    counted = records.process(Count()).uid("count")
    windows = records.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).process(CountWindow())
    counted.union(windows.uid("windows")).sink_to(LogSink(log, "out", Text())).uid("out")


def main(master: str, work: Path) -> None:
    """Run until told to stop."""
    env = environment(
        master,
        work / "checkpoints",
        execution__checkpointing__interval="500 ms",
        restart_strategy__fixed_delay__attempts="1000000",
        execution__checkpointing__tolerable_failed_checkpoints="1000",
        spark__executor__cores="1",
        spark__executor__memory="512m",
        spark__driver__memory="512m",
    ).set_parallelism(PARALLELISM)
    build(env, work / "log")
    client = env.execute_async("soak")
    job, seen = client._handle, 0
    while not (work / "stop").exists():
        time.sleep(0.2)
        if job.result().done():
            job.result().result(1)
        if published(job) > seen:
            seen = published(job)
            print(f"published {seen}", flush=True)
    client.stop_with_savepoint(False, str(work / "savepoint")).result(300)
    print("stopped", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
