"""PyFlink's ``table.types``: the types of columns."""

# ruff: noqa: N802 - PyFlink's names

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.common.types import Row, RowKind
from penstock.core.errors import ConfigError

__all__ = ["DataType", "DataTypes", "Row", "RowKind"]


class DataType:
    """The type of a column: Arrow's, and whether it may be null."""

    def __init__(self, arrow: pa.DataType, nullable: bool = True) -> None:
        self.arrow = arrow
        self.nullable = nullable

    def not_null(self) -> DataType:
        """The same, never null."""
        return DataType(self.arrow, False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and (self.arrow, self.nullable) == (other.arrow, other.nullable)

    def __hash__(self) -> int:
        return hash((self.arrow, self.nullable))

    def __repr__(self) -> str:
        return f"{self.arrow}{'' if self.nullable else ' NOT NULL'}"


class DataTypes:
    """Makes types, by the names of PyFlink's.

    >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())])
    struct<id: int64>
    """

    @staticmethod
    def NULL() -> DataType:
        """Without values."""
        return DataType(pa.null())

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """True or false."""
        return DataType(pa.bool_(), nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """A whole number of one byte."""
        return DataType(pa.int8(), nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """A whole number of two bytes."""
        return DataType(pa.int16(), nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """A whole number of four bytes."""
        return DataType(pa.int32(), nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """A whole number of eight bytes."""
        return DataType(pa.int64(), nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """A number of four bytes."""
        return DataType(pa.float32(), nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """A number of eight bytes."""
        return DataType(pa.float64(), nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        """A number of so many digits, so many of them behind the point."""
        return DataType(pa.decimal128(precision, scale), nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """Text."""
        return DataType(pa.string(), nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        """Text; the length is not checked."""
        return DataType(pa.string(), nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        """Text; the length is not checked."""
        return DataType(pa.string(), nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Bytes."""
        return DataType(pa.binary(), nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        """Bytes; the length is not checked."""
        return DataType(pa.binary(), nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """A day."""
        return DataType(pa.date32(), nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        """A time of day."""
        return DataType(pa.time32("ms"), nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """A wall clock's time."""
        return DataType(pa.timestamp(_unit(precision)), nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:
        """A moment."""
        return DataType(pa.timestamp(_unit(precision), "UTC"), nullable)

    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:
        """A list."""
        return DataType(pa.list_(element_type.arrow), nullable)

    LIST_VIEW = ARRAY

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:
        """Values by key."""
        return DataType(pa.map_(key_type.arrow, value_type.arrow), nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> tuple[str, DataType]:
        """A field of a row."""
        return (name, data_type)

    @staticmethod
    def ROW(row_fields: Any = (), nullable: bool = True) -> DataType:
        """A row of fields."""
        fields = [pa.field(name, kind.arrow, kind.nullable) for name, kind in row_fields]
        return DataType(pa.struct(fields), nullable)


def _unit(precision: int) -> str:
    if not 0 <= precision <= 9:
        raise ConfigError(f"a time has from 0 to 9 digits behind the second, not {precision}")
    return ("s", "ms", "us", "ns")[-(-precision // 3)]


def arrow_of(kind: Any) -> pa.DataType:
    """The Arrow type of a :class:`DataType`, of a text such as ``"BIGINT"``, or of itself."""
    if isinstance(kind, DataType):
        return kind.arrow
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        return type_of_text(kind)
    raise ConfigError(f"a type is DataTypes.BIGINT() or 'BIGINT', not {kind!r}")


def type_of_text(text: str) -> pa.DataType:
    """The Arrow type that SQL writes so."""
    from penstock.sql.dialect import one
    from penstock.sql.errors import Text
    from penstock.sql.types import arrow_type

    cast: Any = one(f"SELECT CAST(NULL AS {text})")
    return arrow_type(cast.expressions[0].to, Text(text))
