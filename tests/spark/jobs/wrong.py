"""Program: does things wrong, one after the other, and prints what it is told.

    wrong.py WORK [GROUP]

GROUP is a memory control group to run in, and to run out of memory in.

For each case a line ``<case> <error class> <json of the error's text>``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flow_graphs import text_file_sink
from progress import environment
from pyspark.sql import SparkSession

from penstock.common import WatermarkStrategy
from penstock.connectors.sink import Sink, SinkWriter, WriterContext
from penstock.core.errors import PenstockError
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.connectors.data_gen import DataGeneratorSource

MASTER = "local[2]"


def numbers(env: Any, count: int = 1000) -> Any:
    source = DataGeneratorSource(lambda i: i, count)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def explode(value: int) -> str:
    if value == 42:
        raise ValueError("cannot digest this")
    return str(value)


def leave(value: int) -> str:
    if value == 42:
        os._exit(3)
    return str(value)


def too_few_slots(work: Path) -> None:
    env = environment(MASTER, None, restart_strategy__type="none").set_parallelism(3)
    numbers(env).map(str).sink_to(text_file_sink(work / "few"))
    env.execute()


def user_error(work: Path) -> None:
    env = environment(MASTER, None, restart_strategy__type="none").set_parallelism(2)
    numbers(env).rebalance().map(explode).name("digest").sink_to(text_file_sink(work / "user"))
    env.execute()


def dead_worker(work: Path) -> None:
    env = environment(MASTER, None, restart_strategy__type="none").set_parallelism(2)
    numbers(env).map(leave).sink_to(text_file_sink(work / "dead"))
    env.execute()


def eat(group: Path, value: int) -> str:
    """Take all the memory that is left, and a little more."""
    if value == 42:
        Path("/proc/self/oom_score_adj").write_text("1000")  # this process, and not the JVM, is to go
        version_1 = (group / "memory.limit_in_bytes").exists()
        used, limit = _MEMORY_FILES_1 if version_1 else _MEMORY_FILES_2
        (group / limit).write_text(str(int((group / used).read_text()) + (32 << 20)))
        eaten = [os.urandom(1 << 20) for _ in range(4096)]
        raise AssertionError(f"the kernel let it have {len(eaten)} MB")
    return str(value)


_MEMORY_FILES_1 = "memory.usage_in_bytes", "memory.limit_in_bytes"
_MEMORY_FILES_2 = "memory.current", "memory.max"


def out_of_memory(work: Path) -> None:
    env = environment(MASTER, None, restart_strategy__type="none").set_parallelism(2)
    numbers(env).map(partial(eat, Path(sys.argv[2]))).sink_to(text_file_sink(work / "eaten"))
    try:
        env.execute()
    finally:
        unlimited("memory.limit_in_bytes", "-1")
        unlimited("memory.max", "max")


def unlimited(name: str, value: str) -> None:
    """Take a limit of the group away, or never swap in it."""
    path = Path(sys.argv[2], name)
    if path.exists():
        path.write_text(value)


class Stuck(Sink):
    """Its server does not answer."""

    def create_writer(self, context: WriterContext) -> SinkWriter:
        threading.Event().wait()
        raise AssertionError("nobody wakes it")


def stuck_writer(work: Path) -> None:
    env = environment(
        MASTER,
        None,
        restart_strategy__type="none",
        penstock__deploy__timeout="10 s",
        heartbeat__interval="200 ms",
    ).set_parallelism(2)
    numbers(env).rebalance().sink_to(Stuck()).name("orders").set_parallelism(1)
    env.execute()


def dynamic_allocation(work: Path) -> None:
    SparkSession.getActiveSession().stop()
    env = environment(MASTER, None, spark__dynamicAllocation__enabled="true").set_parallelism(2)
    numbers(env).map(str).sink_to(text_file_sink(work / "dynamic"))
    env.execute()


def other_python(work: Path) -> None:
    """The executors' Python is that of the program without its packages."""
    bare = work / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o700)
    SparkSession.getActiveSession().stop()
    os.environ["PYSPARK_PYTHON"] = str(bare)
    env = environment(MASTER, None).set_parallelism(2).set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers(env).print()
    env.execute()


def other_python_for_a_frame(work: Path) -> None:
    """In the session of the case before."""
    env = environment(MASTER, None, restart_strategy__type="none").set_parallelism(1)
    frame = SparkSession.getActiveSession().range(10)
    env.from_dataframe(frame, directory=str(work / "frame")).print()
    env.execute()


def large_results(work: Path) -> None:
    """Not wrong: more results than a socket's buffer holds."""
    env = environment(MASTER, None).set_parallelism(2)
    found = sorted(numbers(env, 60_000).map(lambda i: f"{i:0100d}").execute_and_collect())
    assert [int(text) for text in found] == list(range(60_000))


def large_inline_state(work: Path) -> None:
    """Not wrong: snapshots of several megabytes that travel inside acknowledgements."""
    env = environment(MASTER, None, execution__checkpointing__interval="100 ms").set_parallelism(2)
    source = DataGeneratorSource(lambda i: i, 600, 1000.0)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    large = stream.key_by(lambda i: i % 300).reduce(lambda a, b: a if isinstance(a, str) else "x" * 20_000)
    assert len(list(large.execute_and_collect())) == 600


def bad_master(work: Path) -> None:
    """What Spark does not understand; its session has to be gone before."""
    SparkSession.getActiveSession().stop()
    environment("nonsense://here", None)._launcher().session()


CASES: list[Callable[[Path], None]] = [
    too_few_slots,
    user_error,
    dead_worker,
    stuck_writer,
    large_results,
    large_inline_state,
    dynamic_allocation,
    other_python,
    other_python_for_a_frame,
    bad_master,
]


def main(work: Path) -> None:
    """Try all cases."""
    if sys.argv[2:]:
        Path(sys.argv[2], "cgroup.procs").write_text(str(os.getpid()))
        unlimited("memory.swappiness", "0")
        unlimited("memory.swap.max", "0")
        CASES.insert(CASES.index(dead_worker), out_of_memory)
    for case in CASES:
        try:
            case(work)
        except PenstockError as error:
            print(
                case.__name__,
                type(getattr(error, "cause", None) or error).__name__,
                json.dumps(str(error)),
                flush=True,
            )
        else:
            print(case.__name__, "fine", '""', flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
