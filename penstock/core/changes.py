"""Streams that change: what a batch says of a row beside its values, and how a frame of rows may change.

Batches of a stream that is not append-only have one more column, :data:`CHANGE`, with the kind of
change.  The numbers are those of ``RowKind`` and part of the snapshot format.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CHANGE = "$change"
"""Name of the int8 column with the kind of change; never among the columns that users see."""
CHANGE_FIELD = pa.field(CHANGE, pa.int8())

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
SIGNS: npt.NDArray[np.int64] = np.array([1, -1, 1, -1], np.int64)
"""What each kind does to the number of rows."""


class ChangeMode(Enum):
    """How the rows of a stream change."""

    APPEND = "append"
    """They do not: rows are added only."""
    UPSERT = "upsert"
    """A row replaces the one with the same key, or deletes it."""
    RETRACT = "retract"
    """A row is taken back, with all its values, before another takes its place."""


def with_change(schema: pa.Schema) -> pa.Schema:
    """The columns of a batch of a changing stream."""
    return schema.append(CHANGE_FIELD)


def weights_of(columns: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
    """+1 or -1 for each row; ``None`` if all rows are added."""
    if columns.schema.get_field_index(CHANGE) < 0:
        return None
    kinds = columns.column(CHANGE).to_numpy()
    if not (kinds & 1).any():
        return None
    weights: npt.NDArray[np.int64] = SIGNS[kinds]
    return weights
