"""Many JSON messages to columns at once, for the types where JSON's values are the columns' own.

The records are those that :class:`~penstock.datastream.formats.json.JsonRowDeserializationSchema` gives one
by one.  Messages that the quick way does not take (a number in quotes, a float for a whole number) are
left to it, and with them all that came in the same poll.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.core.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from penstock.formats.json_values import parse_columns
from penstock.formats.value_format import SchemaFormat

_PLAIN = {
    BasicType.STRING: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.DOUBLE: pa.float64(),
}


def plain_schema(row_type: RowTypeInfo) -> pa.Schema | None:
    """The columns of a row type, if JSON's values need no conversion for any of its fields."""
    fields = []
    for name, kind in zip(row_type.get_field_names(), row_type.get_field_types(), strict=True):
        if not isinstance(kind, BasicTypeInfo) or kind.basic_type not in _PLAIN:
            return None
        fields.append(pa.field(name, _PLAIN[kind.basic_type]))
    return pa.schema(fields)


class JsonRows(SchemaFormat):
    """The quick way if there is one, and the schema's own for the rest."""

    def __init__(self, schema: Any, row_type: RowTypeInfo, every_field: bool) -> None:
        super().__init__(schema)
        self._columns = plain_schema(row_type)
        self._every_field = every_field

    @property
    def is_by_value(self) -> bool:
        return self._columns is None

    def decode(self, values: pa.BinaryArray) -> pa.RecordBatch | list[Any]:
        found = self._parse(values)
        return super().decode(values) if found is None else found

    def _parse(self, values: pa.BinaryArray) -> pa.RecordBatch | None:
        if self._columns is None or len(values) == 0:
            return None
        try:
            found = parse_columns(values.cast(pa.string()), self._columns)
        except pa.ArrowInvalid:
            return None
        if found is None or (self._every_field and any(column.null_count for column in found.columns)):
            return None
        return found
