"""Gets Penstock and what a program needs to executors that do not have it.

On one machine the workers get the driver's own path: they import the same files as the driver, with the data
and the compiled modules beside them.  On a cluster whole packages travel as Spark's files, and workers unpack
what they lack.  See :mod:`penstock.luggage`.

Executors fetch what they lack from the driver's files whenever they start, also long after the job that
shipped them.  So the files are there as long as the Spark application is, and are removed at its end, by
the next application of this process or when the process ends; those of a process that was killed, by the
next one on this machine.

The workers of a job that brings archives, requirements or an interpreter have a Python of their own.  Spark
starts workers by the name of a program, which every function says.  Here that is a script which prepares the
rest first (:mod:`penstock.luggage.outfit`).  Spark never lets functions with different ones share workers.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from pyspark import SparkFiles
from pyspark.sql import SparkSession

import penstock
from penstock.core.discreet import log_of
from penstock.core.errors import ConfigError
from penstock.luggage.archives import Member, digest, file_digest, fingerprint, members, pack
from penstock.luggage.arrival import Luggage, Modules
from penstock.luggage.found import Found, user_modules
from penstock.luggage.outfit import Parcel, Send, in_archive, outfit_of
from penstock.luggage.staging import (
    Staged,
    contents,
    own_path,
    staged_archive,
    staged_file,
    staged_module,
    top_of,
    travelling,
    unreachable,
)
from penstock.luggage.wishes import Wishes
from penstock.spark.session import refuse_connect
from penstock.spark.slots import is_one_machine
from penstock.storage.own_files import write_whole
from penstock.storage.work_place import WorkPlace

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


_log = log_of(__name__)
PREFIX = "penstock-ship-"
ENGINE = "penstock.zip"
_LARGE = 100 << 20
_LOOKED_AT = 20_000
"""Files of which it is seen that they were edited: beyond these, a look would cost more than it is worth."""
_shipped: set[tuple[str, str]] = set()
_places: dict[str, WorkPlace] = {}
"""By application: where its files are."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """What the functions of a job are started with: their luggage, in JSON, and the Python for it."""

    luggage: str = Luggage().to_json()
    python: str | None = None
    """Of the session, if ``None``."""
    engine: str = ""
    """Where workers find Penstock if they have none; Spark sees to that where it is nothing."""


def ship(spark: SparkSession, wishes: Wishes) -> Shipment:
    """Send what is missing on executors, each file once per application."""
    refuse_connect()
    engine = Path(penstock.__file__).parent.parent
    if is_one_machine(spark):
        send = None
        luggage = _by_path(spark, wishes)
    else:
        send = _Sending(spark)
        _ship_engine(spark)
        luggage = _by_parcels(send, wishes)
    place = place_of(spark.sparkContext.applicationId)
    python = fitted(spark.sparkContext, wishes, place, str(engine), send)
    return Shipment(luggage.to_json(), python, "" if send else str(engine))


def share(spark: SparkSession) -> None:
    """Make Penstock and the program's modules known to whatever the session runs in Python from now on."""
    refuse_connect()
    context = spark.sparkContext
    if is_one_machine(spark):
        luggage = _by_path(spark, Wishes())
        engine = str(Path(penstock.__file__).parent.parent)
        # Spark puts these before all else, the last first; names among its files, or paths.
        for path in reversed([*luggage.front, *luggage.back, engine]):
            if path not in context._python_includes:
                context._python_includes.append(path)
        return
    _ship_engine(spark)
    found = [one for one in _own_modules() if one.prefix is None]
    files = [member for one in found for member in travelling(one)]
    if files:
        packed, _ = _packed(files, "modules", context.applicationId)
        _once(context.applicationId, packed.name, lambda: context.addPyFile(str(packed)))


# --- on one machine -----------------------------------------------------------------------------


def _by_path(spark: SparkSession, wishes: Wishes) -> Luggage:
    place = place_of(spark.sparkContext.applicationId)
    found = _own_modules()
    given = [staged_file(Path(file), place) for file in wishes.files]
    lost = [one for one in unreachable(found) if one.prefix is None]
    given += [stage for one in lost for stage in staged_module(one, place)]
    zips = [f"{one.paths[0]}/{one.prefix}".rstrip("/") for one in found if one.prefix is not None]
    front, back = own_path()
    trees = chain(*map(contents, found), *(members(stage.directory) for stage in given))
    return Luggage(
        tuple(dict.fromkeys([path for stage in given for path in stage.fronts()] + front + zips)),
        tuple(dict.fromkeys(back + [path for stage in given for path in stage.backs()])),
        fingerprint=fingerprint(list(islice(trees, _LOOKED_AT))),
    )


# --- on a cluster -------------------------------------------------------------------------------


class _Sending:
    """Files of one application on their way to its executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.application = spark.sparkContext.applicationId

    def __call__(self, path: Path) -> str:
        """The name of a file among those that executors fetch."""
        _once(self.application, path.name, lambda: self._context.addFile(str(path)))
        return path.name


def _by_parcels(send: _Sending, wishes: Wishes) -> Luggage:
    place = place_of(send.application)
    given = [_parcel(staged_file(Path(file), place), file, send) for file in wishes.files]
    found = _own_modules()
    archives = {(one.paths[0], one.prefix) for one in found if one.prefix is not None}
    given += [
        _parcel(staged_archive(path, prefix or "", place), str(path), send)
        for path, prefix in sorted(archives)
    ]
    trees = [(one, travelling(one)) for one in found if one.prefix is None]
    if trees:
        files = [member for _, tree in trees for member in tree]
        packed, whole = _packed(files, "the program's modules", send.application)
        parcel = Parcel(send(packed), whole, "the program's modules")
        given.append(Modules(parcel, tuple(top_of(one, tree) for one, tree in trees)))
    return Luggage(modules=tuple(given))


def _parcel(stage: Staged, called: str, send: _Sending) -> Modules:
    packed, whole = _packed(list(members(stage.directory)), called, send.application)
    return Modules(Parcel(send(packed), whole, called), (), stage.front, stage.back)


def _ship_engine(spark: SparkSession) -> None:
    context = spark.sparkContext
    target = place_of(context.applicationId) / ENGINE
    if not target.exists():
        pack(list(members(Path(penstock.__file__).parent, "penstock")), target)
    _once(context.applicationId, ENGINE, lambda: context.addPyFile(str(target)))


def _packed(files: list[Member], called: str, application: str) -> tuple[Path, str]:
    """An archive that is named by its content, and its digest."""
    target = place_of(application) / f"penstock-{digest(files)[:32]}.zip"
    if not target.exists():
        size = sum(member.size for member in files)
        if size > _LARGE:
            _log.warning(
                "%s: %d MB travel to every executor. What is large and changes rarely is better installed "
                "where they run",
                *(called, size >> 20),
            )
        pack(files, target)
    return target, file_digest(target)


def _own_modules() -> list[Found]:
    """Without what Spark has brought here, for it brings that to executors, too."""
    try:
        brought = os.path.realpath(SparkFiles.getRootDirectory()) + os.sep
    except Exception:
        return user_modules()
    return [
        one
        for one in user_modules()
        if not any(os.path.realpath(path).startswith(brought) for path in one.paths)
    ]


def _once(application: str, name: str, add: Callable[[], object]) -> None:
    if (application, name) not in _shipped:
        add()
        _shipped.add((application, name))


def place_of(application: str) -> Path:
    """Where the files of a Spark application are. A process has one at a time: those of others go."""
    for other in _places.keys() - {application}:
        _places.pop(other).remove()
    if application not in _places:
        _places[application] = place = WorkPlace.make(Path(tempfile.gettempdir()), PREFIX)
        atexit.register(place.remove)
    return _places[application].path
