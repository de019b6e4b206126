"""Runs programs with other sources and sinks, for commands that must not touch the world."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.core import options
from penstock.core.config import Configuration
from penstock.datastream.job import Launcher
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.graph.job import JobSpec
from penstock.travel.rewire import NewSink, NewSource, RewiringLauncher


@contextmanager
def rewired(
    overrides: dict[str, str], new_source: NewSource, new_sink: NewSink
) -> Iterator[tuple[dict[str, str], RewiringLauncher]]:
    """Until the end of the ``with``, jobs of this process run rewired.

    Gives the settings to run the program with, which have a checkpoint directory of their own, and the
    launcher, which knows the jobs afterwards.
    """
    chosen = StreamExecutionEnvironment.launcher
    launcher = RewiringLauncher(lambda spec: chosen or _spark(spec, overrides), new_source, new_sink)
    StreamExecutionEnvironment.launcher = launcher
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-travel-") as scratch:
            yield {**overrides, options.CHECKPOINT_DIR.key: scratch}, launcher
    finally:
        StreamExecutionEnvironment.launcher = chosen


def _spark(spec: JobSpec | None, overrides: dict[str, str]) -> Launcher:
    configuration = Configuration.from_dict(overrides) if spec is None else spec.configuration
    launcher: Launcher = importlib.import_module("penstock.spark.launcher").SparkLauncher(configuration)
    return launcher
