"""A look into the newest snapshot of a running job, within limits: what states there are, and single keys.

For the page of a job: its driver has better things to do, so a look reads a bounded number of bytes, gives up
at a deadline between two pieces, and ends at so many rows.  For whole tables there is ``snapshot.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.error_codes import Code
from penstock.core.errors import KeyError_, SnapshotError
from penstock.core.handles import KeyedHandle, KeyedPiece, keyed_blobs
from penstock.core.keygroups import hash_value
from penstock.core.keys import canonical_keys
from penstock.snapshot.manifest import Manifest, OperatorEntry
from penstock.snapshot.storage import SnapshotStore
from penstock.state_processor.blocks import Block, blocks, outlines
from penstock.state_processor.scan import Surveyed
from penstock.state_processor.snapshot import StateKind, keyed_states, label, opaque_state

_OWN_FILES = "keyed, in files of its own backend"
_OPENED = 8 << 20
"""Bytes of such files of one operator that are opened to say what is in them."""
_LARGEST = 1 << 53
"""Whole numbers above it are no floats, or only by chance."""


class TooMuch(SnapshotError):
    """A look would read more than it may, or take longer."""

    code = Code.LOOK_LIMIT


class NotThere(SnapshotError):
    """The snapshot has no such operator or state."""

    code = Code.LOOK_NOTHING


@dataclass(slots=True)
class Limits:
    """What one look may cost; counts down."""

    bytes: int
    rows: int
    is_late: Callable[[], bool]

    def read(self, size: int, what: str) -> None:
        """So many bytes are about to be read."""
        if self.is_late():
            raise TooMuch(f"{what} took too long to read; the state processor has more patience")
        if size > self.bytes:
            raise TooMuch(
                f"{what} is {size / 1e6:,.1f} MB in one piece, more than may be read here; read it with the "
                f"state processor (docs/guides/state-processor.md)"
            )
        self.bytes -= size


def listed(manifest: Manifest, store: SnapshotStore, limits: Limits) -> Iterator[dict[str, Any]]:
    """A row for each state, without loading anything pickled; of pieces only the heads of blocks are read.

    A backend's own files have no heads: they are opened if they are small, else there is one row for them.
    """
    for entry in manifest.operators:
        pieces = [(one.index, handle) for one in entry.subtasks for handle in one.state.keyed]
        opened = sum(_length(handle) for _, handle in pieces if not isinstance(handle, KeyedHandle))
        if opened <= min(_OPENED, limits.bytes):
            limits.read(opened, f"state of {label(entry)!r}")
            surveyed = []
            for index, handle in pieces:
                limits.read(0, f"state of {label(entry)!r}")
                surveyed.append(Surveyed(index, handle, tuple(outlines(store, handle))))
            yield from keyed_states(entry, surveyed)
        else:
            yield _unopened(entry, [handle for _, handle in pieces])
        lists = [one.state.lists.length for one in entry.subtasks if one.state.lists is not None]
        if lists:
            yield opaque_state(entry, "", StateKind.LIST, None, sum(lists))


def _unopened(entry: OperatorEntry, pieces: list[KeyedPiece]) -> dict[str, Any]:
    """Files that would have to be fetched to know what is in them: their size alone."""
    row = opaque_state(entry, "", StateKind.KEYED, None, sum(map(_length, pieces)))
    return {**row, "kind": _OWN_FILES, "pickled": []}


def _length(handle: KeyedPiece) -> int:
    return sum(blob.length for blob in keyed_blobs(handle))


def found_operator(manifest: Manifest, named: str) -> OperatorEntry:
    """The operator with this uid or id."""
    for entry in manifest.operators:
        if named in (entry.uid, str(entry.operator_id)):
            return entry
    known = ", ".join(map(label, manifest.operators)) or "none"
    raise NotThere(f"the snapshot has no operator {named!r}; it has {known}")


def key_candidates(text: str) -> list[Any]:
    """What a person may mean by a key: the text itself, and what it is as JSON; a list may be a tuple."""
    found: list[Any] = [text]
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return found
    if isinstance(read, list):
        read = _as_tuple(read)
    if isinstance(read, dict) or read is None:
        return found
    return [read, *([float(read)] if type(read) is int and abs(read) <= _LARGEST else []), *found]


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_as_tuple, value))
    if isinstance(value, dict):
        return tuple(map(_as_tuple, value.values()))
    return value


def rows_of_key(
    manifest: Manifest, store: SnapshotStore, operator: str, state: str, key: str, limits: Limits
) -> Iterator[dict[str, Any]]:
    """Rows of a keyed state whose key is meant by ``key``; nothing of other key groups is read."""
    entry = found_operator(manifest, operator)
    wanted = key_candidates(key)
    groups = set(_groups(wanted, entry.max_parallelism))
    here = [
        handle
        for one in entry.subtasks
        for handle in one.state.keyed
        if any(handle.overlaps(group, group) for group in groups)
    ]
    is_there = False
    for handle in here:
        what = f"the part of {label(entry)!r} that would hold the key"
        limits.read(_length(handle), what)
        for block in blocks(store, handle):
            limits.read(0, what)
            if block.outline.name == state and block.outline.shape is not None:
                is_there = True
                yield from _matching(block, wanted, limits)
                if limits.rows <= 0:
                    return
    if not is_there:
        _check_there(manifest, store, entry, state, limits)


def _groups(wanted: list[Any], max_parallelism: int) -> Iterator[int]:
    for value in wanted:
        try:
            (canonical,) = canonical_keys([value], {type(value)})
            group = hash_value(canonical) % max_parallelism
        except (KeyError_, ValueError, TypeError, OverflowError):  # nothing that could be a key
            continue
        yield group


def _check_there(
    manifest: Manifest, store: SnapshotStore, entry: OperatorEntry, state: str, limits: Limits
) -> None:
    """A key that is not there is one thing, a state that is not there another."""
    alone = replace(manifest, operators=(entry,))
    names = [row["state"] for row in listed(alone, store, limits) if row["kind"] != StateKind.LIST.value]
    if state not in names and "" not in names:
        known = ", ".join(names) or "none"
        raise NotThere(f"operator {label(entry)!r} has no keyed state {state!r}; it has {known}")


def _matching(block: Block, wanted: list[Any], limits: Limits) -> Iterator[dict[str, Any]]:
    names = block.outline.column_names()
    columns = block.columns(names, trusted=True)
    for place in _places(columns["key"], wanted):
        if limits.rows <= 0:
            return
        limits.rows -= 1
        yield {name: _value(columns[name], place) for name in names}


def _places(keys: pa.Array | list[Any], wanted: list[Any]) -> list[int]:
    if isinstance(keys, list) or pa.types.is_nested(keys.type):
        plain = [_as_tuple(value) for value in wanted]
        values = keys if isinstance(keys, list) else keys.to_pylist()
        return [place for place, value in enumerate(values) if _as_tuple(value) in plain]
    found: set[int] = set()
    for value in wanted:
        try:
            same = pc.equal(keys, pa.scalar(value, keys.type))
        except (ValueError, TypeError, NotImplementedError, OverflowError):  # no value of this type
            continue
        found.update(pc.indices_nonzero(same).to_pylist())
    return sorted(found)


def _value(column: pa.Array | list[Any], place: int) -> Any:
    return column[place] if isinstance(column, list) else column[place].as_py()
