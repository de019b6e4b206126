"""Where Python keeps what is installed: what is found there is no program's own."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from functools import cache
from pathlib import Path

_KINDS = ("stdlib", "platstdlib", "purelib", "platlib")
ENGINE = frozenset({"penstock", "pyspark", "py4j"})
"""Top-level names that are never a program's own, wherever they were imported from."""


@cache
def installed_places() -> tuple[str, ...]:
    """The directories of this interpreter, and of the one that it is a virtual environment of.

    Not its prefix: programs live below ``/usr`` as well.
    """
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    found = [sysconfig.get_path(kind) for kind in _KINDS]
    found += [sysconfig.get_path(kind, vars=base) for kind in _KINDS]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(dict.fromkeys(os.path.realpath(path) + os.sep for path in found))


def is_installed(path: str | Path) -> bool:
    """Whether a file or directory belongs to what is installed."""
    return (os.path.realpath(path) + os.sep).startswith(installed_places())
