"""What Penstock has under a name of PyFlink: the modules themselves are asked, so it is never old."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

FROM, TO = "pyflink", "penstock"


class Absent(Exception):
    """There is nothing under this name; ``args[0]`` is PyFlink's name of the first part that is missing."""


def renamed(name: str) -> str:
    """``pyflink.common`` is ``penstock.common``."""
    return TO + name.removeprefix(FROM)


def is_pyflink(name: str | None) -> bool:
    """Whether a dotted name begins with PyFlink's package."""
    return name is not None and name.split(".")[0] == FROM


@cache
def module(name: str) -> Any:
    """The module that stands where ``name`` stands in PyFlink. Raises :class:`Absent`."""
    try:
        return importlib.import_module(renamed(name))
    except ImportError:
        parent = name.rpartition(".")[0]
        if parent:
            module(parent)  # names the outermost that is missing
        raise Absent(name) from None


def member(owner: Any, name: str, dotted: str) -> Any:
    """What ``owner.name`` is, a submodule included; ``dotted`` is its name in PyFlink."""
    try:
        return inspect.getattr_static(owner, name)
    except AttributeError:
        pass
    try:
        return getattr(owner, name)
    except AttributeError:
        if inspect.ismodule(owner) and hasattr(owner, "__path__"):
            return module(f"{FROM}{owner.__name__.removeprefix(TO)}.{name}")
    raise Absent(dotted)


def follow(start: Any, dotted: str, attributes: Sequence[str]) -> Any:
    """Go down from ``start`` from modules and classes to their members; of objects only a run would tell."""
    reached = start
    for name in attributes:
        if not (inspect.ismodule(reached) or inspect.isclass(reached)):
            return None
        dotted = f"{dotted}.{name}"
        reached = member(reached, name, dotted)
        if isinstance(reached, staticmethod | classmethod | property):
            return None
    return reached


def refuses(function: Any) -> bool:
    """Whether ``function`` is there to be imported only: a call always raises."""
    return inspect.isfunction(function) and function.__annotations__.get("return") in ("NoReturn", NoReturn)
