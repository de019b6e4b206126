"""Column types in files for declared types, also for maps, nested rows and decimals; values of these types.

Streams carry these as objects, because columns would not give them back as they were; see
:func:`penstock.core.typeinfo.to_arrow`.  In a file they have a place.

Values are brought to the type of their column where Arrow does not take them as they are.  Decimals are
rounded to the scale of the column as Flink rounds, half away from zero: ``1.5`` is ``2`` in a column
``decimal(2, 0)``.  What has too many digits in front of the point does not fit and stays an error. Rows
within rows become what Arrow has for them.  Nothing here runs for columns that Arrow takes as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import ConfigError
from penstock.core.row import Row
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
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
"""More digits than any column has, so that only the scale rounds."""
Fit = Callable[[Any], Any]
"""What changes one value that is not ``None``."""


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


def fitted_values(values: Sequence[Any], kind: pa.DataType, strict_decimals: bool) -> Sequence[Any]:
    """Python values for a column of ``kind``; with ``strict_decimals`` without rounding."""
    fit = _fit(kind, strict_decimals)
    return values if fit is None else [_apply(fit, value) for value in values]


def rounded_column(column: Any, kind: pa.DataType) -> Any:
    """A column of decimals brought to the scale of ``kind``; others as they are."""
    both = pa.types.is_decimal(kind) and pa.types.is_decimal(column.type)
    if not both or column.type.scale <= kind.scale:
        return column
    return pc.round(column, ndigits=kind.scale, round_mode="half_towards_infinity")


def parsed_decimals(texts: Any, kind: pa.DataType) -> Any:
    """A column of rounded decimals out of their texts; ``pa.ArrowInvalid`` if one is none."""
    values = []
    for text in texts.to_pylist():
        try:
            values.append(None if text is None else Decimal(text.strip()))
        except ArithmeticError:
            raise pa.ArrowInvalid(f"conversion error to {kind}: invalid value {text!r}") from None
    return pa.array(fitted_values(values, kind, strict_decimals=False), kind)


def _apply(fit: Fit | None, value: Any) -> Any:
    return value if fit is None or value is None else fit(value)


def _fit(kind: pa.DataType, strict: bool) -> Fit | None:
    """``None`` if values of this type stay as they are."""
    if pa.types.is_decimal(kind):
        return None if strict else _rounding(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_struct(kind):
        return _of_struct({field.name: _fit(field.type, strict) for field in kind})
    if pa.types.is_map(kind):
        return _of_map(_fit(kind.key_type, strict), _fit(kind.item_type, strict))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _fit(kind.value_type, strict)
        return None if element is None else lambda value: [_apply(element, each) for each in value]
    return None


def _rounding(step: Decimal) -> Fit:
    def fit(value: Any) -> Any:
        is_number = isinstance(value, Decimal) and value.is_finite()
        return _EXACT.quantize(value, step) if is_number else value

    return fit


def _of_map(keys: Fit | None, values: Fit | None) -> Fit | None:
    if keys is None and values is None:
        return None

    def fit(found: Any) -> Any:
        pairs = found.items() if isinstance(found, dict) else found
        return [(_apply(keys, key), _apply(values, value)) for key, value in pairs]

    return fit


def _of_struct(each: dict[str, Fit | None]) -> Fit:
    """Rows and tuples by name if they have the names, else by place."""

    def fit(value: Any) -> Any:
        named = value
        if isinstance(value, Row) and set(each).issubset(value.field_names() or ()):
            named = value.as_dict()
        if isinstance(named, dict):
            return {name: _apply(one, named.get(name)) for name, one in each.items()}
        if len(value) != len(each):
            known = ", ".join(each)
            raise pa.ArrowInvalid(f"{len(value)} values for {len(each)} fields ({known}): {value!r}")
        return {name: _apply(one, part) for (name, one), part in zip(each.items(), value, strict=True)}

    return fit
