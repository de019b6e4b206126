"""A Python of its own for the workers of a job that brings archives, requirements or an interpreter.

Spark starts workers by the name of a program, which every function says.  Here that is a script which
prepares the rest first (:mod:`penstock.luggage.outfit`).  Spark never lets functions with different ones
share workers.
"""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from penstock.core.errors import ConfigError
from penstock.luggage.outfit import Send, in_archive, outfit_of
from penstock.luggage.wishes import Wishes
from penstock.storage.own_files import write_whole

_functions = threading.Lock()
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from penstock.luggage.outfit import main; main(*sys.argv[1:])"
)


def fitted(context: Any, wishes: Wishes, place: Path, engine: str, send: Send | None) -> str | None:
    """The program that Spark starts in the place of Python; ``None`` if its own will do.

    ``send`` is how files get to executors, ``None`` if these see the driver's; ``engine`` is where they
    find Penstock then.
    """
    executable = _wanted(context.pythonExec, wishes, send is None)
    if not wishes.archives and wishes.requirements is None and executable is None:
        return None
    outfit = outfit_of(wishes, place, executable, send)
    targets = [archive.target for archive in wishes.archives]
    base = context.pythonExec if executable is None or in_archive(executable, targets) else executable
    script = place / f"penstock-python-{outfit.digest}"
    if not script.exists():
        where = shlex.quote(engine) if send is None else '"$here"/penstock.zip'
        text = (
            f'#!/bin/sh\nhere=$(dirname "$0")\nexec {shlex.quote(base)} -c {shlex.quote(_START)} {where} '
            f'"$here" {shlex.quote(outfit.to_json())} "$@"\n'
        )

        def write(file: BinaryIO) -> None:
            os.fchmod(file.fileno(), 0o700)
            file.write(text.encode())

        write_whole(script, write)
    return str(script) if send is None else f"./{send(script)}"


def _wanted(own: str, wishes: Wishes, on_one_machine: bool) -> str | None:
    """The interpreter that was asked for, unless Spark starts that one anyway."""
    wanted = wishes.executable
    if wanted is None or wanted == own:
        return None
    if in_archive(wanted, [archive.target for archive in wishes.archives]) or not on_one_machine:
        return wanted
    found = shutil.which(wanted)
    if found is None:
        raise ConfigError(
            f"the Python {wanted} (set_python_executable, python.executable) is not there, or cannot be run; "
            "one in an archive is named by the archive's target directory, as in venv.zip/venv/bin/python"
        )
    return None if found == shutil.which(own) else found


@contextmanager
def wearing(context: Any, python: str | None) -> Iterator[None]:
    """Functions that are handed to Spark within this block are run by that Python."""
    with _functions:
        before = context.pythonExec
        context.pythonExec = python or before
        try:
            yield
        finally:
            context.pythonExec = before
