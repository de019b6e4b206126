"""The classes behind ``Types``. Read :mod:`penstock.core.typeinfo` first."""

# long because PyFlink has that many kinds of types

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import Enum
from typing import Any, Generic, NoReturn

import pyarrow as pa

from penstock.core.durations import Instant
from penstock.core.errors import ConfigError
from penstock.core.row import Row
from penstock.core.type_vars import K, T, V


class TypeInformation(Generic[T]):
    """Base of all types, which ``Types`` makes. Two are equal if they are of one class with equal parts.

    ``TypeInformation[int]`` is the type of records that are ``int`` in Python.

    >>> Types.LIST(Types.INT()) == Types.LIST(Types.INT()), Types.INT() == Types.LONG()
    (True, False)
    """

    def parts(self) -> tuple[Any, ...]:
        """What tells two types of the same class apart."""
        return ()

    def arrow_type(self) -> pa.DataType | None:
        """The faithful column type of a *field* of this type, or ``None``."""
        return None

    def need_conversion(self) -> bool:
        """Whether ``to_internal_type`` changes values."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """The plain value PyFlink would hand to Java; nothing in Penstock calls this."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """The inverse of ``to_internal_type``."""
        return obj

    def get_java_type_info(self) -> NoReturn:
        """Not available: there is no Java type behind."""
        raise ConfigError(
            f"{self!r} has no Java type: Penstock runs Python types directly. Pass the type itself "
            "where a Java type was passed, or to_arrow() of it for its column type"
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parts() == other.parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.parts()))

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.parts()))
        return f"{type(self).__name__}<{inner}>" if inner else type(self).__name__


class BasicType(Enum):
    """The indivisible types, by Java's names."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_BASIC_ARROW: dict[BasicType, pa.DataType] = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
}


class BasicTypeInfo(TypeInformation):
    """A number, text, boolean or instant."""

    def __init__(self, basic_type: BasicType) -> None:
        self.basic_type = basic_type

    def parts(self) -> tuple[Any, ...]:
        return (self.basic_type,)

    def arrow_type(self) -> pa.DataType | None:
        return _BASIC_ARROW.get(self.basic_type)

    def __repr__(self) -> str:
        return self.basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return InstantTypeInfo()


class InstantTypeInfo(BasicTypeInfo):
    """An :class:`~penstock.core.durations.Instant`."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__(basic_type)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Instant | None) -> int | None:
        return None if obj is None else obj.seconds * 1_000_000 + obj.nanos // 1000

    def from_internal_type(self, obj: int | None) -> Instant | None:
        if obj is None:
            return None
        seconds, micros = divmod(obj, 1_000_000)
        return Instant(seconds, micros * 1000)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class DateTypeInfo(TypeInformation):
    """A ``datetime.date``."""

    EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()

    def arrow_type(self) -> pa.DataType | None:
        return pa.date32()

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, d: dt.date | None) -> int | None:
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: int | None) -> dt.date | None:
        return None if v is None else dt.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeTypeInfo(TypeInformation):
    """A ``datetime.time``."""

    EPOCH_ORDINAL = 0

    def arrow_type(self) -> pa.DataType | None:
        return pa.time64("us")

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, t: dt.time | None) -> int | None:
        if t is None:
            return None
        return ((t.hour * 60 + t.minute) * 60 + t.second) * 1_000_000 + t.microsecond

    def from_internal_type(self, t: int | None) -> dt.time | None:
        return None if t is None else (_EPOCH + dt.timedelta(microseconds=t)).time()


class TimestampTypeInfo(TypeInformation):
    """A ``datetime.datetime`` without time zone."""

    def arrow_type(self) -> pa.DataType | None:
        return pa.timestamp("us")

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, dt_: dt.datetime | None) -> int | None:
        if dt_ is None:
            return None
        aware = dt_ if dt_.tzinfo else dt_.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // dt.timedelta(microseconds=1)

    def from_internal_type(self, ts: int | None) -> dt.datetime | None:
        return None if ts is None else (_EPOCH + dt.timedelta(microseconds=ts)).replace(tzinfo=None)


class SqlTimeTypeInfo(TypeInformation):
    """The date and time types by their SQL names."""

    @staticmethod
    def DATE() -> DateTypeInfo:  # noqa: N802
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:  # noqa: N802
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:  # noqa: N802
        return TimestampTypeInfo()


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object: the type of a stream that declares none."""


class _ElementTypeInfo(TypeInformation[T], Generic[T, V]):
    """A sequence of elements of one type."""

    def __init__(self, element_type: TypeInformation[V]) -> None:
        self.element_type = element_type

    def parts(self) -> tuple[Any, ...]:
        return (self.element_type,)

    def arrow_type(self) -> pa.DataType | None:
        element = self.element_type.arrow_type()
        return None if element is None else pa.list_(element)


class PrimitiveArrayTypeInfo(_ElementTypeInfo[Any, V]):
    """An array of numbers or booleans without nulls; of bytes, it is Python's ``bytes``."""

    def arrow_type(self) -> pa.DataType | None:
        if self.element_type == BasicTypeInfo(BasicType.BYTE):
            return pa.binary()
        return super().arrow_type()


class BasicArrayTypeInfo(_ElementTypeInfo[list[V | None], V]):
    """An array of a basic type that may hold nulls."""


class ObjectArrayTypeInfo(_ElementTypeInfo[list[V], V]):
    """An array of anything."""


class ListTypeInfo(_ElementTypeInfo[list[V], V]):
    """A list."""


class MapTypeInfo(TypeInformation[dict[K, V]], Generic[K, V]):
    """A dict."""

    def __init__(self, key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]) -> None:
        self.key_type = key_type_info
        self.value_type = value_type_info

    def parts(self) -> tuple[Any, ...]:
        return (self.key_type, self.value_type)


class TupleTypeInfo(TypeInformation):
    """A Python tuple."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self.field_types = list(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        """The types of the fields."""
        return self.field_types

    def parts(self) -> tuple[Any, ...]:
        return tuple(self.field_types)

    def need_conversion(self) -> bool:
        return any(field.need_conversion() for field in self.field_types)

    def to_internal_type(self, obj: Sequence[Any] | None) -> tuple[Any, ...] | None:
        if obj is None:
            return None
        return tuple(f.to_internal_type(v) for f, v in zip(self.field_types, obj, strict=True))

    def from_internal_type(self, obj: Sequence[Any] | None) -> Any:
        if obj is None:
            return None
        return tuple(f.from_internal_type(v) for f, v in zip(self.field_types, obj, strict=True))

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self.field_types))})"


class RowTypeInfo(TupleTypeInfo):
    """A :class:`~penstock.core.row.Row`; its fields are called f0, f1, ... unless named."""

    def __init__(
        self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
    ) -> None:
        super().__init__(field_types)
        names = [f"f{i}" for i in range(len(self.field_types))] if field_names is None else list(field_names)
        if len(names) != len(self.field_types):
            raise ConfigError(f"a ROW needs a name per type: {len(names)} names, {len(field_types)} types")
        if len(set(names)) != len(names):
            raise ConfigError(f"the field names of a ROW must differ: {', '.join(names)}")
        self.field_names = names

    def get_field_names(self) -> list[str]:
        """The names of the fields."""
        return self.field_names

    def get_field_index(self, field_name: str) -> int:
        """The position of a field, -1 if there is none of that name."""
        return self.field_names.index(field_name) if field_name in self.field_names else -1

    def parts(self) -> tuple[Any, ...]:
        return tuple(zip(self.field_names, self.field_types, strict=True))

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        values = [obj.get(name) for name in self.field_names] if isinstance(obj, dict) else obj
        return super().to_internal_type(values)

    def from_internal_type(self, obj: Sequence[Any] | None) -> Row | None:
        values = super().from_internal_type(obj)
        return None if values is None else Row.many(self.field_names, [values])[0]

    def __repr__(self) -> str:
        return f"RowTypeInfo({', '.join(f'{name}: {field!r}' for name, field in self.parts())})"


class LocalTimeTypeInfo(TypeInformation):
    """A date, time or timestamp by Java's ``java.time`` names."""

    class TimeType(Enum):
        """Which of the three."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        self.time_type = time_type

    def parts(self) -> tuple[Any, ...]:
        return (self.time_type.name,)

    def arrow_type(self) -> pa.DataType | None:
        return (pa.date32(), pa.time64("us"), pa.timestamp("us"))[self.time_type.value]


class ExternalTypeInfo(TypeInformation):
    """A type taken over from elsewhere; behaves as the type inside."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info

    def parts(self) -> tuple[Any, ...]:
        return (self.type_info,)

    def arrow_type(self) -> pa.DataType | None:
        return self.type_info.arrow_type()
