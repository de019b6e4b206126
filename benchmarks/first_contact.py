"""What somebody meets first: how long imports and a first job take, and how much was installed.

    python benchmarks/first_contact.py [--repeat N] [--no-job] NAME=PYTHON ...

Each PYTHON is that of a virtual environment with Penstock in it; contestants take turns, so what a busy
machine does to one it does to all.  Processor time is that of all processes, Java's too;
the least of several tries is told, as the one that was disturbed least.  Asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = {
    "the interpreter alone": "pass",
    "import penstock": "import penstock",
    "names of the DataStream API": (
        "from penstock.common import Types, WatermarkStrategy\n"
        "from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment"
    ),
    "names of pyspark.sql": "from pyspark.sql import SparkSession",
    "penstock --help": "import sys\nfrom penstock.cli.main import main\nsys.argv[1:] = ['--help']\nmain()",
}
JOB = """
import os, time
from pathlib import Path

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment


def used_by_all():
    # Seconds of the processor: of this process, of what it has started, and of what those have.
    used, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(stat.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used[pid] for pid in mine) / os.sysconf("SC_CLK_TCK")


configuration = Configuration()
configuration.set_string("penstock.slots.timeout", "10 min")
env = StreamExecutionEnvironment.get_execution_environment(configuration)
env.set_parallelism(2)
numbers = env.from_collection(list(range(100)))
found = iter(numbers.key_by(lambda n: n % 10).map(lambda n: n + 1).execute_and_collect("first"))
next(found)
print(time.monotonic() - float(os.environ["STARTED"]), used_by_all(), flush=True)
assert len(list(found)) == 99
"""
FIRST = "time to the first record of a job on local[2]"


def main() -> None:
    arguments = read_arguments()
    contestants = dict(given.split("=", 1) for given in arguments.contestants)
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    tries = {**LINES, **({} if arguments.no_job else {FIRST: JOB})}
    for _ in range(arguments.repeat):
        for what, code in tries.items():
            for name, python in contestants.items():
                taken.setdefault((what, name), []).append(tried(python, code, what == FIRST))
    print(f"| least of {arguments.repeat}: seconds passed (of the processor) | {' | '.join(contestants)} |")
    print("| --- |" + " ---: |" * len(contestants))
    for what in tries:
        cells = [told(taken[what, name]) for name in contestants]
        print(f"| {what} | {' | '.join(cells)} |")
    sizes = [f"{size_of(python) / 1e6:.0f} MB" for python in contestants.values()]
    print(f"| installed, without compiled modules | {' | '.join(sizes)} |")
    print(f"load: {os.getloadavg()[0]:.1f}", file=sys.stderr)


def told(tries: list[tuple[float, float]]) -> str:
    passed, used = (min(column) for column in zip(*tries, strict=True))
    return f"{passed:.2f} ({used:.2f})"


def tried(python: str, code: str, has_job: bool) -> tuple[float, float]:
    """Seconds until it was done or a job's first record was there, and processor seconds for that."""
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "program.py"
        script.write_text(code)
        before = spent()
        started = time.monotonic()
        environment = {**os.environ, "STARTED": str(started), "PENSTOCK_HOME": f"{place}/home"}
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH"):  # a user's modules are compiled once
            environment.pop(name, None)
        done = subprocess.run(
            [python, str(script)], cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        passed = time.monotonic() - started
    if done.returncode:
        sys.exit(f"{python}: {done.stderr}")
    if has_job:
        passed, used = map(float, done.stdout.split()[-2:])
        return passed, used
    return passed, spent() - before


def spent() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def size_of(python: str) -> int:
    """Of the environment: what lies in it, without what Python compiles as it goes."""
    root = Path(python).parent.parent
    return sum(
        path.lstat().st_size for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("contestants", nargs="+", metavar="NAME=PYTHON")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--no-job", action="store_true", help="imports and sizes only, without Spark")
    return parser.parse_args()


if __name__ == "__main__":
    main()
