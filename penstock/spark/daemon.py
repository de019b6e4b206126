"""PySpark's worker daemon with Penstock's imports done, and with an eye on its workers.

Workers are forked from the daemon, so what it has imported they need not import: a slot that is started
again after a failure registers in a fraction of the time, and builds its tasks without importing what the
modules of users' programs do.  And whoever forked a worker can say why it died
(:mod:`penstock.spark.witness`).  Used in sessions that Penstock starts itself
(``spark.python.daemon.module``).
"""

from __future__ import annotations

import importlib
import os
import sys

WITNESS, PRELOADED, SPARKS = "penstock.spark.witness", "penstock.spark.preloaded", "pyspark.daemon"


def preload() -> None:
    """Import what workers are to have, without a look into the directory that the program was started in.

    ``python -m`` puts that first: a user's ``numbers.py`` there would be taken for Python's own, and run.
    """
    here = sys.path[0] if sys.path and sys.path[0] in ("", _directory()) else None
    if here is not None:
        del sys.path[0]
    for module in (WITNESS, PRELOADED, SPARKS):
        importlib.import_module(module)
    if here is not None:
        sys.path.insert(0, here)


def _directory() -> str | None:
    """Where this process is; not asked of ``pathlib``, which imports much."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:  # it was removed
        return None


def part_ways() -> None:
    """Have each worker draw random numbers of its own.

    It has a copy of NumPy's generator, as it was when the daemon imported it. Python's own sees to that.
    """
    daemon, random = os.getpid(), importlib.import_module("numpy.random")

    def begin() -> None:
        if os.getppid() == daemon:  # what a user's program forks is its own affair
            random.seed()

    os.register_at_fork(after_in_child=begin)


if __name__ == "__main__":
    preload()
    part_ways()
    importlib.import_module(WITNESS).install()
    importlib.import_module(SPARKS).manager()
