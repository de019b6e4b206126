"""On the driver: modules laid out as they will be imported."""

from __future__ import annotations

import hashlib
import importlib.machinery
import os
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import ConfigError
from penstock.luggage.archives import Member, digest, file_digest, is_compiled, members, once, unpack
from penstock.luggage.arrival import Top, platform
from penstock.luggage.found import SUFFIXES, Found, is_installed

MOST_FILES = 50_000
MOST_BYTES = 2 << 30
_ZIPS = (".zip", ".whl", ".egg")


@dataclass(frozen=True, slots=True)
class Staged:
    """A directory, and which of those in it come before what is installed, and which behind it."""

    directory: Path
    front: tuple[str, ...] = ("",)
    back: tuple[str, ...] = ()

    def fronts(self) -> list[str]:
        """As paths."""
        return [str(self.directory / name) for name in self.front]

    def backs(self) -> list[str]:
        """As paths."""
        return [str(self.directory / name) for name in self.back]


def staged_file(source: Path, place: Path) -> Staged:
    """A file or directory as PyFlink puts it on the path.

    A zip is unpacked.  A directory is on the path itself; if it is a package, it can also be imported by its
    name, and its own modules, as top-level ones, come last so that they hide nothing.
    """
    if source.is_file() and source.suffix in _ZIPS and zipfile.is_zipfile(source):
        return staged_archive(source, "", place)
    name = f"stage-{hashlib.sha256(os.fsencode(source)).hexdigest()[:24]}"
    stage = once(place, name, lambda target: (target / source.name).symlink_to(source))
    if not source.is_dir():
        return Staged(stage)
    if (source / "__init__.py").is_file():
        return Staged(stage, ("",), (source.name,))
    return Staged(stage, (source.name,), ("",))


def staged_archive(source: Path, prefix: str, place: Path) -> Staged:
    """An archive that modules are imported from, unpacked."""
    name = f"zip-{file_digest(source)[:24]}"
    return Staged(once(place, name, lambda target: unpack(source, target)), (prefix,))


def staged_module(found: Found, place: Path) -> list[Staged]:
    """A module that no path of the driver leads to: links to where it is."""
    stages = []
    for path in found.paths:
        key = hashlib.sha256(os.fsencode(f"{found.name}\0{path}")).hexdigest()[:24]
        name = found.name if found.is_package else file_name(found)

        def make(target: Path, name: str = name, path: Path = path) -> None:
            (target / name).symlink_to(path)

        stages.append(Staged(once(place, f"module-{key}", make)))
    return stages


def file_name(found: Found) -> str:
    """Under which name the file of a module is found, whatever it is called where it lies."""
    name = found.paths[0].name
    return found.name + next(suffix for suffix in SUFFIXES if name.endswith(suffix))


def contents(found: Found) -> Iterator[Member]:
    """The files of a module, under the names by which it is imported; of equal names the first counts."""
    if not found.is_package:
        yield from members(found.paths[0], file_name(found))
        return
    known: set[str] = set()
    for path in found.paths:
        for member in members(path, found.name):
            if member.name not in known:
                known.add(member.name)
                yield member


def travelling(found: Found) -> list[Member]:
    """The files of a module for other machines; a directory that only looks like one is refused."""
    files: list[Member] = []
    size = 0
    for member in contents(found):
        files.append(member)
        size += member.size
        if len(files) > MOST_FILES or size > MOST_BYTES:
            raise ConfigError(
                f"the module {found.name!r} ({found.paths[0]}) is too large to travel with the job: it has "
                f"more than {MOST_FILES} files or {MOST_BYTES >> 30} GB. Keep data elsewhere than beside "
                "modules, or install the package where the executors run and import it from there"
            )
    return files


def top_of(found: Found, files: list[Member]) -> Top:
    """What a worker compares its own module with."""
    return Top(found.name, digest(files), platform() if is_compiled(files) else None)


# --- the driver's own path ----------------------------------------------------------------------


def own_path() -> tuple[list[str], list[str]]:
    """What this process has on its path beyond what is installed: before that, and behind it."""
    front: list[str] = []
    back: list[str] = []
    behind = False
    for entry in sys.path:
        path = Path(entry).absolute()
        if is_installed(path):
            behind = True
        elif path.exists() or any(above.is_file() for above in path.parents):
            (back if behind else front).append(str(path))
    return front, back


def unreachable(found: list[Found]) -> list[Found]:
    """Those that this process has not from its path, nor from what is installed as editable."""
    return [one for one in found if not _is_on_path(one) and not _is_editable(one)]


def _is_on_path(found: Found) -> bool:
    spec = importlib.machinery.PathFinder.find_spec(found.name, sys.path)
    return spec is not None and _is_of(spec, found)


def _is_editable(found: Found) -> bool:
    """Whether a hook of an editable installation finds it: a worker of the same Python has the same hook."""
    for finder in sys.meta_path:
        kind = finder if isinstance(finder, type) else type(finder)
        if kind.__module__.startswith("__editable__"):
            spec = finder.find_spec(found.name, None, None)
            if spec is not None and _is_of(spec, found):
                return True
    return False


def _is_of(spec: importlib.machinery.ModuleSpec, found: Found) -> bool:
    if found.prefix is not None:
        return getattr(spec.loader, "archive", None) == str(found.paths[0])
    places = spec.submodule_search_locations if found.is_package else [spec.origin]
    known = {os.path.realpath(place) for place in places or () if place}
    return known >= {os.path.realpath(path) for path in found.paths}
