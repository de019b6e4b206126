"""Names that users import from a module that is not the names' own: found when asked for.

Used where a plain import would go against the layers, load connectors that a program has no use for, or make
a slot load the whole API for one base class.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.core.known_types import is_plain_data


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


def front_of(package: str, names: Iterable[str], modules: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a public package: ``names`` are found in its ``modules``, looked into in turn.

    So importing the package loads nothing, and a slot that needs one of the modules does not load the rest.
    Every module below the package is its attribute.
    """
    known = frozenset(names)

    def found(name: str) -> Any:
        if name not in known:
            return _module_below(package, name)
        for module in modules.split():
            loaded = importlib.import_module(f"{package}.{module}")
            if hasattr(loaded, name):
                value = getattr(loaded, name)
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} promises {name!r}, and none of its modules has it")

    return found


def shown_in(module: str, names: Iterable[str], never_stored: bool = False) -> None:
    """Let classes say that they are of ``module``, where users find them, and not of where they are written.

    They are pickled under that name from then on, with the classes within them, and loaded under both.
    Plain data keeps its name, unless nobody stores it: snapshots hold it, and keys are compared by it.
    """
    for name in names:
        kind = getattr(sys.modules[module], name)
        if isinstance(kind, type) and kind.__qualname__ == name:
            _show(kind, module, never_stored)


def _show(kind: type, module: str, never_stored: bool) -> None:
    if is_plain_data(kind) and not never_stored:
        return
    kind.__module__ = module
    for part in vars(kind).values():
        if isinstance(part, type) and part.__qualname__ == f"{kind.__qualname__}.{part.__name__}":
            _show(part, module, never_stored)


def _module_below(package: str, name: str) -> Any:
    full = f"{package}.{name}"
    try:
        if name.startswith("__"):
            raise ModuleNotFoundError(name=full)
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
