"""Where the rows of frames pass through."""

from __future__ import annotations

import atexit
import shutil
import tempfile

from pyspark.sql import SparkSession

from penstock.core.errors import ConfigError
from penstock.spark.slots import is_one_machine
from penstock.storage.places import join, normalise


def scratch(spark: SparkSession, what: str) -> str:
    """A directory of this machine, gone when the program ends; only where the executors see it too."""
    if not is_one_machine(spark):
        raise ConfigError(
            f"{what} passes rows through files that the driver and all executors see, and nothing says "
            "where; set execution.checkpointing.dir, or give directory=, on a shared file system"
        )
    place = tempfile.mkdtemp(prefix="penstock-frames-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def place_for(
    spark: SparkSession, what: str, directory: str | None, checkpoints: str | None, folder: str
) -> str:
    """Where ``what`` puts its files: as told, else beside the checkpoints, else on this machine."""
    if directory is not None:
        return normalise(directory)
    return join(normalise(checkpoints), folder) if checkpoints else scratch(spark, what)
