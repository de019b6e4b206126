"""On the driver: an outfit, of copies of what was asked for as it is when the job starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.luggage.installing import check_requirements
from penstock.luggage.outfit import Outfit, Parcel
from penstock.luggage.tree import digest, file_digest, members, pack
from penstock.luggage.wishes import Wishes
from penstock.storage.own_files import write_whole

Send = Callable[[Path], str]
"""Gets a file to the executors; the name it has there."""


def outfit_of(wishes: Wishes, place: Path, executable: str | None, send: Send | None) -> Outfit:
    """What was asked for; ``send`` is ``None`` if workers see the files of ``place``."""
    archives = tuple(
        (_copied(Path(archive.path), place, send), archive.target) for archive in wishes.archives
    )
    if wishes.requirements is None:
        return Outfit(archives, executable=executable)
    check_requirements(wishes.requirements.file)
    cached = None
    if wishes.requirements.cached is not None:
        cached = _zipped(Path(wishes.requirements.cached), place, send)
    requirements = _copied(Path(wishes.requirements.file), place, send)
    return Outfit(archives, requirements, cached, executable)


def _copied(source: Path, place: Path, send: Send | None) -> Parcel:
    known = file_digest(source)
    target = place / f"penstock-{known[:32]}-{source.name}"
    if not target.exists():
        with source.open("rb") as file:
            write_whole(target, lambda into: shutil.copyfileobj(file, into, 1 << 20))
    return Parcel(str(target) if send is None else send(target), known, str(source))


def _zipped(source: Path, place: Path, send: Send | None) -> Parcel:
    files = list(members(source))
    target = place / f"penstock-{digest(files)[:32]}.zip"
    if not target.exists():
        pack(files, target)
    return Parcel(str(target) if send is None else send(target), file_digest(target), str(source))
