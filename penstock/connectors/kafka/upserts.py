"""Topics with one record per key, in which the last one holds: records with their kind of change.

A record without a value says that its key is gone.  The columns of the key are read from the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.kafka.reader import MessageDecoder
from penstock.core.changes import CHANGE_FIELD, DELETE, UPDATE_AFTER, with_change
from penstock.formats.bad_records import DecodeError, Records
from penstock.formats.json_values import Json


class UpsertDecoder(MessageDecoder):
    """Columns of ``schema`` and ``$change``, of keys and values that are JSON objects."""

    skips_none = False

    def __init__(self, schema: pa.Schema, key: Sequence[str]) -> None:
        self._schema = schema
        self._keys = Json(pa.schema([schema.field(name) for name in key]))
        # A row that goes has nothing but its key, whatever the others must have.
        others = [field.with_nullable(True) for field in schema if field.name not in key]
        self._values = Json(pa.schema(others)) if others else None

    def select(self, messages: list[Any]) -> tuple[list[Any], list[Any]]:
        return messages, [(message.key(), message.value()) for message in messages]

    def decode(self, items: list[Any]) -> Records:
        keyless = [place for place, (key, _) in enumerate(items) if key is None]
        if keyless:
            raise DecodeError(keyless[0], "a record of an upsert-kafka table has no key")
        keys = self._keys.decode(pa.array([key for key, _ in items], pa.binary()))
        assert isinstance(keys, pa.RecordBatch)
        lives = np.array([value is not None for _, value in items], np.bool_)
        columns = dict(zip(keys.schema.names, keys.columns, strict=True))
        if self._values is not None:
            columns |= self._others([value for _, value in items if value is not None], lives)
        kinds = pa.array(np.where(lives, UPDATE_AFTER, DELETE).astype(np.int8))
        arrays = [columns[name] for name in self._schema.names]
        schema = with_change(pa.schema([field.with_nullable(True) for field in self._schema]))
        assert schema.field(len(arrays)) == CHANGE_FIELD
        return pa.RecordBatch.from_arrays([*arrays, kinds], schema=schema)

    def _others(self, values: list[bytes], lives: Any) -> dict[str, pa.Array]:
        """The columns beside the key, null in rows that go."""
        assert self._values is not None
        places = np.cumsum(lives) - 1
        try:
            found = self._values.decode(pa.array(values, pa.binary()))
        except DecodeError as bad:
            raise DecodeError(int(np.flatnonzero(lives)[bad.index]), bad.reason) from bad
        assert isinstance(found, pa.RecordBatch)
        chosen = pa.array(np.where(lives, places, 0), mask=~lives)
        return {name: found.column(name).take(chosen) for name in found.schema.names}

    def produced_type(self) -> Any | None:
        return None
