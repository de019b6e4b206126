"""Pickling of users' objects, and what of them cannot be pickled.

Classes that a program defines in its own script live in ``__main__``, which is another module in a slot.  So
a program travels with the classes of its script (:func:`ship`), and where it arrives they are
put where pickle looks for them.  From then on objects of such classes are pickled by the name of the
class, there as in the driver: an object that was stored is one of the class that the program has *now*, in
this run or in a later one.

Objects of classes without a name (made within a function) are pickled with their class, by the much slower
way.  Older versions pickled all classes of scripts so; :func:`loads` takes them for the class of that name.

What cannot be pickled is found by trying the parts (:func:`culprit`): slow, and for error messages only.
"""

from __future__ import annotations

import functools
import io
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cloudpickle
from cloudpickle import cloudpickle as by_value

from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import SnapshotError
from penstock.core.known_types import found_under, is_named

_log = log_of(__name__)

SCRIPT = "__main__"
_MAKER = by_value._make_skeleton_class
_MOST_BYTES = 1 << 20
"""A class that is larger, by what its methods refer to, travels only if the program needs it."""
_HAS_CLASSES = re.compile(rb"_make_skeleton_")


def dumps(value: Any) -> bytes:
    """Bytes of any object that can be pickled at all."""
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        file = io.BytesIO()
        _WithClasses(file).dump(value)
        return file.getvalue()


class _WithClasses(cloudpickle.Pickler):  # type: ignore[misc]
    """Says of a class without a name where it was made, lest it be taken for one of the script's."""

    def reducer_override(self, obj: Any) -> Any:
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and reduced is not NotImplemented and reduced[0] is _MAKER:
            reduced[1][3].setdefault("__qualname__", obj.__qualname__)
        return reduced


def loads(data: Any) -> Any:
    """The object; what was pickled with its class gets the class of that name that the script has now."""
    if _HAS_CLASSES.search(data) is None:
        return pickle.loads(data)
    return _ByName(io.BytesIO(data)).load()


# --- programs -----------------------------------------------------------------------------------


def ship(program: Any) -> bytes:
    """The bytes of functions and all they need, and the classes of the script.

    Whoever unpickles them finds these classes by name from then on.
    """
    file = io.BytesIO()
    pickler = _Shipper(file)
    pickler.dump((program, pickler.named))
    return pickle.dumps(_Cargo(file.getvalue(), dict(_other_classes(pickler.named))), protocol=5)


class _Cargo(NamedTuple):
    program: bytes
    """The program, and the classes it needs by name."""
    others: dict[str, bytes]
    """The script's other classes, one by one: what the program does not need must not be its ruin."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unload, tuple(self)


def _unload(program: bytes, others: dict[str, bytes]) -> Any:
    for qualname, data in others.items():
        try:
            _place(pickle.loads(data)[1])
        except Exception as error:
            _log.info("the script's class %s cannot be made here, and is left out: %r", qualname, error)
    # Last: where both bring a class, its methods and those of the program share what they refer to.
    loaded, classes = pickle.loads(program)
    _place(classes)
    return loaded


def _place(classes: dict[str, type]) -> None:
    script = sys.modules[SCRIPT]
    for qualname, kind in classes.items():
        kind.__qualname__ = qualname
        if "." not in qualname and getattr(script, qualname, None) is not kind:
            setattr(script, qualname, kind)


class _Shipper(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles the script's functions and classes with what they refer to, and remembers the classes."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.named: dict[str, type] = {}
        """Filled while other things are pickled, and pickled behind them."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ == SCRIPT and is_named(obj):
            self.named[obj.__qualname__] = obj
        return super().reducer_override(obj)


def _other_classes(known: dict[str, type]) -> Iterator[tuple[str, bytes]]:
    """The other classes at the top level of the script that can travel: stored objects may be of them."""
    for kind in list(vars(sys.modules[SCRIPT]).values()):
        if not isinstance(kind, type) or kind.__module__ != SCRIPT or not is_named(kind):
            continue
        if kind.__qualname__ not in known:
            file = _Limited()
            pickler = _Shipper(file)
            try:
                pickler.dump((kind, pickler.named))
            except Exception:
                continue
            yield kind.__qualname__, file.getvalue()


class _Limited(io.BytesIO):
    """Bytes of a class, up to what one may have: more is not even gathered."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > _MOST_BYTES:
            raise OverflowError
        return super().write(data)


# --- what older versions wrote ------------------------------------------------------------------


class _ByName(pickle.Unpickler):
    """Takes classes that were pickled with an object for those that the script has under their names."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("cloudpickle."):
            return _MAKERS.get(name) or super().find_class(module, name)
        return super().find_class(module, name)


def _known(module: Any, name: str, tracker: Any) -> type | None:
    """The script's class of that name, unless this very class is in this process already."""
    if module != SCRIPT or tracker in by_value._DYNAMIC_CLASS_TRACKER_BY_ID:
        return None
    found = found_under(SCRIPT, name)
    return found if isinstance(found, type) and found.__module__ == SCRIPT else None


def _class(kind: Any, name: str, bases: Any, named: dict[str, Any], tracker: Any, extra: Any) -> Any:
    known = _known(named.get("__module__"), named.get("__qualname__", name), tracker)
    return known or by_value._make_skeleton_class(kind, name, bases, named, tracker, extra)


def _enum(bases: Any, name: str, qualname: str, members: Any, module: str, tracker: Any, extra: Any) -> Any:
    known = _known(module, qualname, tracker)
    return known or by_value._make_skeleton_enum(bases, name, qualname, members, module, tracker, extra)


def _set_state(kind: Any, state: Any) -> Any:
    if kind.__module__ == SCRIPT and is_named(kind):
        return kind
    return by_value._class_setstate(kind, state)


_MAKERS = {"_make_skeleton_class": _class, "_make_skeleton_enum": _enum, "_class_setstate": _set_state}


_DEEPEST = 30


def stored(value: Any, what: str, dump: Callable[[Any], bytes] = dumps) -> bytes:
    """The bytes of state; what cannot be pickled in it is named."""
    try:
        return dump(value)
    except Exception as error:
        raise SnapshotError(
            f"{what} cannot be stored: {culprit(value)}, which cannot be pickled ({error}). Keep only data "
            "in state, and make files, locks and connections in the function's open()",
            code=Code.STATE_NOT_PICKLABLE,
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
