"""Column types in files for declared types: also for maps, nested rows and decimals.

Streams carry these as objects, because columns would not give them back as they were; see
:func:`penstock.core.typeinfo.to_arrow`.  In a file they have a place.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.core.errors import ConfigError
from penstock.core.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TypeInformation,
)

_DECIMAL = pa.decimal128(38, 18)
"""What Flink's tables make of a ``BIG_DEC``."""


def schema_of(row_type: RowTypeInfo) -> pa.Schema:
    """The Arrow schema of a ROW type; a ``ConfigError`` if a field has no column type."""
    struct = _column_type(row_type)
    if struct is None:
        raise ConfigError(
            f"{row_type!r} has a field without a column type; declare all types, or give a pyarrow schema"
        )
    return pa.schema(list(struct))


def _column_type(kind: TypeInformation) -> pa.DataType | None:
    """The type of a column of ``kind``; ``None`` if there is none."""
    match kind:
        case ExternalTypeInfo():
            return _column_type(kind.type_info)
        case RowTypeInfo():
            fields = [(name, _column_type(field)) for name, field in kind.parts()]
            return None if any(column is None for _, column in fields) or not fields else pa.struct(fields)
        case MapTypeInfo():
            key, value = _column_type(kind.key_type), _column_type(kind.value_type)
            return None if key is None or value is None else pa.map_(key, value)
        case BasicTypeInfo(basic_type=BasicType.BIG_DEC):
            return _DECIMAL
    found = kind.arrow_type()
    element = getattr(kind, "element_type", None)
    if found is None and isinstance(element, TypeInformation):
        inner = _column_type(element)
        return None if inner is None else pa.list_(inner)
    return found
