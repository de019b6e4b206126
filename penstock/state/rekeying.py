"""Restored keys, brought to what keys are today.

Older versions held some equal keys apart (see ``docs/format.md``, key groups): each NaN was a key of its own,
and a few kinds of keys had other hashes.  What has become of them is checked here: nothing is lost unseen.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import KeyError_, SnapshotError
from penstock.core.keygroups import hash_values, key_groups
from penstock.core.keys import canonical_keys
from penstock.state.backend import EntryShape, TableBlock


@dataclass(frozen=True, slots=True)
class Rehashed:
    """The key groups of a subtask whose state was stored with older hashes."""

    first: int
    last: int
    count: int
    """How many key groups there are in all."""

    def check(self, name: str, keys: list[Any]) -> None:
        """Refuse rows whose key is another subtask's today."""
        self.refuse(name, [key_groups(hash_values(keys), self.count)])

    def refuse(self, name: str, found: list[npt.NDArray[np.int64]]) -> None:
        """Refuse key groups that are another subtask's."""
        others = sum(int(((groups < self.first) | (groups > self.last)).sum()) for groups in found)
        if others:
            raise SnapshotError(
                f"{others} rows of state {name!r} have keys that an older version of Penstock kept on "
                "other subtasks than this one does. Start from this snapshot with parallelism 1 once, take a "
                "savepoint, and go on from that with the parallelism you want"
            )


def canonical_entries(block: TableBlock) -> list[Any]:
    """The entries with keys as they are today; the same list if nothing changed."""
    shape, entries = block.shape, block.entries
    stored = [shape.key_of(entry) for entry in entries]
    try:
        keys = canonical_keys(stored)
    except KeyError_ as error:
        raise SnapshotError(f"state {block.name!r} in the snapshot cannot be used: {error}") from error
    if keys is stored or all(new is old for new, old in zip(keys, stored, strict=True)):
        return entries
    if shape is EntryShape.KEY:
        return keys
    if shape is EntryShape.NAMESPACED:
        return [(key, entry[1]) for key, entry in zip(keys, entries, strict=True)]
    return [(entry[0], key, entry[2]) for key, entry in zip(keys, entries, strict=True)]


def refuse_doubles(block: TableBlock, entries: list[Any], kept: Container[Any]) -> None:
    """Refuse values of keys that are one today and were several: which one counts, only the user knows.

    ``kept`` has the entries that came before.  A timer that is there twice fires once, as it should.
    """
    if block.shape is EntryShape.TIMER:
        return
    distinct = set(entries)
    doubles = len(entries) - len(distinct) + sum(entry in kept for entry in distinct)
    if doubles:
        raise SnapshotError(
            f"state {block.name!r} has {doubles} values too many: an older Penstock held equal keys "
            "(NaN, times of pandas and of Python, dataclasses with fields that are not compared) apart. Read "
            "the state with the state processor, write it with one row per key, and start from that"
        )
