"""Names that PyFlink programs import from a module that is not the names' own: found when asked for.

Used where a plain import would go against the layers, or load connectors that a program has no use for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def found_in(module: str, homes: Mapping[str, str], below: str = "") -> Callable[[str], Any]:
    """The ``__getattr__`` of ``module``: ``homes`` has the names, separated by spaces, by their module.

    ``below`` are modules of a package that are its attributes before anybody has imported them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def look_up(name: str) -> Any:
        if name in below.split():
            return importlib.import_module(f"{module}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home_of[name]), name)

    return look_up
