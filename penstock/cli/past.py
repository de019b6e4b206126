"""What the commands about the past share: places in it, and programs that must not touch the world.

A place is written as a time, as offsets, or as a snapshot.  Programs run with other sources and sinks.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click

from penstock.cli.output import say
from penstock.core import options
from penstock.core.config import layered
from penstock.core.ids import EventTime
from penstock.datastream.job import Launcher, run_as, running_program
from penstock.graph.nodes import JobSpec
from penstock.replay.replayed import Offsets
from penstock.replay.substitute import NewSink, NewSource, SubstitutingLauncher
from penstock.snapshot.store import open_store
from penstock.storage.work_place import WorkPlace

EARLIEST = "earliest"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class PastPlace:
    """One of the three; all ``None`` is the beginning."""

    time: EventTime | None = None
    offsets: Offsets | None = None
    snapshot: str | None = None


def read_time(text: str, option: str) -> EventTime:
    """Milliseconds, or a time of the calendar; without a zone it is UTC."""
    if re.fullmatch(r"-?[0-9]+", text):
        return EventTime(int(text))
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option} takes a time such as 2026-01-31T12:00, not {text!r}") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return EventTime((aware - _EPOCH) // dt.timedelta(milliseconds=1))


def read_place(text: str, option: str) -> PastPlace:
    """``earliest``; a time; ``SPLIT=OFFSET,...`` or a JSON file of them; or the path of a snapshot."""
    if text == EARLIEST:
        return PastPlace()
    path = Path(text)
    try:
        is_file, is_directory = path.is_file(), path.is_dir()
    except OSError:  # offsets of many splits are longer than any name
        is_file = is_directory = False
    if is_file:
        return PastPlace(offsets=_offsets_in(path, option))
    if is_directory or "://" in text:
        return PastPlace(snapshot=text)
    if "=" in text:
        return PastPlace(offsets=_offsets(text, option))
    try:
        return PastPlace(time=read_time(text, option))
    except click.UsageError as error:
        raise click.UsageError(f"{error.message}; nor is there a snapshot of that name") from None


def _offsets(text: str, option: str) -> Offsets:
    pairs = [part.rpartition("=") for part in text.split(",")]
    if not all(split and offset.isdigit() for split, _, offset in pairs):
        raise click.UsageError(f"{option} takes offsets such as clicks-0=120,clicks-1=98, not {text!r}")
    return {split.strip(): int(offset) for split, _, offset in pairs}


def _offsets_in(path: Path, option: str) -> Offsets:
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(offset, int) for offset in found.values()):
        raise click.UsageError(f'{option}: {path} must hold offsets by split, such as {{"clicks-0": 120}}')
    return found


@contextmanager
def substituted(
    overrides: dict[str, str], new_source: NewSource, new_sink: NewSink | None = None
) -> Iterator[SubstitutingLauncher]:
    """Until the end of the ``with``, jobs run with other sources and sinks; the launcher knows them after."""
    chosen = running_program().launcher
    launcher = SubstitutingLauncher(lambda spec: chosen or _spark(spec, overrides), new_source, new_sink)
    with run_as(replace(running_program(), launcher=launcher)):
        yield launcher


@contextmanager
def own_checkpoints(overrides: dict[str, str]) -> Iterator[dict[str, str]]:
    """The settings with a checkpoint directory for this run only: the program's own is not touched.

    It is a new one below the directory that ``overrides`` name, or on this machine's own disk.  What is
    there goes with the run, however that ends: no other would find it.  The snapshot that the run starts from
    is not touched either, whatever the program says of claiming it, and one that the program names itself
    is not where it starts.
    """
    given = overrides.get(options.CHECKPOINT_DIR.key)
    with _directory_below(given) if given else _directory_here() as directory:
        yield {
            options.RECOVERY_PATH.key: "",
            **overrides,
            options.CLAIM_MODE.key: "NO_CLAIM",
            options.CHECKPOINT_RETENTION.key: "DELETE_ON_CANCELLATION",
            options.CHECKPOINT_DIR.key: directory,
        }


@contextmanager
def _directory_here() -> Iterator[str]:
    """One that the next run removes if this one is killed."""
    place = WorkPlace.make(Path(tempfile.gettempdir()), "penstock-replay-")
    try:
        yield str(place.path / "checkpoints")
    finally:
        place.remove()


@contextmanager
def _directory_below(given: str) -> Iterator[str]:
    directory = f"{given.rstrip('/')}/aside-{uuid.uuid4().hex}"
    try:
        yield directory
    finally:
        try:
            open_store(directory, create=False).delete_tree()
        except Exception as error:  # whatever storage raises: how the run went is what counts
            say(f"Warning: {directory} could not be removed: {error}", err=True, colour="yellow")


def _spark(spec: JobSpec | None, overrides: dict[str, str]) -> Launcher:
    configuration = layered(running_program().defaults, overrides) if spec is None else spec.configuration
    launcher: Launcher = importlib.import_module("penstock.spark.launcher").SparkLauncher(configuration)
    return launcher
