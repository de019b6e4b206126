"""Who may change what lies in a local directory: a snapshot is as good as everybody who can write there.

Asked on the driver: of the directory and of those above it, before anything is read; and of the files of the
snapshot that is to be restored, for they may have been put there when the directory was open to others.
Slots read only what the driver's manifest names, with its checksums.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.snapshot.store import local_path

SETTING = "penstock.restore.others-may-write"


def check_owners(url: str) -> None:
    """Refuse a local directory if somebody else could plant or replace something in it.

    What is not there yet, or not local, passes: nobody has put anything into the one, and the other has
    rights of its own.
    """
    local = local_path(url)
    if local is None:
        return
    place = local.absolute()
    while not place.exists():
        place = place.parent
    last = place.resolve()
    for directory in _way_to(place):
        problem = _problem(directory, sticky_will_do=directory != last or place != local.absolute())
        if problem is not None:
            raise ConfigError(
                f"{local} cannot hold snapshots that are restored: {directory} {problem}, who could put "
                "anything there, and restoring it could run their code. Choose a directory that only you can "
                f"write to, or set it right (chown, chmod go-w {directory}); if you trust everybody who can "
                f"write there, set {SETTING}: true",
                code=Code.UNTRUSTED_PLACE,
            )


def check_files(root: str, paths: Iterable[str]) -> None:
    """Refuse files of a snapshot that somebody else has put there, or can change; ``root`` is checked."""
    local = local_path(root)
    if local is None:
        return
    files = [Path(path) for path in paths]
    inner = {above for path in files for above in path.parents if above.parts}
    for place in sorted(local / path for path in (*files, *inner)):
        problem = _problem(place, sticky_will_do=False) if os.path.lexists(place) else None
        if problem is not None:
            raise ConfigError(
                f"the snapshot in {local} is not restored: {place} {problem}, and restoring it could run "
                "their code. Restore one that only you could have written, or begin in an empty directory; "
                f"if you trust everybody who could write there, set {SETTING}: true",
                code=Code.UNTRUSTED_PLACE,
            )


def _way_to(place: Path) -> Iterator[Path]:
    """All that decides where a path leads: directories, links on the way, and where these lie and lead."""
    waiting, seen = [place], set[Path]()
    while waiting:
        path = waiting.pop()
        for above in (path, *path.parents):
            if above not in seen:
                seen.add(above)
                yield above.parent.resolve() / above.name if above.is_symlink() else above.resolve()
                if above.is_symlink():
                    waiting.append(above.parent / above.readlink())


def _problem(place: Path, sticky_will_do: bool) -> str | None:
    found = place.lstat()
    me = os.geteuid()
    if found.st_uid not in (me, 0):
        return f"belongs to {_user(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):  # its mode means nothing, and where it leads is asked as well
        return None
    if found.st_mode & stat.S_ISVTX and sticky_will_do:
        return None
    if found.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if found.st_mode & stat.S_IWGRP and not _is_alone_in(found.st_gid, me):
        return f"can be written by the group {_group(found.st_gid)}"
    return None


def _is_alone_in(group: int, user: int) -> bool:
    """Whether it is the group that many systems give each user: of the same name, with no other member."""
    try:
        me, members = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    return me.pw_gid == group and me.pw_name == members.gr_name and set(members.gr_mem) <= {me.pw_name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
