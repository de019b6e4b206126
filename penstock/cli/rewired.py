"""Runs programs with other sources and sinks, for commands that must not touch the world."""

from __future__ import annotations

import importlib
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from penstock.cli.output import say
from penstock.core import options
from penstock.core.config import layered
from penstock.core.work_place import WorkPlace
from penstock.datastream.job import Launcher, run_as, running_program
from penstock.graph.nodes import JobSpec
from penstock.replay.substitute import NewSink, NewSource, RewiringLauncher
from penstock.snapshot.store import open_store


@contextmanager
def rewired(
    overrides: dict[str, str], new_source: NewSource, new_sink: NewSink | None = None
) -> Iterator[RewiringLauncher]:
    """Until the end of the ``with``, jobs of this process run rewired; the launcher knows them afterwards."""
    chosen = running_program().launcher
    launcher = RewiringLauncher(lambda spec: chosen or _spark(spec, overrides), new_source, new_sink)
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
