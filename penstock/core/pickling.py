"""Pickling of users' objects.

Classes that a program defines in its own script live in ``__main__``, which is another module in a slot.  So
a program travels with the classes of its script (:func:`ship`), and where it arrives they are
put where pickle looks for them.  From then on objects of such classes are pickled by the name of the
class, there as in the driver: an object that was stored is one of the class that the program has *now*, in
this run or in a later one.

Objects of classes without a name (made within a function) are pickled with their class, by the much slower
way.  Older versions pickled all classes of scripts so; :func:`loads` takes them for the class of that name.
"""

from __future__ import annotations

import io
import logging
import pickle
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import cloudpickle
from cloudpickle import cloudpickle as by_value

from penstock.core.names import found_under, is_named

_log = logging.getLogger("penstock")

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
