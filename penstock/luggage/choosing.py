"""Of the modules that travelled, those that a worker lacks: what it has by itself is never hidden."""

from __future__ import annotations

import hashlib
import importlib.machinery
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import ConfigError
from penstock.luggage.outfit import Parcel, place_of_executor
from penstock.luggage.tree import Member, digest, members
from penstock.luggage.unpacking import once, unpack


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
