"""The modules that are the program's own: imported, or yet to be, from where nothing is installed."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import site
import sys
import sysconfig
import zipimport
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType

_KINDS = ("stdlib", "platstdlib", "purelib", "platlib")
ENGINE = frozenset({"penstock", "pyspark", "py4j"})
"""Top-level names that are never a program's own, wherever they were imported from."""
_NOT_MODULES = frozenset({"__main__", "__mp_main__"})
SUFFIXES = sorted(importlib.machinery.all_suffixes(), key=len, reverse=True)


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


@dataclass(frozen=True, slots=True)
class Found:
    """A top-level module: a file, the directories of a package, or the archive that it was imported from."""

    name: str
    paths: tuple[Path, ...]
    is_package: bool
    prefix: str | None = None
    """Below which directory of the archive it is."""


def user_modules() -> list[Found]:
    """Those that are loaded, and those that functions of the script and of loaded modules import later."""
    # Threads of jobs that run already import modules: only a copy of the whole dictionary is one step.
    loaded = sys.modules.copy()
    found = {name: _of_module(name, module) for name, module in loaded.items() if "." not in name}
    mine = {name: one for name, one in found.items() if one is not None}
    sources = [_source(module) for name, module in loaded.items() if name.partition(".")[0] in mine]
    sources.append(_source(loaded.get("__main__")))
    waiting = [source for source in sources if source is not None]
    while waiting:
        for name in _imported_by(*_mark(waiting.pop())):
            if name not in loaded and name not in mine and name not in ENGINE:
                one = _not_loaded(name)
                if one is not None:
                    mine[name] = one
                    waiting += [path for path in one.paths if path.suffix == ".py"]
    return sorted(mine.values(), key=lambda one: one.name)


def _of_module(name: str, module: ModuleType) -> Found | None:
    if name in ENGINE | _NOT_MODULES:
        return None
    loader, origin = getattr(module, "__loader__", None), getattr(module, "__file__", None)
    if isinstance(loader, zipimport.zipimporter):
        return _found(name, [loader.archive], is_package=False, prefix=loader.prefix)
    try:
        places = [str(place) for place in getattr(module, "__path__", ())]
    except Exception:  # a module may put anything there
        return None
    if places:
        return _found(name, places, is_package=True)
    if not isinstance(origin, str) or not origin.endswith(tuple(SUFFIXES)):
        return None
    return _found(name, [origin], is_package=False)


def _not_loaded(name: str) -> Found | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or isinstance(spec.loader, zipimport.zipimporter):
        return None
    if spec.submodule_search_locations is not None:
        # Any directory would do for a namespace: only a package that says so is taken for one unseen.
        return _found(name, list(spec.submodule_search_locations), True) if spec.origin else None
    return _found(name, [spec.origin], False) if spec.has_location and spec.origin else None


def _found(name: str, places: list[str], is_package: bool, prefix: str | None = None) -> Found | None:
    paths = tuple(Path(place).absolute() for place in places if not is_installed(place))
    there = tuple(path for path in paths if (path.is_dir() if is_package else path.is_file()))
    return Found(name, there, is_package, prefix) if there else None


def _source(module: ModuleType | None) -> Path | None:
    origin = getattr(module, "__file__", None)
    path = Path(origin) if isinstance(origin, str) and origin.endswith(".py") else None
    return path if path is not None and path.is_file() and not is_installed(path) else None


def _mark(path: Path) -> tuple[Path, int]:
    return path, path.stat().st_mtime_ns


@lru_cache(maxsize=4096)
def _imported_by(path: Path, modified: int) -> frozenset[str]:
    """Top-level names that a file imports anywhere, also within functions."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return frozenset()
    return frozenset(_names(tree))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]
