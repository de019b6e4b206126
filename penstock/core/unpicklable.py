"""What of an object cannot be pickled, found by trying its parts.  For error messages only: it is slow."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.errors import SnapshotError
from penstock.core.pickling import dumps

_DEEPEST = 30


def stored(value: Any, what: str, dump: Callable[[Any], bytes] = dumps) -> bytes:
    """The bytes of state; what cannot be pickled in it is named."""
    try:
        return dump(value)
    except Exception as error:
        raise SnapshotError(
            f"{what} cannot be stored: {culprit(value)}, which cannot be pickled ({error}). Keep only data "
            "in state, and make files, locks and connections in the function's open()"
        ) from error


def culprit(value: Any) -> str:
    """``field 'lock' of Counter is a lock``: the innermost part that cannot be pickled."""
    where = ""
    seen: set[int] = set()
    for _ in range(_DEEPEST):
        seen.add(id(value))
        parts = ((name, part) for name, part in _parts(value) if id(part) not in seen and _fails(part))
        name, part = next(parts, ("", None))
        if not name:
            break
        where, value = f"{name} of {_called(value)}", part
    kind = f"a {type(value).__name__}"
    return f"{where} is {kind}" if where else f"it is {kind}"


def _fails(value: Any) -> bool:
    try:
        dumps(value)
    except Exception:
        return True
    return False


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What pickling a value pickles with it, as far as Python shows it."""
    if isinstance(value, dict):
        for key, part in list(value.items()):
            yield f"key {key!r}", key
            yield f"entry {key!r}", part
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"element {number}", part) for number, part in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from (("the function", part) for part in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, types.MethodType):
        yield "the object", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _variables(value)
    elif isinstance(value, type):
        yield from ((f"attribute {name!r}", part) for name, part in vars(value).items())
    else:
        yield from _fields(value)


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        if cell.cell_contents is not function:
            yield f"variable {name!r}", cell.cell_contents
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield f"variable {name!r}", function.__globals__[name]
    yield from (("a default value", part) for part in function.__defaults__ or ())


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names(inner)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                found[name] = getattr(value, name)
    yield from ((f"field {name!r}", part) for name, part in found.items())


def _called(value: Any) -> str:
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return f"function {value.__qualname__.removeprefix('<locals>.')!r}"
    return value.__name__ if isinstance(value, type) else f"a {type(value).__name__}"
