"""State as tables: look into snapshots, and make savepoints, without running a job.

:func:`open_snapshot` reads; :class:`SavepointWriter` writes; after :func:`register`,
``spark.read.format("penstock-state")`` reads in parallel.  The guide is ``docs/guides/state-processor.md``.
"""

from __future__ import annotations

import importlib
from typing import Any

from penstock.state_processor.snapshot import Snapshot, open_snapshot
from penstock.state_processor.writer import SavepointWriter


def register(spark: Any) -> None:
    """Make ``spark.read.format("penstock-state")`` known to a Spark session."""
    importlib.import_module("penstock.spark.state_frames").register(spark)


__all__ = ["SavepointWriter", "Snapshot", "open_snapshot", "register"]
