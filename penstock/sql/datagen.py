"""The connector ``datagen``: columns made of the numbers of rows, so that a restart makes them again."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.datastream.connectors.data_gen import DataGeneratorSource
from penstock.sql.options import Options

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_RANGES = {pa.int8(): 2**7, pa.int16(): 2**15, pa.int32(): 2**31, pa.int64(): 2**63}
Column = Callable[[np.ndarray], pa.Array]


class _Rows:
    """The rows of some numbers."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    def __call__(self, numbers: Any) -> pa.RecordBatch:
        return pa.record_batch({name: make(numbers) for name, make in self._columns.items()})

    def narrowed(self, columns: Collection[str]) -> _Rows:
        """Of some columns."""
        return _Rows({name: make for name, make in self._columns.items() if name in columns})


def datagen(schema: pa.Schema, options: Options) -> DataGeneratorSource:
    """The source; bounded by ``number-of-rows``, or by the shortest sequence."""
    rate = options.number("rows-per-second", 10_000)
    counts = [it for it in [options.number("number-of-rows")] if it is not None]
    columns: dict[str, Column] = {}
    for field in schema:
        at = f"fields.{field.name}."
        if options.one_of(f"{at}kind", ("random", "sequence"), "random") == "sequence":
            columns[field.name], count = _sequence(field, options, at)
            counts.append(count)
        else:
            columns[field.name] = _random(field, options, at)
    return DataGeneratorSource(_Rows(columns), min(counts, default=None), rate, columns=True)


class _Sequence:
    def __init__(self, start: int, kind: pa.DataType) -> None:
        self._start = start
        self._kind = kind

    def __call__(self, numbers: np.ndarray) -> pa.Array:
        return pa.array(numbers + self._start, pa.int64()).cast(self._kind)


def _sequence(field: pa.Field, options: Options, at: str) -> tuple[Column, int]:
    start, end = options.number(f"{at}start"), options.number(f"{at}end")
    if start is None or end is None or end < start:
        raise ConfigError(f"a sequence needs '{at}start' and '{at}end', the first not larger than the second")
    if not (kinds.is_integer(field.type) or kinds.is_floating(field.type) or kinds.is_string(field.type)):
        raise ConfigError(f"column {field.name!r} is {field.type}, and a sequence is of numbers or texts")
    return _Sequence(start, field.type), end - start + 1


class _Random:
    """Values by a hash of the row's number and the column's name."""

    def __init__(self, name: str, null_rate: float, make: Callable[[np.ndarray], pa.Array]) -> None:
        self._seed = np.uint64(zlib.crc32(name.encode()))
        self._null_rate = null_rate
        self._make = make

    def __call__(self, numbers: np.ndarray) -> pa.Array:
        bits = _mixed(numbers.astype(np.uint64), self._seed)
        made = self._make(bits)
        if not self._null_rate:
            return made
        absent = _unit(_mixed(bits, np.uint64(1))) < self._null_rate
        return pc.if_else(pa.array(~absent), made, pa.scalar(None, made.type))


def _mixed(numbers: np.ndarray, seed: np.uint64) -> np.ndarray:
    """Bits that look random, the same for the same numbers."""
    with np.errstate(over="ignore"):
        bits = numbers * np.uint64(0x9E3779B97F4A7C15) + seed * np.uint64(0xD1B54A32D192ED03)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def _unit(bits: np.ndarray) -> np.ndarray:
    return (bits >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def _random(field: pa.Field, options: Options, at: str) -> Column:
    null_rate = options.fraction(f"{at}null-rate")
    kind = field.type
    if kinds.is_integer(kind):
        limit = _RANGES[kind]
        low = options.number(f"{at}min", -limit)
        high = options.number(f"{at}max", limit - 1)
        assert low is not None and high is not None
        if not -limit <= low <= high < limit:
            raise ConfigError(f"'{at}min' and '{at}max' must be in order and fit into {kind}")
        return _Random(field.name, null_rate, _Integers(low, high, kind))
    if kinds.is_floating(kind) or kinds.is_decimal(kind):
        low_, high_ = options.fraction(f"{at}min", 0.0), options.fraction(f"{at}max", 1.0)
        return _Random(field.name, null_rate, _Floats(low_, high_, kind))
    if kinds.is_string(kind) or kinds.is_binary(kind):
        length = options.number(f"{at}length", 100)
        assert length is not None
        return _Random(field.name, null_rate, _Texts(max(1, length), kind))
    if kinds.is_boolean(kind):
        return _Random(field.name, null_rate, _booleans)
    if kinds.is_timestamp(kind):
        past = options.millis(f"{at}max-past") or 0
        return _Random(field.name, null_rate, _Times(past, kind))
    raise ConfigError(f"datagen makes no {kind} for column {field.name!r}; compute it of others: name AS ...")


class _Integers:
    def __init__(self, low: int, high: int, kind: pa.DataType) -> None:
        self._low, self._span, self._kind = low, high - low + 1, kind

    def __call__(self, bits: np.ndarray) -> pa.Array:
        if self._span >= 2**64:
            return pa.array(bits.view(np.int64), self._kind)
        with np.errstate(over="ignore"):
            low = np.uint64(self._low % 2**64)
            return pa.array((bits % np.uint64(self._span) + low).view(np.int64)).cast(self._kind)


class _Floats:
    def __init__(self, low: float, high: float, kind: pa.DataType) -> None:
        self._low, self._high, self._kind = low, high, kind

    def __call__(self, bits: np.ndarray) -> pa.Array:
        made = pa.array(self._low + _unit(bits) * (self._high - self._low))
        if kinds.is_decimal(self._kind):
            made = pc.round(made, ndigits=self._kind.scale)
        return made.cast(self._kind)


class _Texts:
    """Hexadecimal digits."""

    def __init__(self, length: int, kind: pa.DataType) -> None:
        self._length, self._kind = length, kind

    def __call__(self, bits: np.ndarray) -> pa.Array:
        words = -(-self._length // 16)
        places = np.arange(16, dtype=np.uint64) * np.uint64(4)
        parts = [
            _HEX[(_mixed(bits, np.uint64(at))[:, None] >> places) & np.uint64(15)] for at in range(words)
        ]
        letters = np.ascontiguousarray(np.concatenate(parts, axis=1)[:, : self._length])
        offsets = np.arange(len(bits) + 1, dtype=np.int32) * self._length
        made = pa.Array.from_buffers(
            pa.string(), len(bits), [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
        )
        return made.cast(self._kind)


def _booleans(bits: np.ndarray) -> pa.Array:
    return pa.array((bits & np.uint64(1)).astype(bool))


class _Times:
    """Times before now, as in Flink: the one column that another run makes otherwise."""

    def __init__(self, past_ms: int, kind: pa.DataType) -> None:
        self._past, self._kind = past_ms, kind

    def __call__(self, bits: np.ndarray) -> pa.Array:
        back = (bits % np.uint64(self._past + 1)).astype(np.int64)
        now = SystemClock().now_ms()
        return pa.array(now - back, pa.timestamp("ms", self._kind.tz)).cast(self._kind)
