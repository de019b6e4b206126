"""Types of records: what a program declares with ``Types``, and how it is laid out in columns.

Declaring a type is optional.  A stream without one carries Python objects.  A stream of a ``ROW``
whose fields all have a faithful Arrow form travels as columns; :func:`to_arrow` decides.  *Faithful*
means that values come back from the columns exactly as they went in: an Arrow map comes back as a
list of pairs and a nested struct as a dict, so ``MAP`` and nested ``ROW`` stay objects.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.core.durations import Instant
from penstock.core.errors import ConfigError
from penstock.core.type_tree import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    InstantTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.core.type_vars import K, V

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "as_type_info",
    "project_type",
    "to_arrow",
]


class Types:
    """Makes types of records and state.

    Declaring types is optional.  A stream of a ``ROW`` with simple fields travels as columns, state with a
    type is stored compactly and can be read as a table; without one Python objects are pickled.

    >>> Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
    RowTypeInfo(word: String, n: Long)
    """

    @staticmethod
    def STRING() -> TypeInformation[str]:  # noqa: N802
        """Text."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation[int]:  # noqa: N802
        """Whole number of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:  # noqa: N802
        """``True`` or ``False``."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation[int]:  # noqa: N802
        """Whole number of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation[int]:  # noqa: N802
        """Whole number of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation[int]:  # noqa: N802
        """Whole number of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation[float]:  # noqa: N802
        """Floating point number of 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:  # noqa: N802
        """Floating point number of 64 bits: Python's ``float``."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation[str]:  # noqa: N802
        """Text of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:  # noqa: N802
        """Whole number of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation[Decimal]:  # noqa: N802
        """A ``decimal.Decimal`` of any precision."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation[Instant]:  # noqa: N802
        """An ``Instant``."""
        return InstantTypeInfo()

    @staticmethod
    def SQL_DATE() -> TypeInformation[dt.date]:  # noqa: N802
        """A ``datetime.date``."""
        return DateTypeInfo()

    @staticmethod
    def SQL_TIME() -> TypeInformation[dt.time]:  # noqa: N802
        """A ``datetime.time``."""
        return TimeTypeInfo()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[dt.datetime]:  # noqa: N802
        """A ``datetime.datetime`` without time zone."""
        return TimestampTypeInfo()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:  # noqa: N802
        """Any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """A ``Row`` with fields f0, f1, ..."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(  # noqa: N802
        field_names: Sequence[str], field_types: Sequence[TypeInformation]
    ) -> RowTypeInfo:
        """A ``Row`` with named fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:  # noqa: N802
        """A Python tuple."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation[V]) -> PrimitiveArrayTypeInfo[V]:  # noqa: N802
        """An array of numbers or booleans without nulls; of ``BYTE``, it is ``bytes``."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[V]) -> BasicArrayTypeInfo[V]:  # noqa: N802
        """An array of a basic type that may hold nulls."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[V]) -> ObjectArrayTypeInfo[V]:  # noqa: N802
        """An array of anything."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(  # noqa: N802
        key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]
    ) -> MapTypeInfo[K, V]:
        """A dict."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation[V]) -> ListTypeInfo[V]:  # noqa: N802
        """A list."""
        return ListTypeInfo(element_type_info)


DeclaredType = TypeInformation[Any] | Sequence[TypeInformation[Any]] | None
"""What programs give as ``type_info`` or ``output_type``: a type, those of a row's fields, or nothing."""


def as_type_info(declared: DeclaredType) -> TypeInformation | None:
    """What a user gave as ``type_info`` or ``output_type``: a list of types means a ROW of them."""
    if declared is None or isinstance(declared, TypeInformation):
        return declared
    if isinstance(declared, list | tuple) and all(isinstance(field, TypeInformation) for field in declared):
        return RowTypeInfo(declared)
    raise ConfigError(f"{declared!r} is no type; write Types.STRING(), Types.ROW([...]) and so on")


def project_type(type_info: TypeInformation | None, positions: Sequence[int]) -> TypeInformation | None:
    """The type of the fields at ``positions``; ``None`` if the fields have no types."""
    if not isinstance(type_info, TupleTypeInfo) or any(i >= len(type_info.field_types) for i in positions):
        return None
    types = [type_info.field_types[i] for i in positions]
    if isinstance(type_info, RowTypeInfo):
        return RowTypeInfo(types, [type_info.field_names[i] for i in positions])
    return TupleTypeInfo(types)


def to_arrow(type_info: TypeInformation | None) -> pa.DataType | None:
    """The column type of a stream of ``type_info``: a struct for a ROW; ``None`` means objects."""
    if isinstance(type_info, ExternalTypeInfo):
        return to_arrow(type_info.type_info)
    if not isinstance(type_info, RowTypeInfo):
        return None if type_info is None else type_info.arrow_type()
    fields = [(name, field.arrow_type()) for name, field in type_info.parts()]
    return None if any(column is None for _, column in fields) or not fields else pa.struct(fields)
