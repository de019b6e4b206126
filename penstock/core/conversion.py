"""Values brought to the type a stream declares, as they would be on the other side of PyFlink's JVM.

A declared type is visible in a program: INT, SHORT and BYTE refuse what does not fit, FLOAT has 32 bits, a
tuple in a ROW stream comes out as a :class:`~penstock.core.row.Row`.  :func:`converter` makes the function
that does this to many values at once, column by column.  It is ``None`` for types whose values stay as they
are, so streams without a type, and those of text or long numbers, pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.core.error_codes import Code
from penstock.core.errors import TypeMismatchError
from penstock.core.row import Row
from penstock.core.type_tree import (
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

Convert = Callable[[Sequence[Any]], Sequence[Any]]
"""Many values at once. Returns its argument itself if nothing had to change."""

_MISSING = type(None)
_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32}


def converter(type_info: TypeInformation | None) -> Convert | None:
    """What brings values to ``type_info``; ``None`` if they are it already."""
    match type_info:
        case ExternalTypeInfo():
            return converter(type_info.type_info)
        case RowTypeInfo():
            return _rows(type_info)
        case TupleTypeInfo():
            return _tuples(type_info)
        case BasicTypeInfo() if type_info.basic_type in _BITS:
            return _integers(type_info, _BITS[type_info.basic_type])
        case BasicTypeInfo(basic_type=BasicType.FLOAT):
            return _floats(type_info, single=True)
        case BasicTypeInfo(basic_type=BasicType.DOUBLE):
            return _floats(type_info, single=False)
        case MapTypeInfo():
            return _maps(type_info)
        case PrimitiveArrayTypeInfo(element_type=BasicTypeInfo(basic_type=BasicType.BYTE)):
            return None
        case ListTypeInfo():
            return _lists(type_info.element_type)
        case _:
            element = getattr(type_info, "element_type", None)
            return _lists(element) if isinstance(element, TypeInformation) else None


def convert_all(values: Sequence[Any], type_info: TypeInformation | None) -> Sequence[Any]:
    """``values`` brought to ``type_info``."""
    convert = converter(type_info)
    return values if convert is None else convert(values)


def _present(convert: Callable[[Sequence[Any], set[type]], Sequence[Any]]) -> Convert:
    """For values that may be missing, a conversion of those that are not: ``None`` stays ``None``.

    ``convert`` is called with one value or more and the set of their classes.
    """

    def apply(values: Sequence[Any]) -> Sequence[Any]:
        kinds = set(map(type, values))
        if _MISSING not in kinds:
            return convert(values, kinds) if kinds else values
        kinds.remove(_MISSING)
        if not kinds:
            return values
        done = iter(convert([value for value in values if value is not None], kinds))
        return [None if value is None else next(done) for value in values]

    return apply


def _integers(type_info: BasicTypeInfo, bits: int) -> Convert:
    half = 1 << (bits - 1)

    def apply(values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        _refuse_others(values, kinds, type_info, int, np.integer)
        if -half <= min(values) and max(values) < half:
            return values
        wrong = next(value for value in values if not -half <= value < half)
        raise TypeMismatchError(
            f"the stream declares {type_info!r}, which has {bits} bits, but a value is {wrong}; declare LONG "
            "or BIG_INT",
            code=Code.DECLARED_TYPE,
        )

    return _present(apply)


def _floats(type_info: BasicTypeInfo, single: bool) -> Convert:
    def apply(values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        _refuse_others(values, kinds, type_info, float, int, np.floating, np.integer)
        if single:
            return list(np.array(values, dtype=np.float32).astype(np.float64).tolist())
        return values if kinds <= {float} else list(map(float, values))

    return _present(apply)


def _refuse_others(
    values: Sequence[Any], kinds: set[type], type_info: TypeInformation, *allowed: type
) -> None:
    for kind in kinds:
        if not issubclass(kind, allowed):
            example = next(value for value in values if type(value) is kind)
            raise TypeMismatchError(
                f"the stream declares {type_info!r}, but a value is {example!r}, a {kind.__name__}; change "
                "the declared type or what the function returns",
                code=Code.DECLARED_TYPE,
            )


def _columns(rows: Sequence[Any], type_info: TupleTypeInfo, fields: list[Convert | None]) -> list[Any] | None:
    """The converted columns of ``rows``; ``None`` if no value changed."""
    if set(map(len, rows)) != {len(fields)}:
        wrong = next(row for row in rows if len(row) != len(fields))
        raise TypeMismatchError(
            f"the stream declares {type_info!r}, with {len(fields)} fields, but a value has {len(wrong)}: "
            f"{wrong!r}; change the declared type or what the function returns",
            code=Code.DECLARED_TYPE,
        )
    if not any(fields):
        return None
    columns = list(zip(*rows, strict=True))
    done = [values if field is None else field(values) for field, values in zip(fields, columns, strict=True)]
    same = all(new is old for new, old in zip(done, columns, strict=True))
    return None if same else done


def _tuples(type_info: TupleTypeInfo) -> Convert:
    fields = [converter(field) for field in type_info.field_types]

    def apply(values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        _refuse_others(values, kinds, type_info, tuple, list, Row)
        columns = _columns(values, type_info, fields)
        if columns is not None:
            return list(zip(*columns, strict=True))
        return values if kinds == {tuple} else list(map(tuple, values))

    return _present(apply)


def _rows(type_info: RowTypeInfo) -> Convert:
    fields = [converter(field) for field in type_info.field_types]
    names = tuple(type_info.field_names)
    untouched = not any(fields)
    only_rows = {Row}
    name = Row.numbered if names == tuple(f"f{i}" for i in range(len(names))) else Row.renamed

    def apply(values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
        _refuse_others(values, kinds, type_info, Row, tuple, list, dict)
        if untouched and kinds == only_rows and Row.widths(values) == {len(names)}:
            return name(names, values)
        if Row in kinds and not (kinds == only_rows and Row.have_names(values, names)):
            values = Row.arranged(names, values)
        plain = values
        if dict in kinds:
            plain = [[v.get(name) for name in names] if isinstance(v, dict) else v for v in values]
        columns = _columns(plain, type_info, fields)
        if columns is None and kinds == only_rows:
            return name(names, values)
        rows = Row.many(names, map(tuple, plain) if columns is None else zip(*columns, strict=True))
        if Row in kinds:
            _keep_kinds(values, rows)
        return rows

    return _present(apply)


def _keep_kinds(values: Sequence[Any], rows: list[Row]) -> None:
    for value, row in zip(values, rows, strict=True):
        if isinstance(value, Row):
            row.set_row_kind(value.get_row_kind())


def _lists(element: TypeInformation) -> Convert | None:
    convert = converter(element)
    if convert is None:
        return None
    return _present(lambda values, _: [list(convert(value)) for value in values])


def _maps(type_info: MapTypeInfo) -> Convert | None:
    keys, values = converter(type_info.key_type), converter(type_info.value_type)
    if keys is None and values is None:
        return None

    def one(entry: dict[Any, Any]) -> dict[Any, Any]:
        left, right = list(entry), list(entry.values())
        return dict(zip(keys(left) if keys else left, values(right) if values else right, strict=True))

    return _present(lambda entries, _: list(map(one, entries)))
