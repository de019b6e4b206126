"""A snapshot opened for reading: its operators, their states, and the rows of each, as Arrow tables.

Reads only what a question needs: listings look at the heads of blocks, :meth:`Snapshot.read` at the files of
one operator.  Checksums are verified by everything that reads rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.core.documents import load_trusted
from penstock.core.errors import SnapshotError
from penstock.core.handles import keyed_blobs
from penstock.core.pickling import dumps
from penstock.snapshot.manifest import OperatorEntry
from penstock.snapshot.recovery import read_manifest
from penstock.snapshot.store import open_store
from penstock.state.backend import EVENT_TIMERS, PROCESSING_TIMERS, EntryShape
from penstock.state_processor.blocks import outlines, untrusted
from penstock.state_processor.scan import Scan, Surveyed, keyed_scan
from penstock.state_processor.values import MisfitError, json_text, settled, to_arrow, to_text, type_of

OPERATORS_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("uid", pa.string()),
        ("name", pa.string()),
        ("operator_id", pa.string()),
        ("parallelism", pa.int32()),
        ("max_parallelism", pa.int32()),
        ("states", pa.int32()),
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("pickled", pa.bool_()),
    ]
)
STATES_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("state", pa.string()),
        ("kind", pa.string()),
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
        ("typed", pa.string()),
        ("pickled", pa.list_(pa.string())),
        ("operator_id", pa.string()),
    ]
)
SIZES_SCHEMA = pa.schema(
    [
        ("operator", pa.string()),
        ("subtask", pa.int32()),
        ("first_key_group", pa.int32()),
        ("last_key_group", pa.int32()),
        ("entries", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
OPERATOR_STATE = "_operator-state"
"""Stands for all operator state of an operator while nobody vouches for the snapshot."""
ENUMERATOR = "_enumerator"
"""What a source's enumerator keeps on the driver."""
TIMERS = {EVENT_TIMERS: "event", PROCESSING_TIMERS: "processing"}


class StateKind(Enum):
    """What a state belongs to."""

    KEYED = "keyed"
    WINDOWED = "keyed, per window"
    TIMERS = "timers"
    COLUMNS = "columns"
    LIST = "list"
    ENUMERATOR = "enumerator"


def label(entry: OperatorEntry) -> str:
    """What an operator is called in listings: its uid, else its name."""
    return entry.uid or entry.name


def _kind(shape: EntryShape | None) -> StateKind:
    if shape is None:
        return StateKind.COLUMNS
    kinds = {EntryShape.NAMESPACED: StateKind.WINDOWED, EntryShape.TIMER: StateKind.TIMERS}
    return kinds.get(shape, StateKind.KEYED)


def keyed_states(entry: OperatorEntry, surveyed: Sequence[Surveyed]) -> Iterator[dict[str, Any]]:
    """A row for each keyed state, timers and columnar stores among them."""
    names = dict.fromkeys(outline.name for found in surveyed for outline in found.outlines)
    for name in names:
        parts = [outline for found in surveyed for outline in found.outlines if outline.name == name]
        typed = {field.name: str(field.type) for part in parts for field in part.typed}
        pickled = sorted({column for part in parts for column in part.pickled})
        shown = ", ".join(f"{column} {kind}" for column, kind in typed.items() if column not in pickled)
        yield {
            "operator": label(entry),
            "state": name,
            "kind": _kind(parts[0].shape).value,
            "entries": sum(part.rows for part in parts),
            "bytes": sum(part.length for part in parts),
            "typed": shown,
            "pickled": pickled,
            "operator_id": entry.operator_id,
        }


def opaque_state(
    entry: OperatorEntry, state: str, kind: StateKind, entries: int | None, size: int
) -> dict[str, Any]:
    """A row for state that is one pickled object."""
    row = {"operator": label(entry), "state": state, "kind": kind.value, "entries": entries}
    return row | {"bytes": size, "typed": "", "pickled": ["item"], "operator_id": entry.operator_id}


class Snapshot:
    """One snapshot.  Operators are named by uid, by name if that is unique, or by operator id.

    ``trusted`` says that you know who wrote it: only then are pickled values loaded, since loading them runs
    code of the writer's choice.
    """

    def __init__(self, path: str, trusted: bool = False) -> None:
        self.manifest, self.location = read_manifest(path)
        self.trusted = trusted
        self.store = open_store(self.location.root, create=False)
        self._surveyed: dict[str, list[Surveyed]] = {}

    def operators(self) -> pa.Table:
        """A row per operator: identity, parallelism, and how much state it has."""
        rows = []
        for entry in self.manifest.operators:
            states = list(self._states(entry))
            rows.append(
                {
                    "operator": label(entry),
                    "uid": entry.uid,
                    "name": entry.name,
                    "operator_id": entry.operator_id,
                    "parallelism": entry.parallelism,
                    "max_parallelism": entry.max_parallelism,
                    "states": len(states),
                    "entries": sum(state["entries"] or 0 for state in states),
                    "bytes": sum(state["bytes"] for state in states),
                    "pickled": any(state["pickled"] for state in states),
                }
            )
        return pa.Table.from_pylist(rows, OPERATORS_SCHEMA)

    def states(self, operator: str | None = None) -> pa.Table:
        """A row per state, of one operator or of all: kind, entries, bytes, which columns are pickled."""
        chosen = self.manifest.operators if operator is None else (self.operator(operator),)
        return pa.Table.from_pylist([row for entry in chosen for row in self._states(entry)], STATES_SCHEMA)

    def read(self, operator: str, state: str) -> pa.Table:
        """All rows of a state.

        Keyed state has the columns ``key`` and ``value``, between them ``namespace`` if it is kept per
        window; a columnar store has its own; operator state has ``subtask``, ``mode`` and ``item``.
        """
        entry = self.operator(operator)
        if state == ENUMERATOR:
            return self._enumerator(entry)
        if any(state == outline.name for found in self.survey(entry) for outline in found.outlines):
            return self._rows(self.scan(operator, state))
        return self._list(entry, state)

    def timers(self, operator: str) -> pa.Table:
        """All timers of an operator: ``domain`` (event or processing), ``time``, ``key``, ``namespace``."""
        return self._rows(self.timer_scan(operator))

    def keys(self, operator: str, state: str | None = None) -> pa.Table:
        """The distinct keys of a state, or of all keyed state of an operator; values stay untouched."""
        entry = self.operator(operator)
        names = dict.fromkeys(
            outline.name
            for found in self.survey(entry)
            for outline in found.outlines
            if outline.shape is not None and state in (None, outline.name)
        )
        if not names:
            raise self._no_state(entry, state or "keyed state")
        tables = [self._rows(self._key_scan(entry, name)) for name in names]
        return _distinct(pa.concat_tables(tables, promote_options="permissive"))

    def sizes(self) -> pa.Table:
        """A row per piece of keyed state: subtask, key groups, entries, bytes. Shows how even keys fall."""
        rows = [
            {
                "operator": label(entry),
                "subtask": found.subtask,
                "first_key_group": found.handle.key_groups[0],
                "last_key_group": found.handle.key_groups[1],
                "entries": sum(outline.rows for outline in found.outlines),
                "bytes": sum(blob.length for blob in keyed_blobs(found.handle)),
            }
            for entry in self.manifest.operators
            for found in self.survey(entry)
        ]
        return pa.Table.from_pylist(rows, SIZES_SCHEMA)

    def spark(self, session: Any = None, **options: str) -> Any:
        """The same as a Spark DataFrame, read in parallel: ``spark(operator=..., state=...)``.

        ``options`` are those of the data source; ``session`` defaults to the active one.
        """
        source = importlib.import_module("penstock.spark.state_frames")
        return source.frame(session, str(self.location), trusted=str(self.trusted).lower(), **options)

    def operator(self, named: str) -> OperatorEntry:
        """The entry of the operator that is called so."""
        operators = self.manifest.operators
        for found in (
            [entry for entry in operators if entry.uid == named or entry.operator_id == named],
            [entry for entry in operators if entry.name == named],
        ):
            if len(found) == 1:
                return found[0]
            if found:
                ids = ", ".join(entry.uid or entry.operator_id for entry in found)
                raise SnapshotError(f"several operators are called {named!r}; use one of their ids: {ids}")
        known = ", ".join(map(label, operators)) or "none"
        raise SnapshotError(f"the snapshot has no operator {named!r}; it has {known}")

    def survey(self, entry: OperatorEntry) -> list[Surveyed]:
        """The pieces of an operator's keyed state and what is in them; looked up once."""
        found = self._surveyed.get(entry.operator_id)
        if found is None:
            found = self._surveyed[entry.operator_id] = [
                Surveyed(subtask.index, handle, tuple(outlines(self.store, handle)))
                for subtask in entry.subtasks
                for handle in subtask.state.keyed
            ]
        return found

    def scan(self, operator: str, state: str) -> Scan:
        """How to read a keyed state."""
        entry = self.operator(operator)
        surveyed = self.survey(entry)
        if not any(outline.name == state for found in surveyed for outline in found.outlines):
            raise self._no_state(entry, state)
        return keyed_scan(self.store, surveyed, {state: None}, self.trusted)

    def timer_scan(self, operator: str) -> Scan:
        """How to read the timers of an operator."""
        entry = self.operator(operator)
        surveyed = self.survey(entry)
        there = {outline.name for found in surveyed for outline in found.outlines}
        domains: dict[str, str | None] = {name: text for name, text in TIMERS.items() if name in there}
        if not domains:
            raise SnapshotError(f"operator {label(entry)!r} has no timers in this snapshot")
        return keyed_scan(self.store, surveyed, domains, self.trusted)

    def _key_scan(self, entry: OperatorEntry, state: str) -> Scan:
        return keyed_scan(self.store, self.survey(entry), {state: None}, self.trusted, ["key"])

    def _rows(self, scan: Scan) -> pa.Table:
        try:
            return self._table(scan)
        except MisfitError:
            return self._table(scan.as_text())

    def _table(self, scan: Scan) -> pa.Table:
        batches = [batch for piece in scan.pieces for batch in scan.batches(self.store, piece)]
        return pa.Table.from_batches(batches, scan.schema)

    def _states(self, entry: OperatorEntry) -> Iterator[dict[str, Any]]:
        yield from keyed_states(entry, self.survey(entry))
        yield from self._list_states(entry)
        blob = self.manifest.enumerators.get(entry.operator_id)
        if blob is not None:
            yield opaque_state(entry, ENUMERATOR, StateKind.ENUMERATOR, 1, blob.length)

    def _list_states(self, entry: OperatorEntry) -> Iterator[dict[str, Any]]:
        blobs = [subtask.state.lists for subtask in entry.subtasks if subtask.state.lists is not None]
        if blobs and not self.trusted:
            size = sum(blob.length for blob in blobs)
            yield opaque_state(entry, OPERATOR_STATE, StateKind.LIST, None, size)
            return
        held: dict[str, list[Any]] = {}
        for _, name, _, items in self._lists(entry):
            held.setdefault(name, []).extend(items)
        for name, gathered in held.items():
            yield opaque_state(entry, name, StateKind.LIST, len(gathered), len(dumps(gathered)))

    def _lists(self, entry: OperatorEntry) -> Iterator[tuple[int, str, str, tuple[Any, ...]]]:
        """Subtask, name, mode and items of operator state.  Unpickles: ask for trust before."""
        for subtask in entry.subtasks:
            if subtask.state.lists is not None:
                held = load_trusted(self.store.read_blob(subtask.state.lists))
                for name, (mode, items) in held.items():
                    yield subtask.index, name, mode, tuple(items)

    def _list(self, entry: OperatorEntry, state: str) -> pa.Table:
        has_lists = any(subtask.state.lists is not None for subtask in entry.subtasks)
        if has_lists and not self.trusted:
            raise untrusted(f"the operator state of {label(entry)!r}", ["item"])
        rows = [
            (subtask, mode, item)
            for subtask, name, mode, items in (self._lists(entry) if has_lists else ())
            if name == state
            for item in items
        ]
        if not rows:
            raise self._no_state(entry, state)
        subtasks, modes, items = zip(*rows, strict=True)
        columns = {"subtask": pa.array(subtasks, pa.int32()), "mode": pa.array(modes, pa.string())}
        return pa.table({**columns, "item": _fitting(list(items))})

    def _enumerator(self, entry: OperatorEntry) -> pa.Table:
        blob = self.manifest.enumerators.get(entry.operator_id)
        if blob is None:
            raise self._no_state(entry, ENUMERATOR)
        if not self.trusted:
            raise untrusted(f"the enumerator of {label(entry)!r}", ["item"])
        return pa.table({"item": _fitting([load_trusted(self.store.read_blob(blob))])})

    def _no_state(self, entry: OperatorEntry, state: str) -> SnapshotError:
        known = ", ".join(row["state"] for row in self._states(entry)) or "none"
        return SnapshotError(f"operator {label(entry)!r} has no state {state!r}; it has {known}")


def open_snapshot(path: str, trusted: bool = False) -> Snapshot:
    """The snapshot at ``path``: a savepoint, a ``chk-N`` directory, or a job's directory (its newest)."""
    return Snapshot(str(path), trusted)


def _distinct(keys: pa.Table) -> pa.Table:
    if not pa.types.is_nested(keys.schema.field("key").type):
        return keys.group_by("key").aggregate([])
    places = {json_text(key): place for place, key in enumerate(keys["key"].to_pylist())}
    return keys.take(list(places.values()))


def _fitting(values: list[Any]) -> pa.Array:
    try:
        return to_arrow(values, settled(type_of(values)))
    except MisfitError:
        return to_text(values)
