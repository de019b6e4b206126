"""JSON values: to and from columns with a schema, to Python objects without.

Columns are written a column at a time instead of a record at a time.  Each column becomes text in a few
Arrow kernels; one last kernel joins them with the field names. Nested lists and maps, and strings that need
escapes, go through :mod:`json`, and only they. NaN and infinities, which JSON does not have, become ``null``.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.core.batch import Batch
from penstock.core.errors import ConnectorError
from penstock.core.row import Row
from penstock.formats.bad_records import DecodeError
from penstock.formats.value_format import ValueFormat, as_text

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'
_SHOWN = 200
_decode = json.JSONDecoder().decode


def encode_columns(columns: pa.RecordBatch) -> pa.BinaryArray:
    """One JSON object per row."""
    if columns.num_rows == 0:
        return pa.array([], pa.binary())
    return _objects(columns.schema.names, columns.columns, columns.num_rows).cast(pa.binary())


def _objects(names: Sequence[str], arrays: Sequence[pa.Array], count: int) -> pa.StringArray:
    pieces: list[Any] = []
    literal = "{"
    for name, array in zip(names, arrays, strict=True):
        text, quoted = _texts(array)
        quote = '"' if quoted else ""
        pieces += [literal + json.dumps(name, ensure_ascii=False) + ":" + quote, text]
        literal = quote + ","
    if not pieces:
        return pa.array(["{}"] * count, pa.string())
    return pc.binary_join_element_wise(*pieces, literal[:-1] + "}", "")


def _texts(array: pa.Array) -> tuple[pa.StringArray, bool]:
    """The values as JSON text without nulls, and whether quotes are still to be put around each."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _texts(array.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(array.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string()).fill_null("null"), False
    if pa.types.is_floating(kind):
        return _floats(array), False
    if pa.types.is_timestamp(kind):
        return _quoted(pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1))
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _quoted(array.cast(pa.string()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _strings(_utf8(array))
    if pa.types.is_struct(kind):
        inner = _objects([field.name for field in kind], array.flatten(), len(array))
        return pc.if_else(array.is_valid(), inner, "null"), False
    values = [json.dumps(value, ensure_ascii=False, default=str) for value in array.to_pylist()]
    return pa.array(values, pa.string()), False


def _utf8(array: pa.Array) -> pa.StringArray:
    try:
        return array.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as e:
        raise ConnectorError(f"JSON has no bytes, and a binary column is not UTF-8 text: {e}") from e


def _floats(array: pa.Array) -> pa.StringArray:
    """Shortest text that reads back the same; whole numbers keep a ``.0``, so that they stay floats."""
    finite = pc.if_else(pc.is_finite(array), array, pa.scalar(None, array.type))
    text = finite.cast(pa.string())
    values = array.to_numpy(zero_copy_only=False)
    if np.any(values == np.floor(values)):
        plain = pc.invert(pc.match_substring_regex(text, "[.e]"))
        text = pc.if_else(plain, pc.binary_join_element_wise(text, ".0", ""), text)
    return text.fill_null("null")


def _strings(array: pa.StringArray) -> tuple[pa.StringArray, bool]:
    dirty = pc.match_substring_regex(array, _NEEDS_ESCAPE)
    if pc.any(dirty).as_py():
        escaped = [json.dumps(value, ensure_ascii=False)[1:-1] for value in array.filter(dirty).to_pylist()]
        array = pc.replace_with_mask(array, dirty.fill_null(False), pa.array(escaped, pa.string()))
    return _quoted(array)


def _quoted(array: pa.StringArray) -> tuple[pa.StringArray, bool]:
    if array.null_count == 0:
        return array, True
    return pc.binary_join_element_wise('"', array, '"', "").fill_null("null"), False


class Json(ValueFormat):
    """A JSON document per value.

    With a schema every value must be an object, and records are columns: a field that is missing is null,
    a field that the schema does not name is left out.  Without one, records are what ``json.loads`` gives.
    """

    def __init__(self, schema: pa.Schema | None = None) -> None:
        self.schema = schema

    def decode(self, values: pa.BinaryArray) -> pa.RecordBatch | list[Any]:
        texts = as_text(values)
        if self.schema is None:
            return _parsed(texts)
        if len(texts) == 0:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        return _columns(texts, self.schema)

    def encode(self, batch: Batch) -> pa.BinaryArray | list[bytes]:
        if batch.columns is not None:
            return encode_columns(batch.columns)
        return [_text(row).encode() for row in batch.to_rows()]


def _parsed(texts: pa.StringArray) -> list[Any]:
    strings = texts.to_pylist()
    try:
        return [_decode(string) for string in strings]
    except (ValueError, RecursionError):
        raise _first_bad(strings) from None


def _first_bad(strings: list[str]) -> DecodeError:
    for index, string in enumerate(strings):
        try:
            _decode(string)
        except (ValueError, RecursionError) as e:
            return DecodeError(index, f"malformed JSON ({e}): {string[:_SHOWN]}")
    raise AssertionError("all values decode one by one")


def _columns(texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
    """Parse all values in one go or, where that does not work, one by one."""
    batch = parse_columns(texts, schema)
    return _one_by_one(texts.to_pylist(), schema) if batch is None else batch


def parse_columns(texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch | None:
    """Parse all values in one go, as lines; ``None`` if they are not objects that fit the schema.

    That each value is one object is known from this: all begin with ``{`` and end with ``}``, the whole
    parses, and there are as many rows as values.
    """
    if not _all_enclosed(texts):
        texts = pc.ascii_trim_whitespace(texts)
    if _all_enclosed(texts):
        try:
            batch = _parse(texts, schema)
            if batch.num_rows == len(texts):
                return batch
        except pa.ArrowException:
            pass
    return None


def _all_enclosed(texts: pa.StringArray) -> bool:
    return bool(pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py())


def _parse(texts: pa.StringArray, schema: pa.Schema) -> pa.RecordBatch:
    one_list = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    lines = pc.binary_join(one_list, "\n")[0].as_buffer()
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return table.combine_chunks().to_batches()[0]


def _one_by_one(strings: list[str], schema: pa.Schema) -> pa.RecordBatch:
    """The slow way: name the bad value, or, should all be good, parse each."""
    parsed = []
    for index, string in enumerate(strings):
        try:
            value = _decode(string)
            if not isinstance(value, dict):
                raise DecodeError(index, f"not a JSON object: {string[:_SHOWN]}")
            parsed.append(_parse(pa.array([json.dumps(value)]), schema))
        except pa.ArrowException as e:
            raise DecodeError(index, f"does not fit the schema ({e}): {string[:_SHOWN]}") from None
        except (ValueError, RecursionError) as e:
            raise DecodeError(index, f"malformed JSON ({e}): {string[:_SHOWN]}") from None
    return pa.concat_batches(parsed)


def _text(row: Any) -> str:
    try:
        return _encoder.encode(row)
    except ValueError:
        return _encoder.encode(_without_nan(row))


def _plain(value: Any) -> Any:
    """What :mod:`json` cannot write by itself, in terms of what it can."""
    if isinstance(value, Row):
        return value.as_dict() if value.field_names() else list(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "item"):
        return value.item()
    raise ConnectorError(
        f"Json cannot write a {type(value).__name__}: {value!r:.200}. Map it to a dict first."
    )


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return value if isinstance(value, (str, int, type(None))) else _without_nan(_plain(value))


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
