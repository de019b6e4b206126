"""Values as text, the way a Flink job would show them.

Programs that print or compare text see Java's renderings of typed values: ``null``, ``true``, a tuple
as ``(a,1)``, a row as ``+I[a, 1]``, bytes as ``[102, 108]``.  A stream without a type shows ``str``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.core.durations import Instant
from penstock.core.row import Row
from penstock.core.type_tree import (
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)


def java_text(value: Any, type_info: TypeInformation | None = None, *, spaced: bool = False) -> str:
    """``value`` of a stream of ``type_info`` as ``print()`` shows it.

    ``print()`` renders a row in Python, each field by ``str``, and everything else in Java.  With
    ``spaced`` rows are rendered in Java too, as sinks do: fields are joined by ``, ``.
    """
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return str(value)
    if isinstance(value, Row) and not spaced:
        return f"{value.get_row_kind()}[{','.join(map(str, value))}]"
    return _text(value, type_info)


def _text(value: Any, type_info: TypeInformation | None) -> str:
    if isinstance(type_info, ExternalTypeInfo):
        return _text(value, type_info.type_info)
    if value is None:
        return "null"
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{', '.join(_fields(list(value), type_info))}]"
    if isinstance(value, tuple):
        return f"({','.join(_fields(value, type_info))})"
    if isinstance(value, dict):
        keys, values = None, None
        if isinstance(type_info, MapTypeInfo):
            keys, values = type_info.key_type, type_info.value_type
        pairs = (f"{_text(k, keys)}={_text(v, values)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        element = getattr(type_info, "element_type", None)
        return f"[{', '.join(_text(item, element) for item in value)}]"
    if isinstance(value, float | np.floating):
        return _float_text(value, type_info)
    render = _SIMPLE.get(type(value))
    return str(value) if render is None else render(value)


def _fields(values: Sequence[Any], type_info: TypeInformation | None) -> list[str]:
    types: Sequence[TypeInformation | None] = (
        type_info.field_types if isinstance(type_info, TupleTypeInfo) else [None] * len(values)
    )
    return [_text(value, field) for value, field in zip(values, types, strict=False)]


def _float_text(value: float | np.floating[Any], type_info: TypeInformation | None) -> str:
    """Shortest digits that identify the number, with Java's rules for the exponent."""
    single = isinstance(type_info, BasicTypeInfo) and type_info.basic_type is BasicType.FLOAT
    shortest = str(np.float32(value)) if single else repr(float(value))
    if shortest in ("nan", "inf", "-inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[shortest]
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0.0"
    if -3 < point <= 7:
        whole = text[: max(point, 0)].ljust(max(point, 0), "0") or "0"
        fraction = "0" * max(-point, 0) + text[max(point, 0) :]
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _signed_bytes(value: bytes | bytearray) -> str:
    return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"


def _timestamp(value: dt.datetime) -> str:
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _instant(value: Instant) -> str:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=value.seconds)
    text = f"{moment:%Y-%m-%dT%H:%M:%S}"
    for nanos_per_unit, width in ((1_000_000, 3), (1_000, 6), (1, 9)):
        if value.nanos and value.nanos % nanos_per_unit == 0:
            return f"{text}.{value.nanos // nanos_per_unit:0{width}d}Z"
    return f"{text}Z"


_SIMPLE: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    bytes: _signed_bytes,
    bytearray: _signed_bytes,
    dt.datetime: _timestamp,
    dt.time: lambda value: f"{value:%H:%M:%S}",
    Instant: _instant,
}
