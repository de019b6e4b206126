"""In a worker: the program's modules on its path, and the functions' working directory.

Workers are used again, by other jobs and by the same with edited modules.  So when the luggage is another
than before, what was imported from the old one is forgotten, and nothing else is.

Of the modules that travelled a worker takes those that it lacks: what it has by itself is never hidden.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.core.errors import ConfigError
from penstock.luggage.archives import Member, digest, members, once, unpack
from penstock.luggage.found import ENGINE, is_installed
from penstock.luggage.outfit import WORK, Parcel, place_of_executor


@dataclass(frozen=True, slots=True)
class Top:
    """A top-level module in a parcel; ``platform`` if it has compiled parts."""

    name: str
    digest: str
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class Modules:
    """A parcel of modules; of its ``tops``, if they are known, a worker takes what it lacks."""

    parcel: Parcel
    tops: tuple[Top, ...] = ()
    front: tuple[str, ...] = ("",)
    """Directories in it that come before what is installed; ``back``: behind it."""
    back: tuple[str, ...] = ()


def platform() -> str:
    """What compiled modules are made for: they fit where this is the same."""
    return f"{sysconfig.get_platform()} {sys.implementation.cache_tag}"


def unpacked(modules: Modules, here: str) -> Path | None:
    """The directory for the path; ``None`` if this machine has all of it by itself."""
    missing = sorted(top.name for top in modules.tops if not _is_here(top))
    if modules.tops and not missing:
        return None
    place, parcel = place_of_executor(), modules.parcel
    name = f"modules-{parcel.digest[:24]}"
    whole = once(place, name, lambda target: unpack(parcel.path(here), target, parcel.called))
    if len(missing) == len(modules.tops):
        return whole
    choice = hashlib.sha256("\0".join(missing).encode()).hexdigest()[:16]
    return once(place, f"{name}-{choice}", lambda target: _choose(whole, missing, target))


def _choose(whole: Path, names: list[str], target: Path) -> None:
    for entry in whole.iterdir():
        if entry.name.partition(".")[0] in names:
            (target / entry.name).symlink_to(entry)


def _is_here(top: Top) -> bool:
    """Whether a worker has the same module, or one of its own that fits where the compiled one does not."""
    own = _own(top.name)
    if own is not None and digest(own) == top.digest:
        return True
    if top.platform in (None, platform()):
        return False
    if own is not None:
        return True
    raise ConfigError(
        f"the module {top.name!r} has compiled parts for {top.platform}, and the executors are {platform()}. "
        "Install it where they run, or give a wheel or its source by env.set_python_requirements()"
    )


def _own(name: str) -> list[Member] | None:
    spec = importlib.machinery.PathFinder.find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        places = [Path(place) for place in spec.submodule_search_locations]
        return [member for place in places if place.is_dir() for member in members(place, name)]
    origin = Path(spec.origin) if spec.has_location and spec.origin else None
    return list(members(origin)) if origin is not None and origin.is_file() else None


@dataclass(frozen=True, slots=True)
class Luggage:
    """What a worker needs on its path."""

    front: tuple[str, ...] = ()
    """Directories of this machine, before what is installed; ``back``: behind it."""
    back: tuple[str, ...] = ()
    modules: tuple[Modules, ...] = ()
    fingerprint: str = ""
    """Another one if a module was edited where it lies."""

    def to_json(self) -> str:
        """As text, for :meth:`from_json`."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Luggage:
        """What :meth:`to_json` wrote."""
        told = json.loads(text)
        modules = tuple(
            Modules(
                Parcel(**one["parcel"]),
                tuple(Top(**top) for top in one["tops"]),
                tuple(one["front"]),
                tuple(one["back"]),
            )
            for one in told["modules"]
        )
        return Luggage(tuple(told["front"]), tuple(told["back"]), modules, told["fingerprint"])


class Hands:
    """What a process carries, and can put down again."""

    def __init__(self) -> None:
        self._carried: list[str] = []
        """All its directories, whether or not they were on the path before."""
        self._added: list[str] = []

    def take_up(self, luggage: Luggage, here: str) -> None:
        """Put the modules on this process's path; ``here`` is where files arrived."""
        front, back = [*luggage.front], [*luggage.back]
        for one in luggage.modules:
            base = unpacked(one, here)
            if base is not None:
                front += [str(base / name) for name in one.front]
                back += [str(base / name) for name in one.back]
        new = [path for path in dict.fromkeys(front) if path not in sys.path]
        last = [path for path in dict.fromkeys(back) if path not in sys.path and path not in new]
        sys.path[1:1] = new
        sys.path += last
        self._added, self._carried = new + last, front + back
        importlib.invalidate_caches()

    def put_down(self) -> None:
        """Forget the modules that came with the luggage, and where they are."""
        for path in self._added:
            if path in sys.path:
                sys.path.remove(path)
        below = tuple(path + os.sep for path in self._carried)
        # All are looked at before any is gone: where a namespace within another one is, its parent says.
        for name in [name for name, module in sys.modules.copy().items() if _goes(name, module, below)]:
            del sys.modules[name]
        for known in [*sys.path_importer_cache]:
            if (known + os.sep).startswith(below):
                del sys.path_importer_cache[known]
        self._added, self._carried = [], []


_hands = Hands()
_text = Luggage().to_json()


@contextmanager
def carrying(luggage: str, here: str) -> Iterator[None]:
    """A slot or task of a job with this luggage, in JSON; ``here`` is where Spark puts files."""
    global _text
    if luggage != _text:
        _hands.put_down()
        _text = ""
        _hands.take_up(Luggage.from_json(luggage), str(Path(here).absolute()))
        _text = luggage
    work = os.environ.get(WORK)
    if work is not None:
        _hold_on()
    with at_work(work):
        yield


def _hold_on() -> None:
    """Spark names its files by paths that only hold in its own directory: also those that are loaded."""
    sys.path[:] = dict.fromkeys(map(_absolute, sys.path))
    for module in sys.modules.copy().values():
        places = getattr(module, "__dict__", {}).get("__path__")
        if isinstance(places, list) and all(isinstance(place, str) for place in places):
            places[:] = map(_absolute, places)


def _absolute(entry: str) -> str:
    """What names nothing, not even in an archive, may still mean something to a hook."""
    path = Path(entry)
    if not entry or path.is_absolute():
        return entry
    there = path.exists() or any(above.is_file() for above in path.parents)
    return str(path.absolute()) if there else entry


def _goes(name: str, module: object, below: tuple[str, ...]) -> bool:
    return name.partition(".")[0] not in ENGINE | {"__main__"} and _comes_from(module, below)


def _comes_from(module: object, below: tuple[str, ...]) -> bool:
    origin = getattr(module, "__file__", None)
    try:
        places = [origin] if isinstance(origin, str) else [*map(str, getattr(module, "__path__", ()))]
    except Exception:  # a module may put anything there
        return False
    return any(place.startswith(below) and not is_installed(place) for place in places)


@contextmanager
def at_work(work: str | None) -> Iterator[None]:
    """Functions run where the job's archives were unpacked, if it has some."""
    if work is None:
        yield
        return
    before = Path.cwd()
    os.chdir(work)
    try:
        yield
    finally:
        os.chdir(before)
