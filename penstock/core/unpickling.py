"""Unpickling what was stored: only what a snapshot may hold is ever looked up.

A pickle names functions and calls them, so whoever can change a snapshot could run code wherever it is
restored.  Here every name passes :func:`resolved`, which knows four kinds:

* data types of the standard library, numpy, pyarrow and pandas, each by its name (:mod:`known_types`);
* classes of Penstock that are plain data: dataclasses, enums, named tuples;
* classes of the program: of its script, of modules that are its own, and those it imports by name;
* what the setting :data:`SETTING` allows.

Functions of the program are none of these, nor is anything else of the standard library, whoever imports it.
Classes that were pickled by value, as older versions did with those of scripts and as is done with classes
made within a function, are taken for the class that this process has; their code is never built.
"""

from __future__ import annotations

import fnmatch
import importlib
import io
import pickle
import re
import sys
import sysconfig
import zoneinfo
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from cloudpickle import cloudpickle as by_value

from penstock.core import careful_arrays
from penstock.core.errors import SnapshotError
from penstock.core.former_modules import FORMER
from penstock.core.known_types import KNOWN, OWN, found_under, is_named, is_plain_data
from penstock.core.pickling import SCRIPT

SETTING = "penstock.restore.allowed-classes"


class Allowed(NamedTuple):
    """What a program may have stored, as its driver knows it."""

    patterns: tuple[str, ...] = ()
    """Full names, or patterns of them, that the user allows."""
    modules: tuple[str, ...] = ()
    """The program's own modules."""
    imported: tuple[tuple[str, str], ...] = ()
    """Classes of installed packages that these import by name."""


_MAY_NAME = re.compile(rb"[\n\x82-\x84\x93]")
"""Bytes of every pickle that looks a name up: the opcodes ``STACK_GLOBAL`` and ``EXT``, and the line breaks
behind the names of ``GLOBAL`` and ``INST``."""
_HAS_CLASSES = re.compile(rb"_make_skeleton_")
_patterns: set[str] = set()
_modules: set[str] = set()
_imported: set[tuple[str, str]] = set()
_resolved: dict[tuple[str, str], Any] = {}


def allow(allowed: Allowed) -> None:
    """Let this process restore what the program may have stored, on top of what it may already."""
    _patterns.update(allowed.patterns)
    _modules.update(allowed.modules)
    _imported.update(allowed.imported)


def allowed_by_program(setting: str | None) -> Allowed:
    """What the program that runs here may have stored; ``setting`` is the user's list."""
    patterns = tuple(part.strip() for part in (setting or "").split(",") if part.strip())
    loaded = sys.modules.copy().items()
    modules = tuple(name for name, module in loaded if _is_own(name, getattr(module, "__file__", None)))
    # Every job asks, and many modules import the same: each class is looked at once.
    kinds = {
        id(kind): kind
        for name in (SCRIPT, *modules)
        for kind in list(vars(sys.modules[name]).values())
        if isinstance(kind, type)
    }
    found = {
        (kind.__module__, kind.__qualname__)
        for kind in kinds.values()
        if _is_foreign(kind.__module__) and is_named(kind)
    }
    return Allowed(patterns, modules, tuple(sorted(found)))


def loads_stored(data: Any) -> Any:
    """The object, if all that it names may be in a snapshot; else a :class:`SnapshotError`."""
    if _MAY_NAME.search(data) is None:
        return pickle.loads(data)
    has_classes = _HAS_CLASSES.search(data) is not None
    try:
        try:
            return (_StoredWithClasses if has_classes else _Stored)(io.BytesIO(data)).load()
        except _WithArrays:
            return careful_arrays.load(data, _with_classes if has_classes else resolved)
    except careful_arrays.Unsound as error:
        raise SnapshotError(
            f"the snapshot holds an array that neither numpy nor Arrow would have written ({error}): loading "
            "it could run whatever code its writer chose. Do not use it"
        ) from None


def resolved(module: str, name: str) -> Any:
    """What a stored pickle means by a name."""
    found = _resolved.get((module, name))
    if found is None:
        found = _find(FORMER.get(module, module), name)
        if module != SCRIPT:  # a driver may define its classes anew
            _resolved[module, name] = found
    return found


class _WithArrays(Exception):
    """A pickle names something of numpy: another unpickler is for it."""


def _named(module: str, name: str) -> Any:
    if module.startswith("numpy"):
        raise _WithArrays
    return resolved(module, name)


class _Stored(pickle.Unpickler):
    find_class = staticmethod(_named)


class _StoredWithClasses(pickle.Unpickler):
    """For classes that were pickled by value: all that their code is made of does nothing."""

    def find_class(self, module: str, name: str) -> Any:
        return _with_classes(module, name, _named)


def _with_classes(module: str, name: str, others: Callable[[str, str], Any] = resolved) -> Any:
    if module.startswith("cloudpickle."):
        return _BY_VALUE.get(name, _inert)
    return _inert if (module, name) in _PARTS_OF_CODE else others(module, name)


def _find(module: str, name: str) -> Any:
    if (module, name) in _INSTEAD:
        return _INSTEAD[module, name]
    if name in KNOWN.get(module, ()) or _is_allowed(module, name):
        return _looked_up(module, name)
    if module.partition(".")[0] == "penstock":
        found = _looked_up(module, name)
        if (module, name) in OWN or is_plain_data(found):
            return found
    elif module == SCRIPT or module in _modules or is_of_program(module):
        found = _looked_up(module, name)
        if isinstance(found, type) and (found.__module__, found.__qualname__) == (module, name):
            return found
    elif module not in sys.modules and _is_nowhere(module):
        raise ModuleNotFoundError(f"No module named {module!r}")
    raise _refused(f"{module}.{name}")


def _part_of(whole: Any, name: str) -> Any:
    """In place of ``getattr``: the one method that data types of the standard library are made by."""
    if whole is zoneinfo.ZoneInfo and name == "_unpickle":
        return zoneinfo.ZoneInfo._unpickle  # type: ignore[attr-defined]
    raise _refused(f"{name} of {whole!r}")


_INSTEAD = {("builtins", "getattr"): _part_of, ("pyarrow.lib", "_restore_array"): careful_arrays.arrow_array}


def _looked_up(module: str, name: str) -> Any:
    """As pickle does it."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise AttributeError(f"Can't get attribute {name!r} on module {module!r}")
        found = getattr(found, part)
    return found


def _is_allowed(module: str, name: str) -> bool:
    full = f"{module}.{name}"
    return (module, name) in _imported or any(fnmatch.fnmatchcase(full, each) for each in _patterns)


def _refused(name: str) -> SnapshotError:
    return SnapshotError(
        f"the snapshot names {name}, which is no class of this program and no plain data: loading it could "
        "run whatever code its writer chose. If others may have changed the snapshot, do not use it. If "
        f"{name} is yours, import it by name in the program, or add its name to {SETTING}"
    )


# --- whose a module is --------------------------------------------------------------------------

_NEVER = sys.stdlib_module_names | {"penstock", "pyspark", "py4j", "cloudpickle"}
"""Wherever they lie: Spark, for one, brings its own packages along."""
_PACKAGES = {"site-packages", "dist-packages"}


def is_of_program(name: str) -> bool:
    """Whether a loaded module is the program's own: it comes from a place where nothing is installed."""
    return _is_own(name, getattr(sys.modules.get(name), "__file__", None))


@lru_cache(65536)  # above what a process has loaded: each job asks for all of that, one after the other
def _is_own(name: str, origin: str | None) -> bool:
    if name == SCRIPT:
        return True
    return bool(origin) and name.partition(".")[0] not in _NEVER and not _is_installed(str(origin))


def _is_installed(origin: str) -> bool:
    place = Path(origin).resolve()
    return not _PACKAGES.isdisjoint(place.parts) or any(root in place.parents for root in _installed())


def _is_foreign(module: str) -> bool:
    """Whether it is of an installed package, but not of the standard library, nor of Penstock."""
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top != "penstock" and not is_of_program(module)


def _is_nowhere(module: str) -> bool:
    top = module.partition(".")[0]
    if top in sys.modules or top in sys.stdlib_module_names:
        return False
    try:
        return all(finder.find_spec(top, None) is None for finder in sys.meta_path)
    except (ImportError, ValueError, AttributeError):
        return False


@lru_cache(1)
def _installed() -> tuple[Path, ...]:
    return tuple({Path(path).resolve() for path in sysconfig.get_paths().values()})


# --- classes that were pickled by value -----------------------------------------------------------


class _Inert:
    """Stands for a part of a class that was pickled by value: it does nothing, whatever is done to it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> _Inert:
        return self

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


_inert = _Inert()
_PARTS_OF_CODE = {("types", "CodeType")} | {
    ("builtins", name) for name in ("classmethod", "getattr", "property", "staticmethod", "super", "type")
}


def _class(kind: Any, name: str, bases: Any, named: dict[str, Any], tracker: Any, extra: Any) -> Any:
    return _known_class(named.get("__module__"), named.get("__qualname__", name), tracker)


def _enum(bases: Any, name: str, qualname: str, members: Any, module: str, tracker: Any, extra: Any) -> Any:
    return _known_class(module, qualname, tracker)


def _known_class(module: Any, qualname: Any, tracker: Any) -> type:
    """The very class if this process has it, else the script's of that name."""
    here = by_value._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker)
    found = found_under(SCRIPT, qualname) if here is None and module == SCRIPT else here
    if not isinstance(found, type):
        raise _refused(f"{module}.{qualname}, a class that was stored with its code,")
    return found


def _known_state(kind: Any, state: Any) -> Any:
    return kind


_BY_VALUE = {
    "_make_skeleton_class": _class,
    "_make_skeleton_enum": _enum,
    "_class_setstate": _known_state,
}
