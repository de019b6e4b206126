"""Key to key group, and key group to subtask.

One hash, stable across processes, machines and versions.  The vectorised hash of a column equals the scalar
hash of each value, because both go through :func:`hash_values`.  Numbers that Python holds equal (``1``,
``1.0``, ``True``) hash equal, since keyed state compares keys as Python does.  ``None`` is no key; inside a
tuple it may stand.

The formulas are part of the snapshot format: changing one orphans the state of keys of that kind in every
snapshot.  When it must be done, the format's version is raised and a restore hashes such keys anew.

A subtask owns a contiguous range of key groups; the ranges are as even as possible.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import uuid
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.error_codes import Code
from penstock.core.errors import KeyError_
from penstock.core.ids import KeyGroup, SubtaskIndex
from penstock.core.keys import compared_fields, int_text, is_plain_member, number_of, time_text
from penstock.core.row import Row

Hashes = npt.NDArray[np.uint64]

_P = np.uint64(0x9E3779B97F4A7C15 | 1)
_NONE = 0x5851F42D4C957F2D
_MASK = 2**64 - 1

_TAG_FLOAT, _TAG_STR, _TAG_BYTES, _TAG_TUPLE, _TAG_OTHER = 3, 5, 7, 11, 13


def _mix(x: Hashes) -> Hashes:
    """SplitMix64's finaliser: every input bit reaches every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _mix_int(x: int) -> int:
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def hash_integers(values: npt.NDArray[np.int64]) -> Hashes:
    """Hash of each number, as :func:`hash_array` has it."""
    return _mix(values.astype(np.uint64, copy=False) + _P)


def _hash_float64(values: npt.NDArray[np.float64]) -> Hashes:
    """Whole numbers hash as that integer; the rest by their bits."""
    nans = np.isnan(values)
    if nans.any():
        values = np.where(nans, np.nan, values)
    whole = values == np.floor(values)
    fits = whole & (values >= -(2.0**63)) & (values < 2.0**63)
    as_int = np.where(fits, values, 0.0).astype(np.int64)
    bits = values.view(np.uint64) + np.uint64(_TAG_FLOAT)
    hashes = np.where(fits, hash_integers(as_int), _mix(bits * _P))
    for place in np.nonzero(whole & ~fits & np.isfinite(values))[0]:
        hashes[place] = _scalar(int(values[place]))
    return hashes


def _hash_binary(array: pa.Array, tag: int) -> Hashes:
    """Polynomial over the bytes modulo 2**64, then length and tag mixed in: no Python loop."""
    count = len(array)
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    large = array.cast(pa.large_string() if is_text else pa.large_binary())
    _, offsets_buffer, data_buffer = large.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, count + 1, large.offset * 8)
    lengths = np.diff(offsets)
    sums = np.zeros(count, np.uint64)
    total = int(offsets[-1] - offsets[0])
    if total:
        data = np.frombuffer(data_buffer, np.uint8, total, int(offsets[0])).astype(np.uint64)
        data += np.uint64(1)
        position = np.arange(total, dtype=np.int64) - np.repeat(offsets[:-1] - offsets[0], lengths)
        filled = lengths > 0
        starts = (offsets[:-1] - offsets[0])[filled]
        sums[filled] = np.add.reduceat(data * _powers(int(lengths.max()))[position], starts)
    return _mix(sums + lengths.astype(np.uint64) * _P + np.uint64(tag))


def _hash_strings(values: Sequence[str]) -> Hashes:
    """Lone surrogates have no UTF-8; they are hashed as the three bytes that they would have."""
    try:
        array = pa.array(values, pa.large_string())
    except UnicodeEncodeError:
        array = pa.array([value.encode("utf-8", "surrogatepass") for value in values], pa.large_binary())
    return _hash_binary(array, _TAG_STR)


_SHORT = 64
_POWER_INTS = tuple(pow(int(_P), n, 2**64) for n in range(_SHORT))
_POWER_SUMS = (0, *accumulate(_POWER_INTS))


def _hash_text(value: str) -> int:
    """What :func:`_hash_strings` gives for one text; for short ones without the detour over arrays."""
    data = value.encode("utf-8", "surrogatepass")
    length = len(data)
    if length > _SHORT:
        return int(_hash_strings([value])[0])
    return _mix_int(sum(map(mul, data, _POWER_INTS)) + _POWER_SUMS[length] + length * int(_P) + _TAG_STR)


_POWERS = np.ones(1, np.uint64)


def _powers(count: int) -> Hashes:
    """``P**0 .. P**(count-1)`` modulo 2**64, grown on demand."""
    global _POWERS
    if len(_POWERS) < count:
        grown = np.full(max(count, 64), _P, np.uint64)
        grown[0] = 1
        _POWERS = np.multiply.accumulate(grown)
    return _POWERS


def hash_array(array: pa.Array) -> Hashes:
    """Hash of each value of an Arrow array. A null is an error: ``None`` cannot be a key."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count:
        raise KeyError_(
            "a key is null; filter such records out or give them a key before key_by", code=Code.KEY_NULL
        )
    kind = array.type
    if pa.types.is_dictionary(kind):
        codes = array.indices.to_numpy(zero_copy_only=False)
        hashes: Hashes = hash_array(array.dictionary)[codes]
        return hashes
    if pa.types.is_boolean(kind):
        return hash_integers(array.cast(pa.int8()).to_numpy(zero_copy_only=False).astype(np.int64))
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return hash_integers(array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))
    if pa.types.is_floating(kind):
        return _hash_float64(array.to_numpy(zero_copy_only=False).astype(np.float64))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _hash_binary(array, _TAG_STR)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _hash_binary(array, _TAG_BYTES)
    return hash_values(array.to_pylist())


def hash_nullable(array: pa.Array) -> Hashes:
    """The same, where a null is a value like any other."""
    if not array.null_count:
        return hash_array(array)
    hashes = np.full(len(array), _NONE, np.uint64)
    hashes[array.is_valid().to_numpy(zero_copy_only=False)] = hash_array(array.drop_null())
    return hashes


def hash_values(values: Sequence[Any], kinds: set[type] | None = None) -> Hashes:
    """Hash of each Python value; homogeneous numbers, strings and bytes take the vectorised way.

    ``kinds``: their types, if known.
    """
    if kinds is None:
        kinds = set(map(type, values))
    if len(kinds) == 1:
        (kind,) = kinds
        if kind is str:
            return _hash_strings(values)
        if kind is bytes:
            return _hash_binary(pa.array(values, pa.large_binary()), _TAG_BYTES)
        if kind is float:
            return _hash_float64(np.array(values, np.float64))
        if kind is int or kind is bool:
            try:
                return hash_integers(np.array(values, np.int64))
            except OverflowError:
                pass
    return np.array([hash_value(value) for value in values], np.uint64)


def hash_value(value: Any) -> int:
    """Hash of one key."""
    if value is None:
        raise KeyError_(
            "a key is None; filter such records out or give them a key before key_by", code=Code.KEY_NULL
        )
    return _scalar(value)


def _scalar(value: Any) -> int:
    if value is None:
        return _NONE
    kind = type(value)
    if kind is str:
        return _hash_text(value)
    if kind is not int and is_plain_member(value):
        return _tagged(_TAG_OTHER, f"{type(value).__qualname__}.{value.name}")
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        number = int(value)
        if -(2**63) <= number < 2**63:
            return _mix_int(number + int(_P))
        return _tagged(_TAG_OTHER, f"int:{int_text(number)}")
    if isinstance(value, (float, np.floating)):
        return int(_hash_float64(np.array([value], np.float64))[0])
    if isinstance(value, str):
        return _hash_text(value)
    if isinstance(value, (bytes, bytearray)):
        return int(_hash_binary(pa.array([bytes(value)], pa.large_binary()), _TAG_BYTES)[0])
    if isinstance(value, (tuple, Row)):
        return _sequence(value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, (dt.date, dt.time, dt.timedelta)):
        return _tagged(_TAG_OTHER, time_text(value))
    if isinstance(value, uuid.UUID):
        return _tagged(_TAG_OTHER, f"UUID:{value}")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _sequence([getattr(value, name) for name in compared_fields(type(value))])
    raise KeyError_(
        f"a key of type {type(value).__name__} has no stable hash; use a number, string, bytes, "
        "date or time, Decimal, UUID, Enum, or a tuple, Row or dataclass of these",
        code=Code.KEY_UNSTABLE,
    )


def _sequence(items: Any) -> int:
    mixed = _TAG_TUPLE
    for item in items:
        mixed = _mix_int(mixed * int(_P) + _scalar(item))
    return mixed


def _decimal(value: decimal.Decimal) -> int:
    equal = number_of(value)
    return _tagged(_TAG_OTHER, f"decimal:{equal}") if isinstance(equal, str) else _scalar(equal)


def _tagged(tag: int, text: str) -> int:
    return _mix_int(int(_hash_binary(pa.array([text], pa.large_string()), tag)[0]) * int(_P) + tag)


def key_groups(hashes: Hashes, max_parallelism: int) -> npt.NDArray[np.int64]:
    """Key group of each hash."""
    return (hashes % np.uint64(max_parallelism)).astype(np.int64)


def combine_columns(columns: Sequence[pa.Array]) -> Hashes:
    """Hash of tuples given column by column; equals :func:`hash_value` of each tuple."""
    with np.errstate(over="ignore"):
        mixed = np.full(len(columns[0]), _TAG_TUPLE, np.uint64)
        for column in columns:
            if column.null_count:
                filled = [_scalar(value) for value in column.to_pylist()]
                hashes = np.array(filled, np.uint64)
            else:
                hashes = hash_array(column)
            mixed = _mix(mixed * _P + hashes)
    return mixed


def key_group_range(
    subtask: SubtaskIndex, parallelism: int, max_parallelism: int
) -> tuple[KeyGroup, KeyGroup]:
    """First and last key group (inclusive) of a subtask."""
    first = -(-subtask * max_parallelism // parallelism)
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return KeyGroup(first), KeyGroup(last)


@overload
def owner(group: KeyGroup, parallelism: int, max_parallelism: int) -> SubtaskIndex: ...


@overload
def owner(group: npt.NDArray[np.int64], parallelism: int, max_parallelism: int) -> npt.NDArray[np.int64]: ...


def owner(group: Any, parallelism: int, max_parallelism: int) -> Any:
    """The subtask that owns a key group, or each of many: the inverse of :func:`key_group_range`."""
    return group * parallelism // max_parallelism
