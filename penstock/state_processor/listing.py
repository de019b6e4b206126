"""What a snapshot holds, as rows of listings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import pyarrow as pa

from penstock.snapshot.manifest import OperatorEntry
from penstock.state.backend import EntryShape
from penstock.state_processor.scan import Surveyed


class StateKind(Enum):
    """What a state belongs to."""

    KEYED = "keyed"
    WINDOWED = "keyed, per window"
    TIMERS = "timers"
    COLUMNS = "columns"
    LIST = "list"
    ENUMERATOR = "enumerator"


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
