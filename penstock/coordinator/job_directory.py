"""Whose directory is whose: where a job keeps its checkpoints, and whether what lies there is its own.

A directory is named by what can be read of the job's name, and by a hash of all of it.  Once it was the
readable part alone, which many names share: such a directory is still the job's if the snapshots in it say
so, and is left alone if they do not.  Why, and what was rejected: ``docs/design/018-job-identity.md``.
"""

from __future__ import annotations

import re
import unicodedata

from penstock.core.discreet import log_of
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.job import JobID, normal_name
from penstock.snapshot.decode import from_json
from penstock.snapshot.journal import Fence, since_closed
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.paths import is_manifest
from penstock.snapshot.reading import load_entries
from penstock.snapshot.recovery import Found, latest_valid
from penstock.snapshot.storage import SnapshotStore

_log = log_of(__name__)

_UNREADABLE = re.compile(r"[^A-Za-z0-9._-]+")
_READABLE = 60
"""Letters of the name that are kept: with the hash, far below what any file system allows."""
_HASH_DIGITS = 12
_LONGEST_NAME = 255
"""No file system has longer ones, so no directory of old does."""


def job_directory(name: str) -> str:
    """The directory of the job called ``name``: no other job's, also where letters are of one case."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    readable = _UNREADABLE.sub("-", plain)[:_READABLE].strip("-.")
    return f"{readable or 'job'}-{JobID.of_name(name).hex[:_HASH_DIGITS]}"


def former_directory(name: str) -> str:
    """What the directory was called before it had a hash; other names may have had the same."""
    return _UNREADABLE.sub("-", name).strip("-.") or "job"


def find_directory(store: SnapshotStore, name: str, suffix: str = "") -> str:
    """Where the job's checkpoints are, below the checkpoint directory: where they were, or a new place.

    ``suffix`` tells kinds of jobs with one name apart.
    """
    own, former = job_directory(name) + suffix, former_directory(name) + suffix
    if len(former) > _LONGEST_NAME:
        return own
    found = _newest_of(store.sub(former), name)
    if found is None:
        return own
    here = latest_valid(store.sub(own), verify=False)
    if here is not None and belongs(here.manifest, name):
        raise SnapshotError(
            f"job {name!r} has checkpoints in two directories: {found.location} and, of a later Penstock, "
            f"{here.location}. Only one of them is its past: move the other directory away"
        )
    return former


def belongs(manifest: Manifest, name: str) -> bool:
    """Whether a snapshot is one of the job called ``name``."""
    return unicodedata.normalize("NFC", manifest.job_name) == normal_name(name)


def check_owner(found: Found | None, name: str) -> None:
    """Refuse to go on from what another job left in this job's directory."""
    if found is None or belongs(found.manifest, name):
        return
    theirs = found.manifest.job_name
    raise SnapshotError(
        f"{found.location} is a snapshot of job {theirs!r}, not of job {name!r}, although it lies in the "
        f"directory of the latter. It is not touched. Start the job under the name {theirs!r} or with "
        f"another checkpoint directory; to begin with that snapshot all the same, copy it and name the copy "
        f"with -s"
    )


def _newest_of(root: SnapshotStore, name: str) -> Found | None:
    """The newest snapshot in a directory of old, if it is the job's."""
    entries = load_entries(root)
    if not entries:
        return None
    try:
        found = latest_valid(root, verify=False)
    except CorruptSnapshotError:
        if _is_foreign(root, name):
            return None
        raise
    chain = since_closed(entries)
    if found is None and not (isinstance(chain[0], Fence) and chain[0].closing):
        _log.warning(
            "an older Penstock has begun a job in %s and published nothing, so it is not known whose it is; "
            "it is left alone. If that is a driver of job %r which still runs, stop it",
            root.url,
            name,
        )
    return found if found is not None and belongs(found.manifest, name) else None


def _is_foreign(root: SnapshotStore, name: str) -> bool:
    """Whether damaged snapshots are another job's, as far as any can be read."""
    read: list[Manifest] = []
    for path in filter(is_manifest, root.list()):
        try:
            read.append(from_json(root.read(path), path))
        except CorruptSnapshotError:
            continue
    return bool(read) and not any(belongs(manifest, name) for manifest in read)
