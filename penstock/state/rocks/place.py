"""Where RocksDB works: a directory of the process's own, gone with it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from penstock.core.errors import ConfigError
from penstock.core.work_place import WorkPlace

PREFIX = "penstock-rocksdb-"


def work_place(base: str | None) -> WorkPlace:
    """A new directory below ``base``; what dead processes left there is removed first."""
    root = default_base() if base is None else Path(base)
    try:
        return WorkPlace.make(root, PREFIX)
    except OSError as error:
        raise ConfigError(
            f"{root} cannot hold the working files of RocksDB ({error.strerror or error}); name another "
            "directory with state.backend.rocksdb.localdir"
        ) from error


def default_base() -> Path:
    """The first of Spark's local directories if this is a Spark task, else where temporary files go."""
    spark = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
    first = spark.split(",")[0].strip()
    return Path(first) if first else Path(tempfile.gettempdir())
