"""``penstock doctor``: can this machine run jobs, and if not, what is to be done."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import click
from rich.text import Text

from penstock.cli.output import console
from penstock.coordinator.registry import home, make_home
from penstock.core import options
from penstock.core.clock import SystemClock
from penstock.core.config import GIVEN_MASTER, Configuration
from penstock.core.errors import PenstockError
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

_PYTHON = (3, 11)
_JAVA = 17
_PACKAGES = {"pyspark": ((4, 1), (4, 4)), "pyarrow": ((18,), None), "pandas": ((2, 2), (3,))}
"""Least version, and first version that is too new."""


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
    checks += [lambda name=name: check_package(name) for name in _PACKAGES]  # type: ignore[misc]
    checks += [check_loopback, check_home]
    out = console()
    failed = False
    for check in checks if fast else [*checks, check_gang]:
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


def check_gang() -> Finding:
    """A job on two slots, from start to end."""
    clock = SystemClock()
    started = clock.monotonic()
    settings = {GIVEN_MASTER: "local[2]", options.DEFAULT_PARALLELISM.key: "2"}
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
