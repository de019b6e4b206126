"""How long a job's output pauses when an executor dies, with and without a spare one.

``python benchmarks/lost_executor.py`` runs a job of two slots on Spark's ``local-cluster``, whose executors
are processes of their own with one core each, and kills one that has a slot (``kill -9``, with its Python).
Without a spare, Spark must start another executor first.  Each way is a run of its own; ``--spares 1`` is one
alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rescale import Count, Load, phases
from usage import Usage, family

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.log import LogSink, LogSource, Text
from penstock.datastream import StreamExecutionEnvironment

SLOTS = 2


def start(load: Load, root: Path, spares: int, more: list[str]) -> Any:
    config = Configuration()
    for key, value in {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(root / "chk"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "penstock.spark.master": f"local-cluster[{SLOTS + spares},1,512]",
        "spark.executor.memory": "512m",
        "penstock.rest.enabled": "false",
        **dict(one.split("=", 1) for one in more),
    }.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(SLOTS)
    lines = env.from_source(LogSource(load.log.root, "in", Text()), WatermarkStrategy.no_watermarks(), "in")
    counted = lines.uid("in").key_by(lambda key: key).process(Count(1000)).uid("count")
    counted.sink_to(LogSink(load.log.root, "out", Text())).uid("out")
    return env.execute_async("an executor is lost")


def busiest_executor() -> list[int]:
    """The executor with the most processes below it, and these: a spare has none, or fewer."""
    found = [family(pid) for pid in family(os.getpid()) if b"CoarseGrainedExecutorBackend" in command(pid)]
    return max(found, key=len)


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def one_way(spares: int, kills: int, more: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        load = Load(root / "log")
        job = start(load, root, spares, more)
        for _ in range(kills):
            load.settle()
            time.sleep(3)
            load.settle()
            with Usage() as used:
                began = time.monotonic()
                for pid in busiest_executor():
                    os.kill(pid, signal.SIGKILL)
                time.sleep(1)
                load.settle()
            print(
                f"{spares} spare, executor killed: output gap {load.gap(began):.2f} s "
                f"({used.processor_s:.1f} processor seconds); {phases(job)}",
                flush=True,
            )
            time.sleep(5)  # Spark starts another one meanwhile
        lost, doubled = load.finish()
        job.cancel().result()
        print(f"{load.sent} records: lost={lost}, duplicated={doubled}", flush=True)
        if lost or doubled:
            sys.exit("the results are wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spares", type=int, help="executors more than slots; if not set: 0, then 1")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("-D", dest="more", action="append", default=[], metavar="KEY=VALUE", help="settings")
    chosen = parser.parse_args()
    if chosen.spares is not None:
        one_way(chosen.spares, chosen.kills, chosen.more)
        return
    for spares in (0, 1):
        same = [f"-D{one}" for one in chosen.more]
        command = [sys.executable, __file__, "--spares", str(spares), "--kills", str(chosen.kills), *same]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
