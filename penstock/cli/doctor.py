"""``penstock doctor``: can this machine run jobs, and if not, what is to be done."""

from __future__ import annotations

import importlib.metadata
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

import click
from rich.text import Text

from penstock.cli.output import console
from penstock.cli.settings_file import find_settings
from penstock.coordinator.registry import home, make_home
from penstock.core import options
from penstock.core.clock import SystemClock
from penstock.core.config import GIVEN_MASTER, Configuration
from penstock.core.errors import ConfigError, PenstockError, coded
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.spark.given import DEFAULTS, spark_properties

_PYTHON = (3, 11)
_JAVA = 17
_PACKAGES: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "pyspark": ((4, 1), (4, 4)),
    "pyarrow": ((18,), None),
    "numpy": ((2,), (3,)),
    "pandas": ((2, 2), (3,)),
    "cloudpickle": ((3,), None),
    "cryptography": ((43,), None),
    "fsspec": ((2025, 1), None),
    "rocksdict": ((0, 3), (0, 4)),
}
"""Least version, and first version that is too new: what slots need as well."""
_DESCRIPTORS = 1024
_ROOM = 1 << 30
_MEMORY = 2 << 30
_MEMINFO = Path("/proc/meminfo")
_PATIENCE = "10 min"


class Verdict(Enum):
    """How a check went, and the colour it is shown in."""

    OK = "green"
    WARN = "yellow"
    FAIL = "red"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; ``remedy`` says what to do about it."""

    verdict: Verdict
    what: str
    remedy: str = ""


@click.command()
@click.option("--fast", is_flag=True, help="Do not start Spark.")
@click.pass_context
def doctor(ctx: click.Context, fast: bool) -> None:
    """Check that this machine can run jobs; exit status 1 if it cannot."""
    checks: list[Callable[[], Finding]] = [check_python, check_java]
    checks += [partial(check_package, name) for name in _PACKAGES]
    checks += [check_workers, check_connect, check_spark_home, check_defaults, check_settings]
    checks += [check_loopback, check_host, check_descriptors, check_memory, check_room, check_home]
    out = console()
    failed = False
    for check in checks if fast else [*checks, check_job]:
        found = check()
        failed = failed or found.verdict is Verdict.FAIL
        mark = Text(f"{found.verdict.name.lower():4}", style=found.verdict.value)
        out.print(mark, f" {found.what}" + (f"\n      {found.remedy}" if found.remedy else ""))
    if failed:
        ctx.exit(1)


def check_python() -> Finding:
    """The interpreter."""
    what = f"Python {sys.version.split()[0]} at {sys.executable}"
    if sys.version_info[:2] < _PYTHON:
        return Finding(Verdict.FAIL, what, "Penstock needs Python 3.11 or newer.")
    return Finding(Verdict.OK, what)


def check_java() -> Finding:
    """The Java that Spark will start."""
    given = os.environ.get("JAVA_HOME")
    java = str(Path(given) / "bin" / "java") if given else shutil.which("java")
    where = f"JAVA_HOME={given}" if given else "no JAVA_HOME"
    if java is None or not Path(java).exists():
        remedy = f"Spark needs Java {_JAVA} or newer: install a JRE and set JAVA_HOME to it."
        return Finding(Verdict.FAIL, f"Java not found ({where})", remedy)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)[^"]*"', said)
    if found is None:
        first = said.splitlines()[0] if said.strip() else "nothing"
        return Finding(Verdict.WARN, f"{java} says {first!r}", f"Make sure that it is Java {_JAVA} or newer.")
    what = f"Java {found.group(1)} at {java} ({where})"
    if int(found.group(1)) < _JAVA:
        return Finding(Verdict.FAIL, what, f"Spark needs Java {_JAVA} or newer: set JAVA_HOME to one.")
    return Finding(Verdict.OK, what)


def check_package(name: str) -> Finding:
    """A package in a version that fits."""
    least, too_new = _PACKAGES[name]
    range_ = f">={_dotted(least)}" + (f",<{_dotted(too_new)}" if too_new else "")
    remedy = f"Install one that fits: pip install '{name}{range_}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(Verdict.FAIL, f"{name} is not installed", remedy)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < least or (too_new is not None and numbers >= too_new):
        return Finding(Verdict.FAIL, f"{name} {version} (needs {range_})", remedy)
    return Finding(Verdict.OK, f"{name} {version}")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def check_workers() -> Finding:
    """The Python that functions run in, if somebody has said which: else it is this one."""
    given = os.environ.get("PYSPARK_PYTHON")
    if given is None:
        return Finding(Verdict.OK, "workers run this Python (no PYSPARK_PYTHON)")
    what = f"workers run PYSPARK_PYTHON={given}"
    remedy = "Unset PYSPARK_PYTHON, or name a Python of the same minor version with the same packages."
    questions = (["--version"], ["-c", "import pyarrow, cloudpickle, cryptography"])
    try:
        version, needed = [
            subprocess.run([given, *asked], capture_output=True, text=True, check=False, timeout=60)
            for asked in questions
        ]
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(Verdict.FAIL, f"{what}: {error}", remedy)
    if version.returncode or needed.returncode:
        said = (version.stderr + needed.stderr).splitlines() or ["it failed"]
        return Finding(Verdict.FAIL, f"{what}: {said[-1]}", remedy)
    found, here = version.stdout.rpartition(" ")[2].strip(), _dotted(sys.version_info[:2])
    if found.split(".")[:2] != here.split("."):
        return Finding(Verdict.FAIL, f"{what}, which is Python {found}, not {here}", remedy)
    return Finding(Verdict.OK, what)


def check_connect() -> Finding:
    """Sessions of Spark Connect cannot run jobs; the address is not shown, for it may hold a token."""
    if not os.environ.get("SPARK_REMOTE"):
        return Finding(Verdict.OK, "no Spark Connect (no SPARK_REMOTE)")
    remedy = "Unset it, and give the master itself: --master. `penstock explain PEN-0705` says why."
    return Finding(Verdict.FAIL, "SPARK_REMOTE is set, and a job cannot run through Spark Connect", remedy)


def check_spark_home() -> Finding:
    """The Java side of Spark, if somebody has said where: PySpark brings one that fits."""
    given = os.environ.get("SPARK_HOME")
    if not given:
        return Finding(Verdict.OK, "Spark is the one that PySpark brings (no SPARK_HOME)")
    remedy = "Unset SPARK_HOME, or name a Spark of PySpark's own version."
    names = sorted(path.name for path in Path(given).glob("jars/spark-core_*.jar"))
    found = re.match(r"spark-core_[\d.]+-(\d+\.\d+)", names[-1]) if names else None
    if found is None:
        return Finding(Verdict.FAIL, f"there is no Spark at SPARK_HOME={given}", remedy)
    what = f"Spark {found[1]} at SPARK_HOME={given}"
    try:
        wanted = ".".join(importlib.metadata.version("pyspark").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:  # told by its own check
        return Finding(Verdict.WARN, what, remedy)
    if found[1] != wanted:
        return Finding(Verdict.FAIL, f"{what}, and PySpark is {wanted}", remedy)
    return Finding(Verdict.OK, what)


def check_defaults() -> Finding:
    """What Spark reads by itself, and jobs refuse to run with."""
    home_of_spark = os.environ.get("SPARK_HOME")
    given = os.environ.get("SPARK_CONF_DIR") or (home_of_spark and str(Path(home_of_spark) / "conf"))
    path = Path(given) / DEFAULTS if given else None
    if path is None or not path.is_file():
        return Finding(Verdict.OK, f"no {DEFAULTS} is read")
    try:
        settings = spark_properties(path)
    except OSError as error:
        return Finding(Verdict.WARN, f"{path} cannot be read: {error}", "Spark will not read it either.")
    if settings.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        remedy = "Run jobs with --conf spark.dynamicAllocation.enabled=false: `penstock explain PEN-0703`."
        return Finding(Verdict.WARN, f"{path} switches dynamic allocation on", remedy)
    return Finding(Verdict.OK, f"{path} holds nothing that jobs refuse")


def check_settings() -> Finding:
    """The file of settings that `penstock run` would read from here."""
    try:
        found = find_settings(None)
    except (ConfigError, OSError) as error:
        return Finding(Verdict.FAIL, coded(error), "Mend the file: `penstock run` stops at it, too.")
    return Finding(Verdict.OK, "no file of settings is read here" if found is None else found.said())


def check_memory() -> Finding:
    """What a job on one machine takes at least; without it the kernel kills the JVM or a slot."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return Finding(Verdict.OK, "this system does not say how much memory is free")
    free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)
    if free is not None and free < _MEMORY:
        remedy = "Make room: a job on one machine wants 2 GB, and the kernel kills what takes too much."
        return Finding(Verdict.WARN, f"only {free / 1e6:.0f} MB of memory are free", remedy)
    return Finding(Verdict.OK, "there is memory for a job on this machine")


def check_host() -> Finding:
    """Java asks for the address of this machine's name when Spark starts."""
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        remedy = f"Give it an address in /etc/hosts (127.0.0.1 {name}), or set SPARK_LOCAL_IP=127.0.0.1."
        return Finding(Verdict.WARN, f"the name of this machine, {name}, has no address: {error}", remedy)
    return Finding(Verdict.OK, f"this machine, {name}, is {address}")


def check_descriptors() -> Finding:
    """Connections between slots, files of state and of Spark's shuffles are open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"{'any number of' if soft == resource.RLIM_INFINITY else soft} open files"
    if 0 <= soft < _DESCRIPTORS:
        more = f"ulimit -n {hard if hard > 0 else 65536}"
        return Finding(Verdict.WARN, f"only {what}", f"Allow more before you start jobs: {more}")
    return Finding(Verdict.OK, f"{what} are allowed")


def check_room() -> Finding:
    """Shuffles, state of RocksDB and what spills go there."""
    places = (os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()).split(",")
    for place in map(Path, places):
        try:
            free = shutil.disk_usage(place).free
        except OSError as error:
            return Finding(
                Verdict.WARN, f"{place}: {error}", "Set SPARK_LOCAL_DIRS to a directory on a disk."
            )
        if free < _ROOM:
            what = f"{place} has only {free / 1e6:.0f} MB left"
            return Finding(Verdict.WARN, what, "Make room, or set SPARK_LOCAL_DIRS to a larger disk.")
    return Finding(Verdict.OK, f"{', '.join(places)} has room for temporary files")


def check_loopback() -> Finding:
    """Slots and driver talk over sockets: on one machine, over the loopback address."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=2),
        ):
            return Finding(Verdict.OK, "a loopback port can be opened and reached")
    except OSError as error:
        remedy = "Allow connections to 127.0.0.1; slots and driver talk over it."
        return Finding(Verdict.FAIL, f"no connection over 127.0.0.1: {error}", remedy)


def check_home() -> Finding:
    """Where running jobs are registered."""
    place = home()
    try:
        make_home()
        with tempfile.TemporaryFile(dir=place):
            return Finding(Verdict.OK, f"{place} can be written")
    except OSError as error:
        remedy = "Set PENSTOCK_HOME to a directory of yours; without it jobs run, but cannot be listed."
        return Finding(Verdict.WARN, f"{place} cannot be written: {error}", remedy)


def check_job() -> Finding:
    """A job on two slots, from start to end."""
    clock = SystemClock()
    started = clock.monotonic()
    settings = {GIVEN_MASTER: "local[2]", options.DEFAULT_PARALLELISM.key: "2"}
    settings[options.SLOTS_TIMEOUT.key] = _PATIENCE  # a machine that is only busy is not broken
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    stream = env.from_collection(list(range(10))).key_by(lambda value: value % 2)
    try:
        results = list(stream.map(lambda value: value).execute_and_collect("penstock-doctor"))
    except (PenstockError, OSError, RuntimeError) as error:
        what = f"a job on local[2] failed: {error}"
        return Finding(Verdict.FAIL, what, "Look at the checks above, and run again with --debug.")
    if sorted(results) != list(range(10)):
        return Finding(
            Verdict.FAIL, f"a job on local[2] gave wrong results: {results}", "Please report this."
        )
    took = clock.monotonic() - started
    return Finding(Verdict.OK, f"a job on two slots of a local Spark ran in {took:.1f} s")
