"""What a job of 8, 16 and 32 real slots takes of its driver and the machine: the shape, beside ``slots.py``.

``python benchmarks/slots_real.py --slots 8 16 32`` runs a job like that of ``slots.py``, ten vertices that
are joined by exchanges, on Spark's ``local[N]``, in a process of its own for each number of slots, with a
thousand small records a second.  It starts the job twice, and reports the second time, so Spark itself is
warm; then it asks for checkpoints one by one.  Wall times depend on what else the machine does; processor
times hardly.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from usage import family

from penstock.common import Configuration, JobStatus, WatermarkStrategy
from penstock.coordinator.events import RequestKind
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.datastream.state import ValueStateDescriptor

KEYED = 8
RATE = 1000.0
CHECKPOINTS = 10
QUIET_S = 10.0
_ESTABLISHED = "01"


class Count(KeyedProcessFunction):
    """Counts each key."""

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._seen.update((self._seen.value() or 0) + 1)
        yield value


def start(slots: int, directory: Path) -> Any:
    """The job; it runs when this returns."""
    config = Configuration()
    config.set_string("execution.checkpointing.interval", "1 h")
    config.set_string("execution.checkpointing.dir", str(directory))
    config.set_string("penstock.spark.master", f"local[{slots}]")
    config.set_string("penstock.rest.enabled", "false")
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(slots)
    numbers = DataGeneratorSource(lambda index: index, None, RATE)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    for number in range(KEYED):
        stream = stream.key_by(lambda value: value % 1000).process(Count()).uid(f"step-{number}")
    stream.rebalance().map(lambda value: value).uid("last").filter(lambda value: False).print()
    client = env.execute_async(f"slots {directory.name}")
    while client.get_job_status().result() is not JobStatus.RUNNING:
        time.sleep(0.005)
    return client


def phases(job: Any) -> dict[str, float]:
    """Seconds until all slots had registered, and until all had built their tasks."""
    at = {line.split()[2]: ms / 1000 for ms, line in job.coordinator.log}
    return {"slots_s": at["DEPLOYING"] - at["STARTING"], "deploy_s": at["RUNNING"] - at["DEPLOYING"]}


def checkpoints(job: Any) -> dict[str, float]:
    """One after the other."""
    began = time.process_time()
    for _ in range(CHECKPOINTS):
        job.request(RequestKind.CHECKPOINT)[1].result()
    spent = (time.process_time() - began) / CHECKPOINTS
    took = [one["duration_ms"] for one in job.coordinator.checkpoints.history[-CHECKPOINTS:]]
    return {"checkpoint_ms": statistics.median(took), "checkpoint_cpu_ms": spent * 1000}


def established() -> set[str]:
    """Inodes of the sockets that are connected."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _ESTABLISHED:
                found.add(fields[9])
    return found


def sockets_of(pid: int, among: set[str]) -> int:
    """How many of those a process has."""
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            link = os.readlink(entry)
        except OSError:
            continue
        count += link.startswith("socket:[") and link[8:-1] in among
    return count


def memory_mb(pid: int) -> float:
    """What is its own, and its part of what it shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def workers() -> list[int]:
    """The Python processes of the slots: those that Spark's daemon has forked, and which look like it."""
    alike = [pid for pid in family(os.getpid()) if _command(pid)[-1] == b"pyspark.worker"]
    return alike[1:]


def _command(pid: int) -> list[bytes]:
    """How a process was started; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return [b""]


def measured(slots: int, directory: Path) -> dict[str, float]:
    """What a job of so many slots takes."""
    start(slots, directory / "first").cancel().result()
    began, spent = time.monotonic(), time.process_time()
    client = start(slots, directory / "second")
    found = {"start_s": time.monotonic() - began, "start_cpu_s": time.process_time() - spent}
    job = client._handle
    found |= phases(job) | checkpoints(job)
    began = time.process_time()
    time.sleep(QUIET_S)
    found["quiet_cpu"] = (time.process_time() - began) / QUIET_S * 1000
    there, connected = workers(), established()
    assert len(there) >= slots, f"{len(there)} processes for {slots} slots"
    mine = sorted((sockets_of(pid, connected) for pid in there), reverse=True)[:slots]
    memory = sorted((memory_mb(pid) for pid in there), reverse=True)[:slots]
    found |= {"sockets": mine[0], "all_sockets": sum(mine), "driver_mb": memory_mb(os.getpid())}
    found |= {"slot_mb": statistics.median(memory)}
    client.cancel().result()
    return found


ROWS: dict[str, tuple[str, Callable[[float], str]]] = {
    "start_s": ("until all run, s", "{:.2f}".format),
    "slots_s": ("of that, until all slots had registered, s", "{:.2f}".format),
    "deploy_s": ("of that, until all had built their tasks, s", "{:.2f}".format),
    "start_cpu_s": ("driver's processor time until all run, s", "{:.2f}".format),
    "checkpoint_ms": ("a checkpoint, ms (median of ten)", "{:.0f}".format),
    "checkpoint_cpu_ms": ("driver's processor time for it, ms", "{:.1f}".format),
    "quiet_cpu": ("driver's processor time in a second without one, ms", "{:.1f}".format),
    "driver_mb": ("driver's memory (Python), MB", "{:.0f}".format),
    "slot_mb": ("a slot's memory, MB", "{:.0f}".format),
    "sockets": ("connections of a slot", "{:.0f}".format),
    "all_sockets": ("ends of connections of all slots", "{:,.0f}".format),
}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--one", type=int, help="one number, in this process, as JSON")
    options = parser.parse_args()
    if options.one is not None:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(measured(options.one, Path(directory))))
        return
    columns = []
    for slots in options.slots:
        command = [sys.executable, __file__, "--one", str(slots)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        columns.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"{slots} slots, load {os.getloadavg()[0]:.1f}: {columns[-1]}", file=sys.stderr)
    print(f"| slots | {' | '.join(f'{slots:,}' for slots in options.slots)} |")
    print(f"| --- {'| ---: ' * len(columns)}|")
    for key, (what, form) in ROWS.items():
        print(f"| {what} | {' | '.join(form(column[key]) for column in columns)} |")


if __name__ == "__main__":
    main()
