"""PySpark's worker daemon with Penstock's imports done, and with an eye on its workers.

Workers are forked from the daemon, so what it has imported they need not import: a slot that is started
again after a failure registers in a fraction of the time, and builds its tasks without importing what the
modules of users' programs do.  And whoever forked a worker can say why it died
(:mod:`penstock.spark.witness`).  Used in sessions that Penstock starts itself
(``spark.python.daemon.module``).
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

from penstock.spark import witness

PRELOADED = "penstock.spark.preloaded"


def preload() -> None:
    """Import what workers are to have, without a look into the directory that the program was started in.

    ``python -m`` puts that first: a user's ``numbers.py`` there would be taken for Python's own, and run.
    """
    here = sys.path[0] if sys.path and sys.path[0] in ("", str(Path.cwd())) else None
    if here is not None:
        del sys.path[0]
    importlib.import_module(PRELOADED)
    if here is not None:
        sys.path.insert(0, here)


if __name__ == "__main__":
    preload()
    witness.install()
    runpy.run_module("pyspark.daemon", run_name="__main__")
