"""Which files may go.  Pure: manifests that stay and files that are there, in; files to delete, out.

Rules, in order:

1. a file that a kept manifest names, and the kept manifests themselves, stay;
2. in ``chk-N`` with N below the newest published epoch everything else goes: snapshots beyond the
   limit, snapshots that were never published, and what a fenced driver left behind.  From the newest
   published epoch on nothing goes, because those snapshots may still be under way;
3. a shared file goes when a manifest that goes named it.  One that no manifest ever named stays: it
   may belong to a snapshot under way;
4. everything else (the journal, files of tasks) is none of retention's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.core.ids import Epoch
from penstock.snapshot.manifest import Manifest
from penstock.snapshot.paths import SHARED, epoch_of, is_manifest


@dataclass(frozen=True, slots=True)
class Deletions:
    """What to delete."""

    trees: tuple[str, ...]
    """Directories of which nothing stays."""
    files: tuple[str, ...]
    """Single files in directories that stay."""


def stale_manifests(kept: Iterable[str], newest: Epoch, seen: Iterable[str]) -> list[str]:
    """Manifest files that rule 2 removes; the caller reads them, for rule 3."""
    stay = set(kept)
    return [path for path in seen if path not in stay and is_manifest(path) and _is_old(path, newest)]


def plan_deletions(
    kept: Mapping[str, Manifest], dropped: Iterable[Manifest], newest: Epoch, seen: Iterable[str]
) -> Deletions:
    """Apply the rules.

    ``kept`` maps manifest paths to manifests, ``dropped`` are the manifests that go as far as they can
    be read, ``newest`` is the newest published epoch, ``seen`` every file below the job's root.
    """
    stay = set(kept)
    for manifest in kept.values():
        stay.update(manifest.files())
    unshared = {path for manifest in dropped for path in manifest.files() if _is_shared(path)}
    files = list(seen)
    doomed = {path for path in files if path not in stay and (_is_old(path, newest) or path in unshared)}
    busy = {_top(path) for path in files if path not in doomed}
    trees = {_top(path) for path in doomed if not _is_shared(path)} - busy
    singles = sorted(path for path in doomed if _top(path) not in trees)
    return Deletions(tuple(sorted(trees)), tuple(singles))


def _is_old(path: str, newest: Epoch) -> bool:
    epoch = epoch_of(path)
    return epoch is not None and "/" in path and epoch < newest


def _is_shared(path: str) -> bool:
    return _top(path) == SHARED


def _top(path: str) -> str:
    return path.split("/", 1)[0]
