"""Types as SQL writes them, in Arrow's terms."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.sql.errors import Text

_T = exp.DataType.Type
_PLAIN: dict[Any, pa.DataType] = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.CHAR: pa.string(),
    _T.VARCHAR: pa.string(),
    _T.NCHAR: pa.string(),
    _T.NVARCHAR: pa.string(),
    _T.TEXT: pa.string(),
    _T.BINARY: pa.binary(),
    _T.VARBINARY: pa.binary(),
    _T.DATE: pa.date32(),
    _T.TIME: pa.time32("ms"),
}
FIXED_TEXTS = (_T.CHAR, _T.NCHAR)
TEXTS = (_T.VARCHAR, _T.NVARCHAR)
_WRITTEN = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR, VARCHAR, STRING, BYTES, "
    "DATE, "
    "TIME, TIMESTAMP(p), TIMESTAMP_LTZ(p), ARRAY<t>, MAP<k, v> and ROW<name t, ...>"
)
_MOMENTS = {_T.TIMESTAMP, _T.DATETIME, _T.TIMESTAMPNTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPTZ}
_ZONED = {_T.TIMESTAMPLTZ, _T.TIMESTAMPTZ}
_UNITS = ("s", "ms", "us", "ns")
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3_600, "DAY": 86_400, "WEEK": 604_800}
_MILLIS = {"MILLISECOND": 1, "MICROSECOND": 0.001}


def arrow_type(kind: exp.DataType, text: Text) -> pa.DataType:
    """The Arrow type of a type; what there is not is refused with those that there are."""
    found = kind.this
    if found in _PLAIN:
        return _PLAIN[found]
    if found in _MOMENTS:
        return pa.timestamp(_unit(kind, text), "UTC" if found in _ZONED else None)
    if found is _T.DECIMAL:
        digits = [int(str(part)) for part in kind.expressions]
        precision, scale = [*digits, *(10, 0)[len(digits) :]][:2]
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise text.refuse(kind, f"DECIMAL({precision}, {scale}) has from 1 to 38 digits in all")
        return pa.decimal128(precision, scale)
    if found in (_T.ARRAY, _T.LIST) and len(kind.expressions) == 1:
        return pa.list_(arrow_type(kind.expressions[0], text))
    if found is _T.MAP and len(kind.expressions) == 2:
        key, value = (arrow_type(part, text) for part in kind.expressions)
        return pa.map_(key, value)
    if found is _T.STRUCT and kind.expressions:
        return pa.struct([_field(part, text) for part in kind.expressions])
    raise text.refuse(kind, f"there is no type {kind.sql()}; there are {_WRITTEN}")


def _field(part: exp.Expr, text: Text) -> pa.Field:
    if not isinstance(part, exp.ColumnDef) or part.kind is None:
        raise text.refuse(part, f"a field of a ROW is a name and a type, not {part.sql()}")
    return pa.field(part.name, arrow_type(part.kind, text))


def _unit(kind: exp.DataType, text: Text) -> str:
    digits = int(str(kind.expressions[0])) if kind.expressions else 3
    if not 0 <= digits <= 9:
        raise text.refuse(kind, f"a time has from 0 to 9 digits behind the second, not {digits}")
    return _UNITS[-(-digits // 3)]


def interval(node: exp.Expr, text: Text) -> dt.timedelta:
    """A constant length of time: ``INTERVAL '10' SECOND``, or a sum of these."""
    if isinstance(node, exp.Paren):
        return interval(node.this, text)
    if isinstance(node, exp.Neg):
        return -interval(node.this, text)
    if isinstance(node, exp.Add):
        return interval(node.this, text) + interval(node.expression, text)
    if not isinstance(node, exp.Interval):
        raise text.refuse(node, f"{node.sql()} is no constant length of time; write INTERVAL '10' SECOND")
    unit = node.args.get("unit")
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    number = _number(node, text)
    if name in _SECONDS:
        return dt.timedelta(seconds=float(number * _SECONDS[name]))
    if name in _MILLIS:
        return dt.timedelta(milliseconds=float(number) * _MILLIS[name])
    raise text.refuse(
        node,
        f"an interval of {name or 'no unit'} has no fixed length here; there are MILLISECOND, SECOND, "
        "MINUTE, "
        "HOUR, DAY and WEEK, as in INTERVAL '10' SECOND",
    )


def _number(node: exp.Interval, text: Text) -> Decimal:
    try:
        return Decimal(node.this.name if node.this is not None else "")
    except InvalidOperation:
        raise text.refuse(node, f"{node.sql()} holds no number; write INTERVAL '10' SECOND") from None
