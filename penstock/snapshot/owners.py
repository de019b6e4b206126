"""Who may change what lies in a local directory: a snapshot is as good as everybody who can write there.

Asked on the driver, before anything is read: of the directory and of those above it.  Slots read only what
the driver's manifest names, with its checksums.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

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
    resolved = place.resolve()
    for directory in (resolved, *resolved.parents):
        problem = _problem(directory, sticky_will_do=directory != resolved or place != local.absolute())
        if problem is not None:
            raise ConfigError(
                f"{local} cannot hold snapshots that are restored: {directory} {problem}, who could put "
                "anything there, and restoring it could run their code. Choose a directory that only you can "
                f"write to, or set it right (chown, chmod go-w {directory}); if you trust everybody who can "
                f"write there, set {SETTING}: true"
            )


def _problem(directory: Path, sticky_will_do: bool) -> str | None:
    found = directory.stat()
    me = os.geteuid()
    if found.st_uid not in (me, 0):
        return f"belongs to {_user(found.st_uid)}"
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
